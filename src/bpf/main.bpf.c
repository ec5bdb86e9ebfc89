/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * scx_vrq: BFS's global queue (0.46x) with VRQ's two corrections (up to 0.88) on sched_ext.
 *
 * One queue for the machine, earliest virtual deadline first. A task keeps its deadline and its
 * slice until the slice is used up; an interactive task is early because its deadline is old.
 *
 *	wake-up		select_cpu claims an idle CPU and queues the task; else
 *			enqueue queues it and preempts the worst running task, if that is worse
 *	pick		dispatch: nothing queued: prev goes on, or idle. Else prev, the grq's head and
 *			the CPU's own head compete by key
 *	leaving		stopping: a used up slice is refilled, also when the task goes to sleep
 *	going idle	update_idle: the CPU is in the idle map, then looks at the queue once more
 *
 * Limits: tasks of real-time, deadline and stop classes are outside, above; a slice ends on a tick.
 */
#include "ageing.bpf.h"
#include "guard.bpf.h"

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/*
 * Give @p to @cpu, an idle CPU that the caller has claimed. With nothing queued @p is the best there
 * is and goes straight there, where no other CPU can take it first, or the woken one would find
 * nothing. Otherwise it is queued, and the woken CPU takes whichever is first.
 * Kernels without SCX_ENQ_IMMED would leave it there behind a real-time task that got the CPU first,
 * so on these it is always queued.
 * @wakes_here: the kernel wakes the CPU by itself, as @p wakes up there.
 */
static void place_on_idle(struct task_struct *p, struct vrq_cpu *cc, s32 cpu, u64 slice_ns,
			  bool wakes_here)
{
	if (straight_to_idle && !queue_peek(GRQ_DSQ)) {
		stat_inc(cc, nr_kicks_idle);
		stat_inc(cc, nr_dispatches);
		stat_inc(cc, nr_direct);
		/* IMMED: should a task of a higher class be faster, it comes back to enqueue (7.1). */
		scx_bpf_dsq_insert(p, wakes_here ? SCX_DSQ_LOCAL : SCX_DSQ_LOCAL_ON | cpu, slice_ns,
				   has_fault(REENQUEUE) ? 0 : SCX_ENQ_IMMED);
		return;
	}
	grq_insert(p, slice_ns, 0);
	if (wakes_here)
		kick_note(cc, cpu);
	else
		kick_idle(cc, cpu);
}

/* A task wakes up, or is new: claim an idle CPU for it if there is one. */
s32 BPF_STRUCT_OPS(vrq_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct vrq_cpu *cc = cpu_this();
	s32 cpu;

	if (!cc || !cc->online || withheld(p))
		return prev_cpu;
	cpu = idle_pick(p, prev_cpu);
	if (cpu < 0) {
		cc->sync = !!(wake_flags & SCX_WAKE_SYNC);
		return prev_cpu;
	}
	if (wake_flags & SCX_WAKE_TTWU)
		stat_inc(cc, nr_wakeups);
	else
		task_is_child(p);	/* it needs nobody's CPU */
	if (p->policy == VRQ_POLICY_IDLEPRIO)
		ageing_arm();
	place_on_idle(p, cc, cpu, p->scx.slice, true);
	return cpu;
}

/* A new task with its parent's deadline goes first (2.4); the parent competes again and loses the tie. */
static bool child_goes_first(struct vrq_cpu *cc)
{
	struct task_struct *curr = bpf_get_current_task_btf();

	if (task_outranks(curr))
		return false;
	return kick_preempt(cc, bpf_get_smp_processor_id(), curr->pid);
}

/*
 * A task that only its CPU can run: is that to be woken or preempted for it? The kernel wakes an idle
 * CPU on which a task wakes up.
 */
