/* SPDX-License-Identifier: GPL-2.0-only */
/* What each CPU keeps, its counters among it; and the knobs that the loader sets. */
#ifndef VRQ_STATS_BPF_H
#define VRQ_STATS_BPF_H

#include <scx/common.bpf.h>
#include <scx/compat.bpf.h>
#include "intf.h"
#include "faults.bpf.h"

/* Set by the loader before the load; the verifier takes them for constants and drops dead code. */
const volatile u32 nr_cpu_ids = 1;
const volatile u32 tick_ns = 4000000;
const volatile u32 resched_best_idle = VRQ_RBI_CORRECTED;
const volatile bool idle_fast_path = true;
const volatile bool straight_to_idle = true;
const volatile u32 guard_ms = VRQ_GUARD_MS;

/* Live: may change while we run; a slice that runs keeps the length it has. */
volatile u32 rr_interval_ms = VRQ_RR_INTERVAL_DFL_MS;
/* Live. The same in ticks, so that a pick compares and does not divide. */
volatile u32 max_wait_ms = VRQ_MAX_WAIT_DFL_MS;
volatile u32 max_wait_ticks = VRQ_MAX_WAIT_DFL_MS / 4;
u32 nr_online = 1;

/* The last broken promise, for the loader to tell. */
struct vrq_broken_promise broken_promise;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, u32);
	__type(value, struct vrq_cpu);
	__uint(max_entries, 1);		/* the loader makes it nr_cpu_ids */
} cpus SEC(".maps");

/* Of a CPU below nr_cpu_ids; NULL only to please the verifier. */
static struct vrq_cpu *cpu_get(s32 cpu)
{
	u32 key = cpu;

	return bpf_map_lookup_elem(&cpus, &key);
}

static struct vrq_cpu *cpu_this(void)
{
	return cpu_get(bpf_get_smp_processor_id());
}

static u64 ms_to_ticks(u64 ms)
{
	return ms * 1000000ULL / tick_ns;
}

/* Counters belong to the CPU that runs this: callbacks hold its preemption off, so no atomics. */
#define stat_inc(cc, name) ((cc)->stats[VRQ_STAT_##name]++)

#endif
