//! The decisions of the policy headers, as the model calls them: each can be replaced by a wrong one,
//! to see that the invariants notice.

use crate::policy::{self, Class, VRQ_AGEING_MS};

/// The policy's decisions. [`Rule::default`] is the policy itself, `src/bpf/*.h`.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Class and deadline (ns) to the key of the queue.
    pub key: fn(Class, u64) -> u64,
    /// Keys of the running task and the queue's head: does the running one go on?
    pub prev_wins: fn(u64, u64) -> bool,
    /// Keys of a task and of a running one: may the first preempt?
    pub can_preempt: fn(u64, u64) -> bool,
    /// Slice left (ns) and policy: does the task get a new slice and deadline?
    pub must_refill: fn(u64, u32) -> bool,
    /// Slice left (ns) of a parent to the child's share of it.
    pub fork_share_ns: fn(u64) -> u64,
    /// Has an IDLEPRIO task waited (ns) so long that it is promoted? In BPF: ageing.bpf.h.
    pub aged: fn(u64) -> bool,
}

impl Default for Rule {
    fn default() -> Self {
        Self {
            key: policy::key,
            prev_wins: policy::prev_wins,
            can_preempt: policy::can_preempt,
            must_refill: policy::must_refill,
            fork_share_ns: policy::fork_share_ns,
            aged: |waited_ns| waited_ns > u64::from(VRQ_AGEING_MS) * 1_000_000,
        }
    }
}