static void enqueue_pinned(struct task_struct *p, struct vrq_cpu *cc, u64 slice_ns, u64 enq_flags,
			   bool displaced, bool child)
{
	s32 cpu = scx_bpf_task_cpu(p);

	pinned_insert(p, cpu, slice_ns, enq_flags);
	if (displaced)
		return;
	if (child && cpu == bpf_get_smp_processor_id() && child_goes_first(cc))
		return;
	if (idle_claim(cpu)) {
		if (enq_flags & SCX_ENQ_WAKEUP)
			stat_inc(cc, nr_kicks_idle);
		else
			kick_idle(cc, cpu);
	} else if (task_is_idle(cpu_curr(cpu))) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);	/* see kick_worst */
	} else if (p->policy != VRQ_POLICY_IDLEPRIO) {
		kick_if_better(cc, task_key(p), cpu);
	}
}

/*
 * A task to be queued: awake with no CPU idle, new, displaced by another, or moved by a change of
 * nice, policy or affinity. Of these only a displaced task is the current one.
 */
void BPF_STRUCT_OPS(vrq_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct vrq_cpu *cc = cpu_this();
	bool displaced = p == bpf_get_current_task_btf() && !(enq_flags & SCX_ENQ_WAKEUP);
	bool child;
	u64 slice_ns = p->scx.slice;
	s32 cpu;

	if (!cc || withheld(p))
		return;
	if (vrq_must_refill(slice_ns, p->policy))
		slice_ns = task_settle(p, cc);
	if (p->policy == VRQ_POLICY_IDLEPRIO)
		ageing_arm();
	if (enq_flags & SCX_ENQ_WAKEUP)
		stat_inc(cc, nr_wakeups);
	if (enq_flags & SCX_ENQ_REENQ)
		stat_inc(cc, nr_rt_displaced);
	if (!cc->online) {
		/*
		 * The last wake-ups of a CPU that dies. Its irq_work never runs again, and a kick is one: it
		 * would be lost, block every later one of this CPU, and let the detach wait for ever. The
		 * kernel's own queue of the task's CPU needs none.
		 */
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
		return;
	}
	child = !displaced && !(enq_flags & SCX_ENQ_WAKEUP) && task_is_child(p);
	if (task_pinned(p)) {
		enqueue_pinned(p, cc, slice_ns, enq_flags, displaced, child);
		return;
	}
	/*
	 * 5.3: a displaced task is runnable, not idle, and was not picked again. That is the corrected
	 * condition, by construction; a task that blocked never gets here.
	 */
	cpu = idle_pick(p, scx_bpf_task_cpu(p));
	if (cpu >= 0) {
		place_on_idle(p, cc, cpu, slice_ns, false);
		return;
	}
	grq_insert(p, slice_ns, enq_flags);
	if (displaced)
		return;
	if ((enq_flags & SCX_ENQ_WAKEUP) && cc->sync)
		return;
	if (p->policy == VRQ_POLICY_IDLEPRIO || (child && child_goes_first(cc)))
		return;
	kick_worst(p, cc, task_key(p));
}

/* prev goes on: give the kernel its slice back, which is zero here. */
static void dispatch_keep(struct task_struct *prev, struct vrq_cpu *cc)
{
	scx_bpf_task_set_slice(prev, task_settle(prev, cc));
}

/*
 * Nothing to run. Count the way to idle; a CPU that was woken for nothing goes back into the idle
 * map, and then, as any CPU that goes idle, has to look once more. Returns what that look found.
 */
static struct task_struct *dispatch_goidle(s32 cpu, struct vrq_cpu *cc, struct task_struct *prev,
					   bool kicked)
{
	bool from_idle = !prev && (bpf_get_current_task_btf()->flags & PF_IDLE);
	struct task_struct *head;

	if (from_idle && nr_cpu_ids > 1 && cc->online) {
		idle_set(cpu);
		head = grq_first(cpu);
		if (head) {
			idle_clear(cpu);
			stat_inc(cc, nr_second_looks);
			return head;
		}
	}
	switch (vrq_goidle_path(prev, from_idle, true)) {
	case VRQ_GOIDLE_IDLE:
		stat_inc(cc, nr_goidle_idle);
		if (kicked)
			stat_inc(cc, nr_kicks_empty);
		break;
	case VRQ_GOIDLE_DEACTIVATE:
		stat_inc(cc, nr_goidle_deactivate);
		break;
	default:
		stat_inc(cc, nr_goidle_other);
	}
	return NULL;
}

