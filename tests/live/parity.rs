//! The pure headers as bytecode give what they give natively.

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{ProgramInput, ProgramMut};
use proptest::prelude::*;
use scx_vrq::policy;
use std::mem::MaybeUninit;

mod skel {
    #![allow(
        clippy::all,
        clippy::unwrap_used,
        clippy::undocumented_unsafe_blocks,
        dead_code,
        non_camel_case_types,
        non_snake_case
    )]
    include!(concat!(env!("OUT_DIR"), "/parity_skel.rs"));
}

const NR: usize = 17;

fn bytecode(prog: &mut ProgramMut, args: [u64; 3]) -> [u64; NR] {
    let mut ctx: Vec<u8> = args.iter().flat_map(|a| a.to_ne_bytes()).collect();
    ctx.resize(8 * (3 + NR), 0);
    prog.test_run(ProgramInput { context_in: Some(&mut ctx), ..Default::default() }).expect("BPF_PROG_TEST_RUN");
    let mut result = [0; NR];
    for (r, bytes) in result.iter_mut().zip(ctx.chunks_exact(8).skip(3)) {
        *r = u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
    }
    result
}

fn native([a, b, c]: [u64; 3]) -> [u64; NR] {
    let (x, y, z) = (a as u32, b as u32, c as u32);
    [
        policy::user_prio(x).into(),
        policy::prio_ratio(x).into(),
        policy::class(x) as u64,
        policy::slice_ns(z),
        policy::slice_expired(a).into(),
        policy::slice_left_ns(a, b),
        policy::must_refill(a, y).into(),
        policy::fork_share_ns(a),
        policy::deadline_offset_ns(x, z),
        policy::deadline(b, x, z),
        policy::key(policy::class(x), b),
        policy::key_deadline(a),
        policy::renice_deadline(a, x, y, z),
        policy::can_preempt(a, b).into(),
        policy::prev_wins(a, b).into(),
        policy::resched_best_idle(x & 1, y & 1 != 0, y & 2 != 0, y & 4 != 0).into(),
        policy::goidle_path(y & 1 != 0, y & 2 != 0, y & 4 != 0) as u64,
    ]
}

#[test]
fn bytecode_and_native_agree() {
    let mut object = MaybeUninit::uninit();
    let skel = skel::ParitySkelBuilder::default().open(&mut object).expect("open").load().expect("load");
    let skel = std::cell::RefCell::new(skel);
    let value = || prop_oneof![any::<u64>(), 0u64..200, 90_000u64..120_000, 0u64..2_000_000_000];
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(2000));
    runner
        .run(&(value(), value(), value()), |(a, b, c)| {
            let args = [a, b, c];
            prop_assert_eq!(
                bytecode(&mut skel.borrow_mut().progs.vrq_parity, args),
                native(args),
                "arguments {:?}",
                args
            );
            Ok(())
        })
        .expect("bytecode and native agree");
}
