/* SPDX-License-Identifier: GPL-2.0-only */
/* What a test hands to parity.bpf.c and gets back. */
#ifndef VRQ_PARITY_H
#define VRQ_PARITY_H

#include "intf.h"

enum { VRQ_NR_PARITY = 17 };

struct vrq_parity {
	u64 a, b, c;			/* arguments; the u32 ones are their low halves */
	u64 result[VRQ_NR_PARITY];	/* one for each pure function */
};

#endif
