/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The guard, ours: a task that waits so long that the kernel's watchdog would soon end us is our
 * fault. Say which, and give the machine back first, cleanly.
 *
 * Whoever waits, waits for busy CPUs, so the tick of a busy CPU is where to look: once a second one
 * CPU looks through the grq and every CPU through its own queue. Nothing runs on an idle machine.
 */
#ifndef VRQ_GUARD_BPF_H
#define VRQ_GUARD_BPF_H

#include "grq.bpf.h"

u64 guard_grq_at;	/* the tick at which the grq is looked through next */

static void guard_queue(u64 dsq)
{
	u64 limit_ticks = ms_to_ticks(guard_ms);
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, dsq, 0) {
		u64 waited_ticks = task_waited_ticks(p);

		if (waited_ticks <= limit_ticks)
			continue;
		scx_bpf_error("guard: %s[%d] has waited %llu ms in queue %llx, %d CPUs allowed",
			      p->comm, p->pid, waited_ticks * tick_ns / 1000000, dsq,
			      p->nr_cpus_allowed);
		break;
	}
}

static void guard_tick(s32 cpu, struct vrq_cpu *cc)
{
	u64 now = bpf_jiffies64(), due = guard_grq_at, second = ms_to_ticks(1000);

	if (now >= cc->guard_at) {
		cc->guard_at = now + second;
		if (cc->has_pinned)
			guard_queue(cpu);
	}
	if (now >= due && __sync_val_compare_and_swap(&guard_grq_at, due, now + second) == due)
		guard_queue(GRQ_DSQ);
}

#endif
