/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How a pure policy function is declared: inlined into BPF, a real symbol natively.
 *
 * Pure: u32/u64 in, u64/bool out, no globals but const tables, no clock, no kernel types.
 */
#ifndef VRQ_POLICY_H
#define VRQ_POLICY_H

#include "intf.h"

#ifdef VRQ_NATIVE
#define POLICY_FN
#else
#define POLICY_FN static inline __attribute__((always_inline, unused))
#endif

_Static_assert(sizeof(u64) == 8 && (u64)-1 > 0, "u64 is an unsigned 64-bit integer");

#endif
