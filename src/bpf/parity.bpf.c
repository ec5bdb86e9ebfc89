/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The pure policy headers as bytecode, for tests only: run by BPF_PROG_TEST_RUN, compared with what
 * the native compile of the same headers gives. Needs no sched_ext.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "parity.h"
#include "preempt.h"

char _license[] SEC("license") = "GPL";

SEC("syscall")
int vrq_parity(struct vrq_parity *t)
{
	u32 x = t->a, y = t->b, z = t->c;

	t->result[0] = vrq_user_prio(x);
	t->result[1] = vrq_prio_ratio(x);
	t->result[2] = vrq_class(x);
	t->result[3] = vrq_slice_ns(z);
	t->result[4] = vrq_slice_expired(t->a);
	t->result[5] = vrq_slice_left_ns(t->a, t->b);
	t->result[6] = vrq_must_refill(t->a, y);
	t->result[7] = vrq_fork_share_ns(t->a);
	t->result[8] = vrq_deadline_offset_ns(x, z);
	t->result[9] = vrq_deadline(t->b, x, z);
	t->result[10] = vrq_key(vrq_class(x), t->b);
	t->result[11] = vrq_key_deadline(t->a);
	t->result[12] = vrq_renice_deadline(t->a, x, y, z);
	t->result[13] = vrq_can_preempt(t->a, t->b);
	t->result[14] = vrq_prev_wins(t->a, t->b);
	t->result[15] = vrq_resched_best_idle(x & 1, y & 1, y & 2, y & 4);
	t->result[16] = vrq_goidle_path(y & 1, y & 2, y & 4);
	return 0;
}