/*
 * The pick: schedule() needs a task for @cpu. @prev is the task that ran, runnable or not, and not
 * queued; NULL if it was idle or of another class.
 */
void BPF_STRUCT_OPS(vrq_dispatch, s32 cpu, struct task_struct *prev)
{
	struct vrq_cpu *cc = cpu_get(cpu);
	bool runnable = prev && (prev->scx.flags & SCX_TASK_QUEUED);
	struct task_struct *head, *pinned;
	u64 head_key;
	bool kicked, from_pinned;

	if (!cc)
		return;
	kicked = cc->idle_kick;
	cc->idle_kick = 0;
	cc->kicked = 0;

	head = grq_first(cpu);
	pinned = head && has_fault(PINNED) ? NULL : pinned_first(cpu, cc);
	if (!head && !pinned) {
		if (runnable) {
			/* The busy fast path. The kernel moves a prev that may not stay here itself. */
			if (task_allowed(prev, cpu))
				stat_inc(cc, nr_keeps);
			else
				stat_inc(cc, nr_goidle_needother);
			dispatch_keep(prev, cc);
			return;
		}
		head = dispatch_goidle(cpu, cc, prev, kicked);
		if (!head)
			return;
	}

	from_pinned = pinned && (!head || pinned->scx.dsq_vtime <= head->scx.dsq_vtime);
	head_key = from_pinned ? pinned->scx.dsq_vtime : head ? head->scx.dsq_vtime : 0;
	if (runnable && task_allowed(prev, cpu)) {
		u64 slice_ns = task_settle(prev, cc);

		if (vrq_prev_wins(prev->scx.dsq_vtime, head_key)) {
			scx_bpf_task_set_slice(prev, slice_ns);
			stat_inc(cc, nr_wins);
			return;
		}
	}
	if (from_pinned) {
		queue_take(cpu, cpu, cc, pinned, false);
		/* Whoever woke this CPU may have meant the grq's head: it needs another one. */
		if (head && idle_any())
			kick_idle_for(head, cc, cpu);
		return;
	}
	if (head && !queue_take(GRQ_DSQ, cpu, cc, head, runnable || pinned)) {
		/* Taken by another CPU. What is left: the own queue, prev, or idle. */
		if (pinned && queue_take(cpu, cpu, cc, pinned, false))
			return;
		if (runnable)
			dispatch_keep(prev, cc);
		else if (dispatch_goidle(cpu, cc, prev, kicked))
			kick_idle(cc, cpu);	/* and another one: it is ours, look again */
	}
}

/* A tick on a busy CPU: it is not idle, and no task may wait beside a CPU that is. */
void BPF_STRUCT_OPS(vrq_tick, struct task_struct *p)
{
	s32 cpu = bpf_get_smp_processor_id();
	struct vrq_cpu *cc = cpu_get(cpu);
	struct task_struct *head;

	if (!cc)
		return;
	guard_tick(cpu, cc);
	if (nr_cpu_ids == 1)
		return;
	if (scx_bpf_dsq_nr_queued(GRQ_DSQ))
		idle_heal(bpf_jiffies64() % nr_cpu_ids);
	if (!idle_any())
		return;
	idle_clear(cpu);
	head = queue_peek(GRQ_DSQ);
	if (head && kick_idle_for(head, cc, cpu))
		stat_inc(cc, nr_third_looks);
}

/*
 * A task leaves the CPU. If it goes to sleep, a used up slice is refilled now (2.3); else enqueue does it.
 *
 * Runnable and with a slice left it makes way for a higher class. Before 7.1 the kernel would let it wait
 * here: with none left it is enqueued, and settled by what it really has left.
 */
