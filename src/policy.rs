//! Safe wrappers over the native compile of the pure policy headers in `src/bpf`.
//!
//! The arithmetic is written once, in C; the model, the statistics and the tests call the very
//! functions that the BPF side inlines.

mod bindings {
    #![allow(missing_docs, non_upper_case_globals, non_camel_case_types, non_snake_case, dead_code)]
    #![allow(clippy::all, clippy::unwrap_used, clippy::undocumented_unsafe_blocks)]
    include!(concat!(env!("OUT_DIR"), "/policy_bindings.rs"));
}

use bindings::*;
pub use bindings::{
    VRQ_AGEING_MS, VRQ_AGEING_PERIOD_MS, VRQ_CPU_WORDS, VRQ_FAULT_AGEING, VRQ_FAULT_CLAIM, VRQ_FAULT_NONE,
    VRQ_FAULT_PINNED, VRQ_FAULT_REENQUEUE, VRQ_MAX_CPUS, VRQ_MAX_WAIT_DFL_MS, VRQ_MAX_WAIT_MAX_MS, VRQ_MAX_WAIT_MIN_MS,
    VRQ_NR_DISTANCES, VRQ_NR_STATS, VRQ_NR_USER_PRIO, VRQ_NR_WAIT_BUCKETS, VRQ_POLICY_BATCH, VRQ_POLICY_IDLEPRIO,
    VRQ_RBI_CORRECTED, VRQ_RBI_NEXT_NE_PREV, VRQ_RESCHED_NS, VRQ_RR_INTERVAL_DFL_MS, VRQ_RR_INTERVAL_MAX_MS,
    VRQ_RR_INTERVAL_MIN_MS, VRQ_TIMEOUT_MS, vrq_broken_promise, vrq_cpu, vrq_topology,
};

/// The class of a task in the key; better first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// SCHED_OTHER and SCHED_BATCH.
    Normal = VRQ_NORMAL as isize,
    /// SCHED_IDLE.
    Idleprio = VRQ_IDLEPRIO as isize,
}

/// The way by which a CPU went idle (document 001), or `Other`: a task of another class left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoIdle {
    /// From idle to idle: woken, and nothing was there.
    Idle,
    /// A task blocked.
    Deactivate,
    /// A runnable task had to leave this CPU.
    NeedOther,
    /// A task of another class left.
    Other,
}

macro_rules! pure {
    ($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty = $c:ident) => {
        $(#[$doc])*
        pub fn $name($($arg: $ty),*) -> $ret {
            // SAFETY: a pure function of its integer arguments, defined for every value of them.
            unsafe { $c($($arg),*) }
        }
    };
}

pure!(/// static_prio 100..=139 to user_prio 0..=39, clamped.
    user_prio(static_prio: u32) -> u32 = vrq_user_prio);
pure!(/// prio_ratio of a user_prio: 128 for nice -20, 836 for nice 0, 5089 for nice 19.
    prio_ratio(user_prio: u32) -> u32 = vrq_prio_ratio);
pure!(/// rr_interval in ns.
    slice_ns(rr_interval_ms: u32) -> u64 = vrq_slice_ns);
pure!(/// How far ahead of now, in ns, a deadline is set.
    deadline_offset_ns(user_prio: u32, rr_interval_ms: u32) -> u64 = vrq_deadline_offset_ns);
pure!(/// The deadline of a slice that starts at `niffies` (ns).
    deadline(niffies: u64, user_prio: u32, rr_interval_ms: u32) -> u64 = vrq_deadline);
pure!(/// Is a slice with this much left (ns) used up?
    slice_expired(left_ns: u64) -> bool = vrq_slice_expired);
pure!(/// What is left (ns) of a slice that ends at `slice_end_ns` of the task's run time.
    slice_left_ns(slice_end_ns: u64, run_time_ns: u64) -> u64 = vrq_slice_left_ns);
pure!(/// Does a task with this much left (ns) and this policy (kernel's number) get a new slice?
    must_refill(left_ns: u64, policy: u32) -> bool = vrq_must_refill);
pure!(/// What parent and child each get (ns) of the parent's slice; 0: both start anew.
    fork_share_ns(parent_left_ns: u64) -> u64 = vrq_fork_share_ns);
pure!(/// A span or a point of time (ns), rounded up to ticks; tick 0: as it is.
    slice_in_ticks_ns(slice_ns: u64, tick_ns: u32) -> u64 = vrq_slice_in_ticks_ns);
pure!(/// The deadline (ns) after a change of nice.
    renice_deadline(deadline: u64, old_user_prio: u32, new_user_prio: u32, rr_interval_ms: u32) -> u64
        = vrq_renice_deadline);
pure!(/// The longest that a NORMAL or BATCH task waits (ns) with so many runnable tasks for each CPU.
    wait_bound_ns(runnable_per_cpu: u64, rr_interval_ms: u32, tick_ns: u32) -> u64 = vrq_wait_bound_ns);
pure!(/// The same for IDLEPRIO, which is promoted after a while.
    idleprio_wait_bound_ns(runnable_per_cpu: u64, rr_interval_ms: u32, tick_ns: u32) -> u64
        = vrq_idleprio_wait_bound_ns);
pure!(/// The slice (ns) that keeps the promised wait with so many tasks queued for each CPU.
    loaded_slice_ns(queued_per_cpu: u64, rr_interval_ms: u32, tick_ns: u32, max_wait_ms: u32) -> u64
        = vrq_loaded_slice_ns);
pure!(/// The bucket of the histogram of waits.
    wait_bucket(waited_ticks: u64) -> u32 = vrq_wait_bucket);
pure!(/// The deadline (ns) in a key.
    key_deadline(key: u64) -> u64 = vrq_key_deadline);
pure!(/// May a task with `key` preempt one that runs with `victim_key`?
    can_preempt(key: u64, victim_key: u64) -> bool = vrq_can_preempt);
pure!(/// Does the running task go on, rather than the queue's head?
    prev_wins(prev_key: u64, head_key: u64) -> bool = vrq_prev_wins);

/// The queue's key: class first, then deadline (ns since boot, below 2^60).
pub fn key(class: Class, deadline: u64) -> u64 {
    // SAFETY: a pure function of its integer arguments.
    unsafe { vrq_key(class as u32, deadline) }
}

/// The class of a policy, by the kernel's number of it.
pub fn class(policy: u32) -> Class {
    // SAFETY: a pure function of its integer argument.
    match unsafe { vrq_class(policy) } {
        VRQ_IDLEPRIO => Class::Idleprio,
        _ => Class::Normal,
    }
}

/// Is an idle CPU woken for prev at this pick? `condition`: VRQ_RBI_CORRECTED or VRQ_RBI_NEXT_NE_PREV.
pub fn resched_best_idle(condition: u32, prev_is_idle: bool, deactivate: bool, next_is_prev: bool) -> bool {
    // SAFETY: a pure function of its arguments.
    unsafe { vrq_resched_best_idle(condition, prev_is_idle, deactivate, next_is_prev) }
}

/// Which way to idle is this?
pub fn goidle_path(prev_is_ours: bool, prev_is_idle: bool, deactivate: bool) -> GoIdle {
    // SAFETY: a pure function of its arguments.
    match unsafe { vrq_goidle_path(prev_is_ours, prev_is_idle, deactivate) } {
        VRQ_GOIDLE_IDLE => GoIdle::Idle,
        VRQ_GOIDLE_DEACTIVATE => GoIdle::Deactivate,
        VRQ_GOIDLE_NEEDOTHER => GoIdle::NeedOther,
        _ => GoIdle::Other,
    }
}
