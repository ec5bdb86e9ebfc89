/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the BPF side, the native policy library and Rust share: constants, counters, classes.
 *
 * Compiles anywhere. Units are in the names. The counters are written once, in VRQ_STATS: the BPF
 * side makes indices of them, build.rs makes the Rust struct with its descriptions.
 */
#ifndef VRQ_INTF_H
#define VRQ_INTF_H

#ifndef __VMLINUX_H__
#include <stdbool.h>
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;
#endif

enum vrq_limits {
	VRQ_RR_INTERVAL_MIN_MS	= 1,
	VRQ_RR_INTERVAL_MAX_MS	= 1000,
	VRQ_RR_INTERVAL_DFL_MS	= 6,
	VRQ_NR_USER_PRIO	= 40,		/* nice -20 .. 19 */
	VRQ_MAX_CPUS		= 1024,
	VRQ_CPU_WORDS		= VRQ_MAX_CPUS / 64,
	VRQ_RESCHED_NS		= 100 * 1024,	/* a slice with less than this left is used up */
	VRQ_AGEING_MS		= 1000,		/* IDLEPRIO waits this long before it is promoted */
	VRQ_AGEING_PERIOD_MS	= 100,		/* how often that is looked at */
	VRQ_MAX_WAIT_DFL_MS	= 4000,		/* the promise: no runnable task waits longer */
	VRQ_MAX_WAIT_MIN_MS	= 100,
	VRQ_MAX_WAIT_MAX_MS	= 15000,
	VRQ_GUARD_MS		= 27000,	/* a task that waited this long: give the machine back */
	VRQ_TIMEOUT_MS		= 30000,	/* the kernel's watchdog, above all of these */
	VRQ_NR_WAIT_BUCKETS	= 16,		/* of waits: below a tick, then powers of two of ticks */
};

/* Policies of sched(7) that a task of ours can have; the numbers are the kernel's ABI. */
enum vrq_policy {
	VRQ_POLICY_NORMAL	= 0,
	VRQ_POLICY_BATCH	= 3,
	VRQ_POLICY_IDLEPRIO	= 5,
};

/* Classes of the grq, better first. They are the top bits of a key. */
enum vrq_class {
	VRQ_NORMAL,
	VRQ_IDLEPRIO,
	VRQ_NR_CLASSES,
};

/* When is an idle CPU woken for prev? Section 5.3: as it is, and as it was before the fix. */
enum vrq_resched_best_idle {
	VRQ_RBI_CORRECTED,
	VRQ_RBI_NEXT_NE_PREV,
};

/* The ways to idle of document 001, and "other": a task of another class left the CPU. */
enum vrq_goidle {
	VRQ_GOIDLE_IDLE,
	VRQ_GOIDLE_DEACTIVATE,
	VRQ_GOIDLE_NEEDOTHER,
	VRQ_GOIDLE_OTHER,
};

/* Faults that the build for tests can have, one at a time: a mechanism that is switched off. */
enum vrq_fault {
	VRQ_FAULT_NONE,
	VRQ_FAULT_PINNED,	/* a pick looks at the CPU's own queue only if it finds nothing in the grq */
	VRQ_FAULT_AGEING,	/* IDLEPRIO is never promoted */
	VRQ_FAULT_CLAIM,	/* an idle CPU is chosen, not taken */
	VRQ_FAULT_REENQUEUE,	/* what a higher class displaced stays where it is */
};

/* The distances at which an idle CPU is looked for, nearest first; beyond the last: any CPU. */
enum vrq_distance {
	VRQ_DIST_SMT,
	VRQ_DIST_CACHE,
	VRQ_DIST_NODE,
	VRQ_NR_DISTANCES,
};

#define VRQ_STATS(X)										\
	X(nr_dispatches,	"tasks that got a CPU, from a queue or directly")		\
	X(nr_direct,		"of these, straight to an idle CPU with nothing queued")	\
	X(nr_goidle_idle,	"passes that went from idle to idle: nothing found")		\
	X(nr_goidle_deactivate,	"a task blocked and nothing was queued")			\
	X(nr_goidle_needother,	"a task had to leave this CPU and nothing was queued")		\
	X(nr_goidle_other,	"a task of another class left and nothing was queued")		\
	X(nr_wakeups,		"tasks that woke up")						\
	X(nr_preemptions,	"running tasks preempted for an earlier deadline")		\
	X(nr_kicks_idle,	"idle CPUs claimed and woken for a task")			\
	X(nr_kicks_empty,	"woken idle CPUs that found nothing to run")			\
	X(nr_second_looks,	"tasks found by the second look of a CPU going idle")		\
	X(nr_third_looks,	"tasks found beside an idle CPU by a tick")			\
	X(nr_keeps,		"running tasks that went on: nothing queued")			\
	X(nr_wins,		"running tasks that went on: earlier than the queue's head")	\
	X(nr_races,		"picks in which another CPU took the compared head first")	\
	X(nr_refills,		"slices used up: new slice, new deadline")			\
	X(nr_aged,		"IDLEPRIO tasks promoted because they waited too long")		\
	X(nr_rt_displaced,	"tasks brought back from under a task of a higher class")	\
	X(nr_overload_slices,	"slices given in overload: the bound is above max_wait_ms")	\
	X(nr_broken_promises,	"tasks that waited longer than max_wait_ms")

enum vrq_stat {
#define VRQ_STAT_ENUM(name, doc) VRQ_STAT_##name,
	VRQ_STATS(VRQ_STAT_ENUM)
#undef VRQ_STAT_ENUM
	VRQ_NR_STATS,
};

/*
 * What each CPU keeps. Written by its own CPU, except @kicked and @idle_kick, which wakers set.
 */
struct vrq_cpu {
	/* pid of the running task that a waker has kicked, 0: none. Cleared at each pick. */
	u32 kicked;
	/* An idle CPU that was woken for a task and has not looked yet. */
	u32 idle_kick;
	/* Its own queue may hold tasks; set and cleared under this CPU's rq lock. */
	u32 has_pinned;
	/* The wake-up that this CPU is carrying out is a sync one; from select_cpu to enqueue. */
	u32 sync;
	u32 online;
	u32 pad;
	/* The tick at which its own queue is looked through for tasks that wait too long. */
	u64 guard_at;
	/* Longest wait, in ticks, of a task that this CPU took. */
	u64 longest_wait_ticks;
	u64 stats[VRQ_NR_STATS];
	u64 waits[VRQ_NR_WAIT_BUCKETS];
};

/* The last task that waited longer than promised. */
struct vrq_broken_promise {
	u64 seq;		/* counts them; odd while one is written */
	u64 waited_ms;
	u32 pid;
	u32 nr_cpus_allowed;
	u32 cpu;		/* that took it in the end */
	u32 ran_pid;		/* what ran there until then, 0: idle or another class */
	char comm[16];
	char ran_comm[16];
};

/* CPUs at each distance of one CPU, itself left out; bit n of word w is CPU 64 w + n. */
struct vrq_topology {
	u64 mask[VRQ_NR_DISTANCES][VRQ_CPU_WORDS];
};

#endif /* VRQ_INTF_H */
