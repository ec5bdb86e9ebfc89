/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A task's slice and deadline.
 *
 * The deadline lives in the kernel's own dsq_vtime, as a key with the class on top; the slice in
 * the kernel's scx.slice, as long as nobody takes it away. A preempting kick zeroes that, so the
 * truth is slice_end_ns here, and it is looked up only when the kernel's copy says "used up".
 */
#ifndef VRQ_TASK_CTX_BPF_H
#define VRQ_TASK_CTX_BPF_H

#include "stats.bpf.h"
#include "preempt.h"
#include "wait.h"

#define GRQ_DSQ		(1ULL << 32)	/* below it: the queue of the CPU with that number */

struct task_ctx {
	u64 slice_end_ns;	/* the slice is used up when the task's run time gets here */
	u32 user_prio;		/* that the deadline was made with */
	bool forked;		/* new: not enabled yet, or not queued yet */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} task_ctxs SEC(".maps");

static struct task_ctx *task_ctx(struct task_struct *p)
{
	struct task_ctx *tctx = bpf_task_storage_get(&task_ctxs, p, 0, 0);

	if (!tctx)
		scx_bpf_error("task_ctx: %s[%d] has no context", p->comm, p->pid);
	return tctx;
}

/* The key by the class that the task has now: a promotion lasts until it is next queued. */
static u64 task_key(const struct task_struct *p)
{
	if (kept_last(p))
		return vrq_key(VRQ_IDLEPRIO, VRQ_DEADLINE_MASK);
	return vrq_key(vrq_class(p->policy), p->scx.dsq_vtime);
}

/*
 * Can only this CPU run it? Nobody else may have to step over such a task, so it has its own queue.
 * With a single CPU every task is like that, and the grq is that queue.
 */
static bool task_pinned(const struct task_struct *p)
{
	if (nr_cpu_ids == 1)
		return false;
	if (p->nr_cpus_allowed == 1)
		return true;
	/* The way into a BPF program may disable migration of the current task: one of those is not ours. */
	if (__scx_prolog_disables_migration && p == bpf_get_current_task_btf())
		return p->migration_disabled > 1;
	return p->migration_disabled;
}

static bool task_allowed(const struct task_struct *p, s32 cpu)
{
	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
}

/* A task that no wake-up may preempt: idle is not preempted but woken, and the others outrank us. */
static bool task_outranks(const struct task_struct *p)
{
	return p->prio < VRQ_STATIC_PRIO_BASE || (p->flags & PF_IDLE);
}

/* Is it new, and was that not asked before? */
static bool task_is_child(struct task_struct *p)
{
	struct task_ctx *tctx = task_ctx(p);

	if (!tctx || !tctx->forked)
		return false;
	tctx->forked = false;
	return true;
}

/* The slice that a task gets now: rr_interval, or less if so many wait that the promise asks for it. */
static u64 slice_now_ns(struct vrq_cpu *cc)
{
	u64 queued = scx_bpf_dsq_nr_queued(GRQ_DSQ) / (nr_online ?: 1);

	if (cc->has_pinned)
		queued += scx_bpf_dsq_nr_queued(bpf_get_smp_processor_id());
	if (!vrq_overload(queued, rr_interval_ms, tick_ns, max_wait_ms))
		return vrq_slice_ns(rr_interval_ms);
	stat_inc(cc, nr_overload_slices);
	return vrq_loaded_slice_ns(queued, rr_interval_ms, tick_ns, max_wait_ms);
}

/* New slice, new deadline. Returns the slice. The kernel's copy of the slice is not touched. */
static u64 task_refill(struct task_struct *p, struct task_ctx *tctx, struct vrq_cpu *cc)
{
	u32 user_prio = vrq_user_prio(p->static_prio);
	u64 slice_ns = slice_now_ns(cc);
	u64 deadline = vrq_deadline(scx_bpf_now(), user_prio, rr_interval_ms);

	tctx->user_prio = user_prio;
	tctx->slice_end_ns = p->se.sum_exec_runtime + slice_ns;
	scx_bpf_task_set_dsq_vtime(p, vrq_key(vrq_class(p->policy), deadline));
	return slice_ns;
}

/*
 * What is left of the slice of a task that leaves the CPU or is picked over, refilled if used up.
 * Returns it in ns, never below VRQ_RESCHED_NS. BFS: check_deadline().
 */
static u64 task_settle(struct task_struct *p, struct vrq_cpu *cc)
{
	struct task_ctx *tctx = task_ctx(p);
	u64 left_ns;

	if (!tctx)
		return vrq_slice_ns(rr_interval_ms);
	left_ns = vrq_slice_left_ns(tctx->slice_end_ns, p->se.sum_exec_runtime);
	if (!vrq_must_refill(left_ns, p->policy))
		return left_ns;
	stat_inc(cc, nr_refills);
	return task_refill(p, tctx, cc);
}

/* Fork (2.4): the slice is shared, the deadline is the parent's. The parent is the current task. */
static void task_inherit(struct task_struct *child, struct task_ctx *tctx, struct vrq_cpu *cc)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct task_ctx *ptctx = bpf_task_storage_get(&task_ctxs, parent, 0, 0);
	u64 left_ns, share_ns;

	if (!ptctx || parent->policy != child->policy) {
		scx_bpf_task_set_slice(child, task_refill(child, tctx, cc));
		return;
	}
	left_ns = vrq_slice_left_ns(ptctx->slice_end_ns, parent->se.sum_exec_runtime);
	share_ns = vrq_fork_share_ns(left_ns);
	if (!share_ns) {
		/* Nothing to share: the child starts anew, the parent does so at its next pick. */
		ptctx->slice_end_ns = parent->se.sum_exec_runtime;
		scx_bpf_task_set_slice(parent, 0);
		scx_bpf_task_set_slice(child, task_refill(child, tctx, cc));
		return;
	}
	ptctx->slice_end_ns -= share_ns;
	scx_bpf_task_set_slice(parent, left_ns - share_ns);
	tctx->user_prio = ptctx->user_prio;
	tctx->slice_end_ns = child->se.sum_exec_runtime + share_ns;
	scx_bpf_task_set_slice(child, share_ns);
	scx_bpf_task_set_dsq_vtime(child, parent->scx.dsq_vtime);
}

#endif