void BPF_STRUCT_OPS(vrq_stopping, struct task_struct *p, bool runnable)
{
	struct vrq_cpu *cc;

	if (runnable) {
		if (straight_to_idle || !p->scx.slice || has_fault(REENQUEUE))
			return;
		cc = cpu_this();
		if (cc)
			stat_inc(cc, nr_rt_displaced);
		scx_bpf_task_set_slice(p, 0);
		return;
	}
	if (resched_best_idle == VRQ_RBI_CORRECTED && !vrq_must_refill(p->scx.slice, p->policy))
		return;
	cc = cpu_this();
	if (!cc)
		return;
	if (vrq_must_refill(p->scx.slice, p->policy))
		scx_bpf_task_set_slice(p, task_settle(p, cc));
	if (vrq_resched_best_idle(resched_best_idle, false, true, false))
		kick_idle_for(p, cc, scx_bpf_task_cpu(p));
}

/*
 * A CPU goes idle, or stops being idle. The bit is set first and the queue read after: a waker
 * inserts first and reads the map after. The kernel carries out a waker's insertion a little after
 * its look at the map, so a task can still slip through; the tick of a busy CPU finds it.
 */
void BPF_STRUCT_OPS(vrq_update_idle, s32 cpu, bool idle)
{
	struct vrq_cpu *cc = cpu_get(cpu);

	if (!cc || nr_cpu_ids == 1)
		return;
	if (!idle) {
		idle_clear(cpu);
		return;
	}
	if (!cc->online)
		return;
	idle_set(cpu);
	if ((cc->has_pinned || grq_first(cpu)) && idle_claim(cpu)) {
		stat_inc(cc, nr_second_looks);
		kick_idle(cc, cpu);
	}
}

/*
 * A change of nice moves the deadline (2.3), one of policy the class. The kernel takes a queued task
 * out and queues it again around this.
 */
void BPF_STRUCT_OPS(vrq_set_weight, struct task_struct *p, u32 weight)
{
	struct task_ctx *tctx = task_ctx(p);
	u32 user_prio = vrq_user_prio(p->static_prio);
	struct vrq_cpu *cc = cpu_this();
	u64 old_key = p->scx.dsq_vtime, key;

	if (!tctx || !cc)
		return;
	key = vrq_key(vrq_class(p->policy), vrq_renice_deadline(vrq_key_deadline(old_key),
								tctx->user_prio, user_prio,
								rr_interval_ms));
	tctx->user_prio = user_prio;
	if (key == old_key)
		return;
	scx_bpf_task_set_dsq_vtime(p, key);
	/* Running and worse than it was: it has to compete again. */
	if (key > old_key && scx_bpf_task_running(p))
		kick_preempt(cc, scx_bpf_task_cpu(p), p->pid);
}

/*
 * A higher class takes the CPU: what was to run there next has to come back to enqueue, for another CPU.
 * From 7.1 on SCX_ENQ_IMMED sees to it; 6.19 and 7.0 want a tracepoint, earlier kernels a callback. The
 * loader loads one of the three. What ran there: see vrq_stopping.
 */
SEC("tp_btf/sched_switch")
int BPF_PROG(vrq_sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	if (next->prio < VRQ_STATIC_PRIO_BASE && !has_fault(REENQUEUE) && prev->prio >= VRQ_STATIC_PRIO_BASE)
		scx_bpf_reenqueue_local_from_anywhere();
	return 0;
}

void BPF_STRUCT_OPS(vrq_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	if (!has_fault(REENQUEUE))
		scx_bpf_reenqueue_local();
}

void BPF_STRUCT_OPS(vrq_cpu_online, s32 cpu)
{
	struct vrq_cpu *cc = cpu_get(cpu);

	if (!cc || cc->online)
		return;
	cc->online = 1;
	__sync_fetch_and_add(&nr_online, 1);
}

/*
 * Nobody may claim @cpu from here on, and the kernel asks us about it no more: it keeps what is
 * enqueued there and moves it away once it ran. It has to get what waits from before, too. Left in our
 * queues, the CPU would go idle before it is empty, and the hotplug wait for ever.
 */
void BPF_STRUCT_OPS(vrq_cpu_offline, s32 cpu)
{
	struct vrq_cpu *cc = cpu_get(cpu);

	if (!cc || !cc->online)
		return;
	cc->online = 0;
	__sync_fetch_and_sub(&nr_online, 1);
	idle_clear(cpu);
	queue_give_back(cpu, cpu);
	queue_give_back(GRQ_DSQ, cpu);
}

