/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The map of idle CPUs and how one is claimed (BFS cpu_idle_map, sections 4.3 and 4.4).
 *
 * BFS clears a CPU's bit when it schedules, so two wake-ups can choose the same one. Here the bit is
 * taken by the waker, test-and-clear. Set when the CPU goes idle, and again when it was woken and
 * found nothing. One word of the map is 64 CPUs, so on most machines "no CPU is idle" is one load.
 */
#ifndef VRQ_IDLE_BPF_H
#define VRQ_IDLE_BPF_H

#include "grq.bpf.h"

enum { IDLE_CLAIM_TRIES = 4 };

u64 idle_map[VRQ_CPU_WORDS] __attribute__((aligned(64)));

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, u32);
	__type(value, struct vrq_topology);
	__uint(max_entries, 1);		/* the loader makes it nr_cpu_ids */
} topology SEC(".maps");

#define nr_cpu_words	((nr_cpu_ids + 63) / 64)

static u64 *idle_word(u32 cpu)
{
	return &idle_map[(cpu / 64) % VRQ_CPU_WORDS];
}

static u64 cpu_bit(u32 cpu)
{
	return 1ULL << (cpu % 64);
}

static void idle_set(s32 cpu)
{
	__sync_fetch_and_or(idle_word(cpu), cpu_bit(cpu));
}

static void idle_clear(s32 cpu)
{
	if (*idle_word(cpu) & cpu_bit(cpu))
		__sync_fetch_and_and(idle_word(cpu), ~cpu_bit(cpu));
}

/* Was it idle and unclaimed? Then it is the caller's. */
static bool idle_claim(s32 cpu)
{
	u64 *word = idle_word(cpu);

	if (!(*word & cpu_bit(cpu)))
		return false;
	if (has_fault(CLAIM))
		return true;
	return __sync_fetch_and_and(word, ~cpu_bit(cpu)) & cpu_bit(cpu);
}

static __always_inline bool idle_any(void)
{
	u32 w;

	if (nr_cpu_words == 1)
		return idle_map[0];
	bpf_for(w, 0, nr_cpu_words) {
		if (idle_map[w % VRQ_CPU_WORDS])
			return true;
	}
	return false;
}

static u64 allowed_word(const struct task_struct *p, u32 w)
{
	u64 word = 0;

	if (w == 0)
		return p->cpus_ptr->bits[0];
	bpf_probe_read_kernel(&word, sizeof(word), &p->cpus_ptr->bits[w]);
	return word;
}

/* Claim the lowest idle CPU of word @w among @mask, -1: none. */
static s32 idle_claim_word(u32 w, u64 mask)
{
	u64 *word = &idle_map[w % VRQ_CPU_WORDS];
	u32 try;

	bpf_for(try, 0, IDLE_CLAIM_TRIES) {
		u64 found = *word & mask;
		u64 bit = found & -found;

		if (!bit)
			return -1;
		if (has_fault(CLAIM) || __sync_fetch_and_and(word, ~bit) & bit)
			return w * 64 + __builtin_ctzll(bit);
	}
	return -1;
}

/* Claim the nearest idle CPU of word @w: SMT sibling, shared cache, node, any. */
static s32 idle_claim_near(const struct task_struct *p, const struct vrq_topology *topo,
			   u32 w, u32 distance)
{
	u64 mask = allowed_word(p, w);

	if (distance < VRQ_NR_DISTANCES)
		mask &= topo->mask[distance][w % VRQ_CPU_WORDS];
	return mask & idle_map[w % VRQ_CPU_WORDS] ? idle_claim_word(w, mask) : -1;
}

/*
 * Claim an idle CPU for @p: the CPU it last ran on, else the nearest to that. -1: none is idle.
 * The caller owns the CPU and must see to it that it looks at the queue.
 */
static __always_inline s32 idle_pick(const struct task_struct *p, s32 home)
{
	const struct vrq_topology *topo;
	u32 key = home, distance, w;
	s32 cpu;

	if (nr_cpu_ids == 1 || !idle_any())
		return -1;
	if (task_allowed(p, home) && idle_claim(home))
		return home;
	topo = bpf_map_lookup_elem(&topology, &key);
	if (!topo)
		return -1;
	bpf_for(distance, 0, VRQ_NR_DISTANCES + 1) {
		if (nr_cpu_words == 1) {
			cpu = idle_claim_near(p, topo, 0, distance);
			if (cpu >= 0)
				return cpu;
			continue;
		}
		bpf_for(w, 0, nr_cpu_words) {
			cpu = idle_claim_near(p, topo, w, distance);
			if (cpu >= 0)
				return cpu;
		}
	}
	return -1;
}

#endif
