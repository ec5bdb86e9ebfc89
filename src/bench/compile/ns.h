/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The program that `scx_vrq bench` compiles: eight small modules, each built many times over.
 *
 * A generated one-line file per instance defines INSTANCE and includes the module, so that every
 * instance is a translation unit of its own, with its own symbols and its own data (the seed).
 */
#ifndef NS_H
#define NS_H

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PASTE2(a, b) a##_##b
#define NS_PASTE(a, b) NS_PASTE2(a, b)
/* The name of a module's one public function in this instance, for example sort_selftest_3. */
#define NS(name) NS_PASTE(name, INSTANCE)

/* A check that fails says where and makes the self-test return 1. */
#define CHECK(claim)                                                                     \
	do {                                                                             \
		if (!(claim)) {                                                          \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #claim); \
			return 1;                                                        \
		}                                                                        \
	} while (0)

/* xorshift32; the state is never 0. */
static inline uint32_t rnd(uint32_t *state)
{
	uint32_t x = *state;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	return *state = x;
}

#define SEED (2463534242u + 7919u * (INSTANCE))

#endif
