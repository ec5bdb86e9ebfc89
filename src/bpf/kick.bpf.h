/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Waking idle CPUs and preempting busy ones (BFS 4.2, try_preempt).
 *
 * A kick is carried out after the callback that asked for it, so always after its insertion.
 */
#ifndef VRQ_KICK_BPF_H
#define VRQ_KICK_BPF_H

#include "idle.bpf.h"

/* Note that @cpu, claimed by the caller, will look at the queue for a task. */
static void kick_note(struct vrq_cpu *cc, s32 cpu)
{
	struct vrq_cpu *target = cpu_get(cpu);

	if (target)
		target->idle_kick = 1;
	stat_inc(cc, nr_kicks_idle);
}

/* Wake an idle CPU that the caller has claimed. */
static void kick_idle(struct vrq_cpu *cc, s32 cpu)
{
	kick_note(cc, cpu);
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* Wake the nearest idle CPU for @p, if there is one. */
static bool kick_idle_for(const struct task_struct *p, struct vrq_cpu *cc, s32 home)
{
	s32 cpu = idle_pick(p, home);

	if (cpu < 0)
		return false;
	kick_idle(cc, cpu);
	return true;
}

static struct task_struct *cpu_curr(s32 cpu)
{
	if (cpu == bpf_get_smp_processor_id())
		return bpf_get_current_task_btf();
	return __COMPAT_scx_bpf_cpu_curr(cpu);
}

/*
 * Preempt @cpu, which runs @pid. One waker for each victim: the mark stays until that CPU's next
 * pick, or until it runs another task. Returns whether the victim is the caller's.
 */
static bool kick_preempt(struct vrq_cpu *cc, s32 cpu, u32 pid)
{
	struct vrq_cpu *victim = cpu_get(cpu);
	u32 mark;

	if (!victim)
		return false;
	mark = victim->kicked;
	if (mark == pid || __sync_val_compare_and_swap(&victim->kicked, mark, pid) != mark)
		return false;
	stat_inc(cc, nr_preemptions);
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	return true;
}

static bool task_is_idle(const struct task_struct *p)
{
	return p && (p->flags & PF_IDLE);
}

/* Preempt the task that runs on @cpu if @key is strictly better. */
static bool kick_if_better(struct vrq_cpu *cc, u64 key, s32 cpu)
{
	struct task_struct *curr = cpu_curr(cpu);

	if (!curr || task_outranks(curr) || !vrq_can_preempt(key, curr->scx.dsq_vtime))
		return false;
	return kick_preempt(cc, cpu, curr->pid);
}

/*
 * An idle CPU that is not in the map goes back into it: its claim may have come to nothing. One that is
 * just being woken is claimed a second time, and then a kick finds nothing.
 */
static void idle_heal(s32 cpu)
{
	struct vrq_cpu *cc = cpu_get(cpu);

	if (cc && cc->online && !(*idle_word(cpu) & cpu_bit(cpu)) && task_is_idle(cpu_curr(cpu)))
		idle_set(cpu);
}

/*
 * Preempt the CPU with the worst class and the latest deadline, if strictly worse; the lowest such
 * CPU on ties. The running tasks are read without a lock: a stale one costs a pick that keeps it.
 *
 * No victim, but an idle CPU that cannot be claimed: that is woken all the same. Whoever claimed it may
 * have lost its task to a change of affinity or to a hotplug, and then nobody else would wake it.
 */
static void kick_worst(const struct task_struct *p, struct vrq_cpu *cc, u64 key)
{
	u64 worst_key = key;
	s32 cpu, worst = -1, idle = -1;
	u32 pid = 0;

	if (nr_cpu_ids == 1) {
		kick_if_better(cc, key, 0);
		return;
	}
	bpf_for(cpu, 0, nr_cpu_ids) {
		struct vrq_cpu *victim = cpu_get(cpu);
		struct task_struct *curr;

		if (!victim || !victim->online || !task_allowed(p, cpu))
			continue;
		curr = cpu_curr(cpu);
		if (task_is_idle(curr))
			idle = cpu;
		if (!curr || task_outranks(curr) || curr->pid == victim->kicked)
			continue;
		if (vrq_can_preempt(worst_key, curr->scx.dsq_vtime)) {
			worst_key = curr->scx.dsq_vtime;
			worst = cpu;
			pid = curr->pid;
		}
	}
	if (worst >= 0)
		kick_preempt(cc, worst, pid);
	else if (idle >= 0)
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
}

#endif
