/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Virtual deadlines and the queue's key (BFS 2.2; the key is VRQ's priodl idea, spec 9.2.1).
 *
 *	deadline = niffies + prio_ratio * rr_interval / 128
 *	key      = class << 60 | deadline
 *
 * so one compare orders by class first and by deadline within a class. niffies are ns since boot:
 * 60 bits last 36 years. All products are u64: BFS formed them in an int, which overflowed from
 * rr_interval 52 ms on at nice 19.
 */
#ifndef VRQ_DEADLINE_H
#define VRQ_DEADLINE_H

#include "prio.h"
#include "slice.h"

#define VRQ_CLASS_SHIFT		60
#define VRQ_DEADLINE_MASK	((1ULL << VRQ_CLASS_SHIFT) - 1)

/* The kernel orders a queue by the sign of (a - b): every key must be within 2^63 of every other. */
_Static_assert(((u64)VRQ_NR_CLASSES << VRQ_CLASS_SHIFT) <= 1ULL << 63,
	       "keys of all classes must lie within 2^63 of each other");

/* For rr_interval 6: 6 ms at nice -20, 39.2 ms at nice 0, 238.5 ms at nice 19. */
POLICY_FN u64 vrq_deadline_offset_ns(u32 user_prio, u32 rr_interval_ms)
{
	return vrq_prio_ratio(user_prio) * vrq_slice_ns(rr_interval_ms) / 128;
}

POLICY_FN u64 vrq_deadline(u64 niffies, u32 user_prio, u32 rr_interval_ms)
{
	return niffies + vrq_deadline_offset_ns(user_prio, rr_interval_ms);
}

POLICY_FN u64 vrq_key(u32 class, u64 deadline)
{
	return (u64)class << VRQ_CLASS_SHIFT | (deadline & VRQ_DEADLINE_MASK);
}

POLICY_FN u32 vrq_key_class(u64 key)
{
	return key >> VRQ_CLASS_SHIFT;
}

POLICY_FN u64 vrq_key_deadline(u64 key)
{
	return key & VRQ_DEADLINE_MASK;
}

/* A change of nice moves the deadline by the difference of the offsets; never before boot. */
POLICY_FN u64 vrq_renice_deadline(u64 deadline, u32 old_user_prio, u32 new_user_prio,
				  u32 rr_interval_ms)
{
	u64 old_ns = vrq_deadline_offset_ns(old_user_prio, rr_interval_ms);
	u64 moved = deadline + vrq_deadline_offset_ns(new_user_prio, rr_interval_ms);

	return moved > old_ns ? moved - old_ns : 0;
}

#endif
