//! On one CPU: shares, preemption, who goes first.

use crate::guest::*;
use crate::harness::*;
use scx_vrq::policy;
use std::sync::atomic::Ordering;
use std::time::Duration;

const TICK_MS: u64 = 4;

/// A machine for two hogs: one CPU, slices that end on a tick. Returns the better one's share in
/// percent. The rule is the policy's own arithmetic; only the clock is added.
fn share_by_the_rule(nice: [i32; 2]) -> f64 {
    let rr = policy::VRQ_RR_INTERVAL_DFL_MS;
    let slice = (policy::slice_ns(rr) / 1_000_000).div_ceil(TICK_MS) * TICK_MS * 1_000_000;
    let offset = nice.map(|n| policy::deadline_offset_ns((n + 20) as u32, rr));
    let (mut now, mut deadline, mut ran) = (0, offset, [0u64; 2]);
    let mut running = 0;
    for _ in 0..100_000 {
        now += slice;
        ran[running] += slice;
        deadline[running] = now + offset[running];
        let other = 1 - running;
        if !policy::prev_wins(deadline[running], deadline[other]) {
            running = other;
        }
    }
    ran[0] as f64 * 100.0 / (ran[0] + ran[1]) as f64
}

#[test]
fn shares_by_the_rule_with_slices_of_two_ticks() {
    // 6 ms slices end after 8 ms at HZ 250; ceil((r_w - r_b) * 6 / (128 * 8)) slices of the better one.
    for (nice, wanted) in [([0, 0], 50.0), ([0, 1], 50.0), ([0, 5], 75.0), ([0, 19], 96.15), ([-20, 0], 83.33)] {
        let share = share_by_the_rule(nice);
        assert!((share - wanted).abs() < 0.1, "{nice:?}: {share}");
    }
}

fn assert_share(nice: [i32; 2]) {
    let wanted = share_by_the_rule(nice);
    let _vrq = Vrq::start(&[]);
    let hogs = Hogs::start(&nice.map(|nice| Hog { nice, ..Hog::default() }));
    let share = hogs.shares(Duration::from_secs(8))[0];
    assert!((share - wanted).abs() < 3.0, "nice {nice:?}: {share:.1} %, by the rule {wanted:.1} %");
}

#[test]
fn nice_0_and_1_get_the_same() {
    assert_share([0, 1]);
}

#[test]
fn nice_0_and_5_share_by_the_rule() {
    assert_share([0, 5]);
}

#[test]
fn nice_0_and_19_share_by_the_rule() {
    assert_share([0, 19]);
}

#[test]
fn a_change_of_nice_changes_the_share() {
    let _vrq = Vrq::start(&[]);
    let hogs = Hogs::start(&[Hog::default(), Hog { nice: 5, ..Hog::default() }, Hog { nice: 19, ..Hog::default() }]);
    let shares = hogs.shares(Duration::from_secs(6));
    assert!(shares[0] > shares[1] && shares[1] > shares[2] && shares[2] > 0.0, "{shares:?}");
}

#[test]
fn a_task_that_wakes_preempts_two_hogs() {
    const WAKEUPS: u64 = 100;
    let _vrq = Vrq::start(&[]);
    let hogs = Hogs::same(2, Hog::default());
    hogs.assert_alive();
    let before = counters();
    for _ in 0..WAKEUPS {
        std::thread::sleep(Duration::from_millis(10));
    }
    let preemptions = delta(&before, &counters(), "nr_preemptions");
    assert!(preemptions >= WAKEUPS * 9 / 10, "{preemptions} preemptions for {WAKEUPS} wake-ups");
}

/// Slices used up while a task runs for 1 ms and sleeps for 5, a hundred times.
fn refills_of_a_sleeper(policy: i32) -> u64 {
    let sleeper = Sleeper::start(Hog { policy, ..Hog::default() }, || (ms(5), ms(1)));
    wait_until("it has begun", || sleeper.rounds() > 0);
    let (before, begun) = (counters(), sleeper.rounds());
    wait_until("it has slept a hundred times", || sleeper.rounds() >= begun + 100);
    delta(&before, &counters(), "nr_refills")
}

#[test]
fn batch_gets_a_new_slice_and_deadline_at_each_pass_and_normal_when_used_up() {
    let _vrq = Vrq::start(&[]);
    let (normal, batch) = (refills_of_a_sleeper(libc::SCHED_OTHER), refills_of_a_sleeper(libc::SCHED_BATCH));
    // A slice of 6 ms lasts six passes. What else ran refills a few times, too.
    assert!(batch >= 100 && normal <= 60, "of 100 passes {batch} refilled as BATCH, {normal} as NORMAL");
}

/// Yield type 1: a task that yields competes again with the slice and the deadline that it has.
#[test]
fn yield_goes_to_who_is_earlier_and_costs_neither_slice_nor_share() {
    let _vrq = Vrq::start(&[]);
    let yielder = Proc::fork(|rounds| {
        loop {
            // SAFETY: takes no arguments.
            unsafe { libc::sched_yield() };
            rounds.fetch_add(1, Ordering::Relaxed);
        }
    });
    let hog = Hogs::same(1, Hog::default());
    hog.assert_alive();
    let (before, begun, ran) = (counters(), yielder.rounds(), run_time_ms(yielder.pid()));
    std::thread::sleep(ms(4_000));
    let (after, yields, ran) = (counters(), yielder.rounds() - begun, run_time_ms(yielder.pid()) - ran);
    // By turns, for a slice of two ticks each; a new slice at each yield would be a hundred times as many.
    let refills = delta(&before, &after, "nr_refills");
    assert!(yields > 20 * refills, "{refills} new slices for {yields} yields");
    assert!(
        delta(&before, &after, "nr_wins") * 2 > yields,
        "the yielding task is the earlier one for most of its slice"
    );
    assert!((1_700..=2_300).contains(&ran), "the yielding task ran for {ran} of 4000 ms");
}

#[test]
fn the_child_goes_first() {
    const FORKS: usize = 40;
    let _vrq = Vrq::start(&[]);
    let hog = Hogs::same(1, Hog { nice: 19, ..Hog::default() });
    hog.assert_alive();
    let mut first = 0;
    for _ in 0..FORKS {
        // Through another class and back: whoever enters ours starts with a whole slice to share.
        for policy in [libc::SCHED_FIFO, libc::SCHED_OTHER] {
            set_policy(gettid(), policy);
        }
        first += usize::from(child_is_first());
    }
    // Otherwise it never is. A wake-up that preempts the child puts it behind its parent: that is the rule.
    assert!(first > FORKS / 2, "the child went first in {first} of {FORKS} forks");
}

/// Has the child run when fork() returns to the parent?
fn child_is_first() -> bool {
    // SAFETY: an anonymous shared page; the child only stores one byte into it and exits.
    unsafe {
        let page = libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
        .cast::<u8>();
        assert_ne!(page.cast(), libc::MAP_FAILED);
        let pid = libc::fork();
        if pid == 0 {
            page.write_volatile(1);
            libc::_exit(0);
        }
        let ran = page.read_volatile() == 1;
        assert_eq!(libc::waitpid(pid, std::ptr::null_mut(), 0), pid);
        libc::munmap(page.cast(), 4096);
        ran
    }
}
