/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Priorities: nice to user_prio, prio_ratios, policy to class (BFS 0.46x, sections 1.1 and 2.2).
 */
#ifndef VRQ_PRIO_H
#define VRQ_PRIO_H

#include "policy.h"

enum { VRQ_STATIC_PRIO_BASE = 100 };	/* static_prio of nice -20 in today's kernel */

/*
 * Each step is 11/10 of the one before, in integers, from 128. Padded to a power of two, so that a
 * mask bounds the index where the verifier does not see the clamp.
 */
#define VRQ_RATIO_SLOTS 64
static const u32 vrq_prio_ratios[VRQ_RATIO_SLOTS] = {
	128, 140, 154, 169, 185, 203, 223, 245, 269, 295,
	324, 356, 391, 430, 473, 520, 572, 629, 691, 760,
	836, 919, 1010, 1111, 1222, 1344, 1478, 1625, 1787, 1965,
	2161, 2377, 2614, 2875, 3162, 3478, 3825, 4207, 4627, 5089,
};

/* static_prio 100..139 to user_prio 0..39; anything else is clamped. */
POLICY_FN u32 vrq_user_prio(u32 static_prio)
{
	if (static_prio < VRQ_STATIC_PRIO_BASE)
		return 0;
	if (static_prio >= VRQ_STATIC_PRIO_BASE + VRQ_NR_USER_PRIO)
		return VRQ_NR_USER_PRIO - 1;
	return static_prio - VRQ_STATIC_PRIO_BASE;
}

/* Nice 0 is 836 / 128 = 6.5 slices away; nice 19 39.8 slices. */
POLICY_FN u32 vrq_prio_ratio(u32 user_prio)
{
	if (user_prio >= VRQ_NR_USER_PRIO)
		user_prio = VRQ_NR_USER_PRIO - 1;
	/* Or the compiler drops the mask, and indexes with a copy that was not clamped. */
	__asm__ volatile("" : "+r"(user_prio));
	return vrq_prio_ratios[user_prio % VRQ_RATIO_SLOTS];
}

POLICY_FN u32 vrq_class(u32 policy)
{
	return policy == VRQ_POLICY_IDLEPRIO ? VRQ_IDLEPRIO : VRQ_NORMAL;
}

#endif