/* Sleepable, so that the context is allocated even when the atomic reserve is used up, and no fork fails. */
s32 BPF_STRUCT_OPS_SLEEPABLE(vrq_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_ctx *tctx = bpf_task_storage_get(&task_ctxs, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!tctx)
		return -ENOMEM;
	tctx->forked = args->fork;
	return 0;
}

/* A task enters our classes: at fork, at load, or from another class. */
void BPF_STRUCT_OPS(vrq_enable, struct task_struct *p)
{
	struct task_ctx *tctx = task_ctx(p);
	struct vrq_cpu *cc = cpu_this();

	if (!tctx || !cc)
		return;
	if (tctx->forked)
		task_inherit(p, tctx, cc);
	else
		scx_bpf_task_set_slice(p, task_refill(p, tctx, cc));
}

void BPF_STRUCT_OPS(vrq_dump, struct scx_dump_ctx *dctx)
{
	scx_bpf_dump("grq: qnr=%d idle_map=%llx rr_interval=%ums niffies=%llu",
		     scx_bpf_dsq_nr_queued(GRQ_DSQ), idle_map[0], rr_interval_ms, scx_bpf_now());
}

void BPF_STRUCT_OPS(vrq_dump_cpu, struct scx_dump_ctx *dctx, s32 cpu, bool idle)
{
	struct vrq_cpu *cc = cpu_get(cpu);

	if (!cc)
		return;
	scx_bpf_dump("vrq: own queue=%d has_pinned=%u kicked=%u idle_kick=%u online=%u longest_wait=%llums",
		     scx_bpf_dsq_nr_queued(cpu), cc->has_pinned, cc->kicked, cc->idle_kick, cc->online,
		     cc->longest_wait_ticks * tick_ns / 1000000);
}

void BPF_STRUCT_OPS(vrq_dump_task, struct scx_dump_ctx *dctx, struct task_struct *p)
{
	struct task_ctx *tctx = bpf_task_storage_get(&task_ctxs, p, 0, 0);
	u64 key = p->scx.dsq_vtime;
	u64 now = scx_bpf_now();
	u64 left_ns = tctx ? vrq_slice_left_ns(tctx->slice_end_ns, p->se.sum_exec_runtime) : 0;

	scx_bpf_dump("vrq: class=%u deadline=%lldus from now, slice left=%lluus, runnable for %llums",
		     vrq_key_class(key), (s64)(vrq_key_deadline(key) - now) / 1000, left_ns / 1000,
		     task_waited_ticks(p) * tick_ns / 1000000);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(vrq_init)
{
	s32 cpu, err;

	err = scx_bpf_create_dsq(GRQ_DSQ, -1);
	if (err)
		return err;
	bpf_for(cpu, 0, nr_cpu_ids) {
		err = scx_bpf_create_dsq(cpu, -1);
		if (err)
			return err;
	}
	return ageing_init();
}

void BPF_STRUCT_OPS(vrq_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(vrq_ops,
	       .select_cpu	= (void *)vrq_select_cpu,
	       .enqueue		= (void *)vrq_enqueue,
	       .dispatch	= (void *)vrq_dispatch,
	       .tick		= (void *)vrq_tick,
	       .stopping	= (void *)vrq_stopping,
	       .update_idle	= (void *)vrq_update_idle,
	       .set_weight	= (void *)vrq_set_weight,
	       .cpu_release	= (void *)vrq_cpu_release,
	       .cpu_online	= (void *)vrq_cpu_online,
	       .cpu_offline	= (void *)vrq_cpu_offline,
	       .init_task	= (void *)vrq_init_task,
	       .enable		= (void *)vrq_enable,
	       .dump		= (void *)vrq_dump,
	       .dump_cpu	= (void *)vrq_dump_cpu,
	       .dump_task	= (void *)vrq_dump_task,
	       .init		= (void *)vrq_init,
	       .exit		= (void *)vrq_exit,
	       .timeout_ms	= VRQ_TIMEOUT_MS,
	       .name		= "vrq");
