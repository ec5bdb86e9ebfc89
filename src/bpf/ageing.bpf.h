/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Ageing, ours: BFS lets IDLEPRIO starve for ever, the kernel's watchdog does not.
 *
 * An IDLEPRIO task that has waited VRQ_AGEING_MS is promoted to NORMAL with the deadline it has,
 * until it is next queued. A timer does it, which runs only while such tasks are queued, so nothing
 * else pays. Longest wait: VRQ_AGEING_MS + AGEING_PERIOD_NS + what a NORMAL task with an old
 * deadline waits. Tasks with keys of a worse class are at the tail, so the walk stops at the first
 * other one.
 */
#ifndef VRQ_AGEING_BPF_H
#define VRQ_AGEING_BPF_H

#include "kick.bpf.h"

#define AGEING_PERIOD_NS	(VRQ_AGEING_PERIOD_MS * 1000000ULL)

struct ageing {
	struct bpf_timer timer;
	u32 armed;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, u32);
	__type(value, struct ageing);
	__uint(max_entries, 1);
} ageings SEC(".maps");

/* Promote the tasks of @dsq that have waited too long. Returns whether IDLEPRIO tasks are left. */
static bool ageing_promote(u64 dsq, struct vrq_cpu *cc)
{
	u64 limit_ticks = ms_to_ticks(VRQ_AGEING_MS);
	struct task_struct *p;
	bool left = false;

	bpf_rcu_read_lock();	/* the callback of a timer that a sleepable program set has none */
	bpf_for_each(scx_dsq, p, dsq, SCX_DSQ_ITER_REV) {
		u64 key = p->scx.dsq_vtime;

		if (vrq_key_class(key) != VRQ_IDLEPRIO)
			break;
		left = true;
		if (task_waited_ticks(p) <= limit_ticks)
			continue;
		scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER,
					   vrq_key(VRQ_NORMAL, vrq_key_deadline(key)));
		if (scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, dsq, 0))
			stat_inc(cc, nr_aged);
	}
	bpf_rcu_read_unlock();
	return left;
}

static int ageing_fire(void *map, u32 *key, struct ageing *ag)
{
	struct vrq_cpu *cc = cpu_this();
	bool left;
	s32 cpu;

	if (!cc)
		return 0;
	/* First: a task queued from here on arms the timer again. */
	__sync_lock_test_and_set(&ag->armed, 0);
	left = ageing_promote(GRQ_DSQ, cc);
	bpf_for(cpu, 0, nr_cpu_ids) {
		struct vrq_cpu *own = cpu_get(cpu);

		if (own && own->has_pinned)
			left |= ageing_promote(cpu, cc);
	}
	if (left && !__sync_lock_test_and_set(&ag->armed, 1))
		bpf_timer_start(&ag->timer, AGEING_PERIOD_NS, 0);
	return 0;
}

/* An IDLEPRIO task is queued: see to it that the timer runs. */
static void ageing_arm(void)
{
	u32 key = 0;
	struct ageing *ag = bpf_map_lookup_elem(&ageings, &key);

	if (ag && !ag->armed && !has_fault(AGEING) && !__sync_lock_test_and_set(&ag->armed, 1))
		bpf_timer_start(&ag->timer, AGEING_PERIOD_NS, 0);
}

static int ageing_init(void)
{
	u32 key = 0;
	struct ageing *ag = bpf_map_lookup_elem(&ageings, &key);
	int err;

	if (!ag)
		return -ENOENT;
	err = bpf_timer_init(&ag->timer, &ageings, CLOCK_MONOTONIC);
	return err ?: bpf_timer_set_callback(&ag->timer, ageing_fire);
}

#endif
