/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The grq: one queue for the machine, earliest key first; and a queue of the same kind for each CPU,
 * for the tasks that only that CPU can run.
 *
 * In BFS everything is in the grq, and a pick steps over what it may not run. A kernel queue would
 * have to step over it under its lock at every pick of every CPU, so pinned tasks wait apart and a
 * pick compares the two heads (spec 9.4 g: strict at the comparison).
 */
#ifndef VRQ_GRQ_BPF_H
#define VRQ_GRQ_BPF_H

#include "task_ctx.bpf.h"

/* To look at a queue's head without its lock. Since 6.19; before that a walk that takes the lock. */
static __always_inline struct task_struct *queue_peek(u64 dsq)
{
	struct task_struct *p;

	if (idle_fast_path && bpf_ksym_exists(scx_bpf_dsq_peek))
		return scx_bpf_dsq_peek(dsq);
	if (idle_fast_path && !scx_bpf_dsq_nr_queued(dsq))
		return NULL;
	bpf_for_each(scx_dsq, p, dsq, 0)
		return p;
	return NULL;
}

/* The first task of the grq that @cpu may run. Nearly always the head. */
static __always_inline struct task_struct *grq_first(s32 cpu)
{
	struct task_struct *p = queue_peek(GRQ_DSQ);

	if (!p || task_allowed(p, cpu))
		return p;
	bpf_for_each(scx_dsq, p, GRQ_DSQ, 0) {
		if (task_allowed(p, cpu))
			return p;
	}
	return NULL;
}

/*
 * The first task of the CPU's own queue. has_pinned is exact: a task is inserted there, and this is
 * called, only under this CPU's rq lock.
 */
static __always_inline struct task_struct *pinned_first(s32 cpu, struct vrq_cpu *cc)
{
	struct task_struct *p;

	if (!cc->has_pinned)
		return NULL;
	p = queue_peek(cpu);
	if (!p)
		cc->has_pinned = 0;
	return p;
}

/* The kernel carries out an insertion when the callback returns, and every kick after that. */
static void grq_insert(struct task_struct *p, u64 slice_ns, u64 enq_flags)
{
	scx_bpf_dsq_insert_vtime(p, GRQ_DSQ, slice_ns, task_key(p), enq_flags);
}

static void pinned_insert(struct task_struct *p, s32 cpu, u64 slice_ns, u64 enq_flags)
{
	struct vrq_cpu *cc = cpu_get(cpu);

	if (cc)
		cc->has_pinned = 1;
	scx_bpf_dsq_insert_vtime(p, cpu, slice_ns, task_key(p), enq_flags);
}

/* How long has a queued task waited? The kernel stamps it, in ticks. */
static u64 task_waited_ticks(const struct task_struct *p)
{
	return bpf_jiffies64() - p->scx.runnable_at;
}

/* Rare, and by one CPU at a time or lost: the loader only tells the last one. */
static void promise_broken(const struct task_struct *p, s32 cpu, u64 waited_ticks)
{
	struct task_struct *ran = bpf_get_current_task_btf();

	broken_promise.seq++;
	broken_promise.waited_ms = waited_ticks * tick_ns / 1000000;
	broken_promise.pid = p->pid;
	broken_promise.nr_cpus_allowed = p->nr_cpus_allowed;
	broken_promise.cpu = cpu;
	broken_promise.ran_pid = ran->pid;
	__builtin_memcpy(broken_promise.comm, p->comm, sizeof(broken_promise.comm));
	__builtin_memcpy(broken_promise.ran_comm, ran->comm, sizeof(broken_promise.ran_comm));
	broken_promise.seq++;
}

/* Note how long a task waited that @cpu takes now. */
static __always_inline void wait_note(const struct task_struct *p, s32 cpu, struct vrq_cpu *cc, u64 waited_ticks)
{
	u32 bucket = vrq_wait_bucket(waited_ticks);

	if (bucket < VRQ_NR_WAIT_BUCKETS)
		cc->waits[bucket]++;
	if (waited_ticks > cc->longest_wait_ticks)
		cc->longest_wait_ticks = waited_ticks;
	if (waited_ticks > max_wait_ticks) {
		stat_inc(cc, nr_broken_promises);
		promise_broken(p, cpu, waited_ticks);
	}
}

/*
 * Take the first task of @dsq that @cpu may run. @head is what was compared; @matters: a task lost
 * that comparison, so count it if another CPU took @head in between.
 */
static __always_inline bool queue_take(u64 dsq, s32 cpu, struct vrq_cpu *cc, struct task_struct *head, bool matters)
{
	u64 waited_ticks = task_waited_ticks(head);

	/* IMMED: should a task of a higher class take the CPU, it comes back to enqueue (7.1). */
	if (!scx_bpf_dsq_move_to_local(dsq, has_fault(REENQUEUE) ? 0 : SCX_ENQ_IMMED))
		return false;
	stat_inc(cc, nr_dispatches);
	wait_note(head, cpu, cc, waited_ticks);
	if (matters && scx_bpf_task_cpu(head) != cpu)
		stat_inc(cc, nr_races);
	return true;
}

/* Give the tasks of @dsq that are on @cpu to the kernel's own queue of that CPU. */
static void queue_give_back(u64 dsq, s32 cpu)
{
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, dsq, 0) {
		if (scx_bpf_task_cpu(p) == cpu)
			scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL_ON | cpu, 0);
	}
}

#endif
