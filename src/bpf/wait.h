/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long can a runnable task wait? Ours; BFS makes no promise.
 *
 * A task queued at t has a deadline of at most t + D, D the offset of nice 19. Once that has passed,
 * every slice that is renewed has a later deadline, so whoever still goes first does so with the
 * slice and deadline it had: once each. With r other runnable tasks for each CPU that is
 *
 *	wait <= D + (r + 1) * (slice + tick)
 *
 * (the 1: the slice that runs when t + D passes; the tick: a slice ends at the first tick after it is
 * used up). IDLEPRIO waits VRQ_AGEING_MS and one period of ageing before, and is NORMAL from then on.
 */
#ifndef VRQ_WAIT_H
#define VRQ_WAIT_H

#include "deadline.h"

/* For rr_interval 6, HZ 250 and 2 runnable tasks for each CPU: 238.5 + 3 * 10 = 268.5 ms. */
POLICY_FN u64 vrq_wait_bound_ns(u64 runnable_per_cpu, u32 rr_interval_ms, u32 tick_ns)
{
	return vrq_deadline_offset_ns(VRQ_NR_USER_PRIO - 1, rr_interval_ms) +
	       (runnable_per_cpu + 1) * (vrq_slice_ns(rr_interval_ms) + tick_ns);
}

POLICY_FN u64 vrq_idleprio_wait_bound_ns(u64 runnable_per_cpu, u32 rr_interval_ms, u32 tick_ns)
{
	return (VRQ_AGEING_MS + VRQ_AGEING_PERIOD_MS) * 1000000ULL +
	       vrq_wait_bound_ns(runnable_per_cpu, rr_interval_ms, tick_ns);
}

/* Are so many tasks queued for each CPU that a wait of more than max_wait is possible? */
POLICY_FN bool vrq_overload(u64 queued_per_cpu, u32 rr_interval_ms, u32 tick_ns, u32 max_wait_ms)
{
	return vrq_wait_bound_ns(queued_per_cpu, rr_interval_ms, tick_ns) > max_wait_ms * 1000000ULL;
}

/*
 * The slice that keeps the promise with this many tasks queued for each CPU: rr_interval as long as
 * the bound is within max_wait, a tick at the least. What is left of max_wait after D (or half of it,
 * if D takes more) is shared by those who may go first.
 */
POLICY_FN u64 vrq_loaded_slice_ns(u64 queued_per_cpu, u32 rr_interval_ms, u32 tick_ns, u32 max_wait_ms)
{
	u64 slice_ns = vrq_slice_ns(rr_interval_ms);
	u64 max_wait_ns = max_wait_ms * 1000000ULL;
	u64 offset_ns = vrq_deadline_offset_ns(VRQ_NR_USER_PRIO - 1, rr_interval_ms);
	u64 left_ns, fair_ns;

	if (!vrq_overload(queued_per_cpu, rr_interval_ms, tick_ns, max_wait_ms))
		return slice_ns;
	left_ns = offset_ns < max_wait_ns / 2 ? max_wait_ns - offset_ns : max_wait_ns / 2;
	fair_ns = left_ns / (queued_per_cpu + 2);
	fair_ns = fair_ns < 2 * (u64)tick_ns ? tick_ns : fair_ns - tick_ns;
	return fair_ns < slice_ns ? fair_ns : slice_ns;
}

/* Which bucket of the histogram: 0 below a tick, b for 2^(b-1) to 2^b - 1 ticks, the last for more. */
POLICY_FN u32 vrq_wait_bucket(u64 waited_ticks)
{
	u32 bucket = 0;

	while (waited_ticks && bucket < VRQ_NR_WAIT_BUCKETS - 1) {
		waited_ticks >>= 1;
		bucket++;
	}
	return bucket;
}

#endif
