/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who gets the CPU: pick, preemption, and when an idle CPU is woken (BFS 4.2, 5.1, 5.3).
 */
#ifndef VRQ_PREEMPT_H
#define VRQ_PREEMPT_H

#include "deadline.h"

/* May @key take the CPU of a task running with @victim_key? Only if strictly better. */
POLICY_FN bool vrq_can_preempt(u64 key, u64 victim_key)
{
	return key < victim_key;
}

/* Does the running task go on? BFS queues it at the tail first, so the queue wins ties. */
POLICY_FN bool vrq_prev_wins(u64 prev_key, u64 head_key)
{
	return prev_key < head_key;
}

/*
 * resched_best_idle(prev) at a pick: is another CPU to be woken for prev? (5.3)
 *
 *	corrected	prev is a task, still runnable, and was not picked again
 *	next-ne-prev	as it was: next != prev was enough, so a task that just blocked woke
 *			an idle CPU for nothing
 */
POLICY_FN bool vrq_resched_best_idle(u32 condition, bool prev_is_idle, bool deactivate,
				     bool next_is_prev)
{
	if (next_is_prev)
		return false;
	if (condition == VRQ_RBI_NEXT_NE_PREV)
		return true;
	return !prev_is_idle && !deactivate;
}

/*
 * Which of the ways to idle is this? (0.1, 5.2)
 * @prev_is_ours: a task of the grq's classes left the CPU; if not, @prev_is_idle or another class.
 */
POLICY_FN u32 vrq_goidle_path(bool prev_is_ours, bool prev_is_idle, bool deactivate)
{
	if (prev_is_ours)
		return deactivate ? VRQ_GOIDLE_DEACTIVATE : VRQ_GOIDLE_NEEDOTHER;
	return prev_is_idle ? VRQ_GOIDLE_IDLE : VRQ_GOIDLE_OTHER;
}

#endif
