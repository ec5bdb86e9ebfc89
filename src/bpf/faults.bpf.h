/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Faults for the tests, which must see them. Only in the build with the feature "faults": there a task
 * can be withheld for ever or kept last by its name, and VRQ_FAULT switches one mechanism off.
 */
#ifndef VRQ_FAULTS_BPF_H
#define VRQ_FAULTS_BPF_H

#ifdef VRQ_FAULTS
const volatile u32 fault = VRQ_FAULT_NONE;

static __always_inline bool task_named(const struct task_struct *p, const char *name, u32 len)
{
	u32 i;

	for (i = 0; i < len && i < sizeof(p->comm); i++)
		if (p->comm[i] != name[i])
			return false;
	return true;
}
#define has_fault(which)	(fault == VRQ_FAULT_##which)
#define withheld(p)		task_named(p, "vrq-withheld", 12)
#define kept_last(p)		task_named(p, "vrq-last", 8)
#else
#define has_fault(which)	false
#define withheld(p)		false
#define kept_last(p)		false
#endif

#endif
