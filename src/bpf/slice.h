/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Time slices (BFS 2.2 to 2.4): real milliseconds here, 1024 * 1024 ns in BFS.
 *
 * A task's slice is kept as the point of its own run time at which it is used up (slice_end_ns, in
 * the unit of the task's total run time). What is left is a subtraction, so a slice survives sleep,
 * preemption and migration without being written, and no kick can take it away.
 */
#ifndef VRQ_SLICE_H
#define VRQ_SLICE_H

#include "policy.h"

/* 6,000,000 ns for the default of 6 ms. */
POLICY_FN u64 vrq_slice_ns(u32 rr_interval_ms)
{
	return rr_interval_ms * 1000000ULL;
}

/* Less than VRQ_RESCHED_NS counts as used up: a switch for so little is not worth it. */
POLICY_FN bool vrq_slice_expired(u64 left_ns)
{
	return left_ns < VRQ_RESCHED_NS;
}

/* What is left of the slice, 0 if it was overrun. Both arguments are points of the task's run time. */
POLICY_FN u64 vrq_slice_left_ns(u64 slice_end_ns, u64 run_time_ns)
{
	return slice_end_ns > run_time_ns ? slice_end_ns - run_time_ns : 0;
}

/* Must the task get a new slice and a new deadline when it leaves the CPU or is picked over? */
POLICY_FN bool vrq_must_refill(u64 left_ns, u32 policy)
{
	return policy == VRQ_POLICY_BATCH || vrq_slice_expired(left_ns);
}

/*
 * Fork: the child's share of the parent's slice. Parent and child get this much each, so the sum is
 * conserved (an odd nanosecond stays with the parent). 0: too little to split, both get new slices.
 */
POLICY_FN u64 vrq_fork_share_ns(u64 parent_left_ns)
{
	return parent_left_ns >= 2 * VRQ_RESCHED_NS ? parent_left_ns / 2 : 0;
}

/* A slice ends on a tick: 6 ms are 8 ms at HZ 250. */
POLICY_FN u64 vrq_slice_in_ticks_ns(u64 slice_ns, u32 tick_ns)
{
	if (!tick_ns)
		return slice_ns;
	return (slice_ns + tick_ns - 1) / tick_ns * tick_ns;
}

#endif
