// SPDX-License-Identifier: GPL-2.0-only
/* Natural numbers of any size in base 10^9: sum, difference, product by the book and by Karatsuba, text. */
#include "ns.h"

#define BASE 1000000000u
#define LIMBS 256

struct big {
	uint32_t limb[LIMBS]; /* lowest first */
	size_t len;
};

static void trim(struct big *n)
{
	while (n->len && !n->limb[n->len - 1])
		n->len--;
}

static void from_u64(struct big *n, uint64_t v)
{
	for (n->len = 0; v; v /= BASE)
		n->limb[n->len++] = (uint32_t)(v % BASE);
}

static int compare(const struct big *a, const struct big *b)
{
	size_t i;

	if (a->len != b->len)
		return a->len < b->len ? -1 : 1;
	for (i = a->len; i-- > 0;)
		if (a->limb[i] != b->limb[i])
			return a->limb[i] < b->limb[i] ? -1 : 1;
	return 0;
}

static void add_shifted(struct big *out, const struct big *n, size_t shift)
{
	uint64_t carry = 0;
	size_t i;

	if (!n->len)
		return;
	while (out->len < n->len + shift)
		out->limb[out->len++] = 0;
	for (i = 0; i < n->len || carry; i++) {
		if (i + shift == out->len)
			out->limb[out->len++] = 0;
		carry += (uint64_t)out->limb[i + shift] + (i < n->len ? n->limb[i] : 0);
		out->limb[i + shift] = (uint32_t)(carry % BASE);
		carry /= BASE;
	}
}

/* out -= n; n must not be larger. */
static void subtract(struct big *out, const struct big *n)
{
	int64_t borrow = 0;
	size_t i;

	for (i = 0; i < out->len; i++) {
		int64_t d = (int64_t)out->limb[i] - (i < n->len ? n->limb[i] : 0) - borrow;

		borrow = d < 0;
		out->limb[i] = (uint32_t)(d + (borrow ? (int64_t)BASE : 0));
	}
	trim(out);
}

static void multiply(struct big *out, const struct big *a, const struct big *b)
{
	size_t i, j;

	memset(out, 0, sizeof(*out));
	out->len = a->len + b->len;
	for (i = 0; i < a->len; i++) {
		uint64_t carry = 0;

		for (j = 0; j < b->len || carry; j++) {
			carry += out->limb[i + j] + (uint64_t)a->limb[i] * (j < b->len ? b->limb[j] : 0);
			out->limb[i + j] = (uint32_t)(carry % BASE);
			carry /= BASE;
		}
	}
	trim(out);
}

static void split(const struct big *n, size_t at, struct big *low, struct big *high)
{
	low->len = n->len < at ? n->len : at;
	memcpy(low->limb, n->limb, low->len * sizeof(n->limb[0]));
	trim(low);
	high->len = n->len > at ? n->len - at : 0;
	memcpy(high->limb, n->limb + at, high->len * sizeof(n->limb[0]));
}

/* (h1 B + l1)(h2 B + l2) from three products instead of four. */
static void karatsuba(struct big *out, const struct big *a, const struct big *b)
{
	struct big l1, h1, l2, h2, low, mid, high;
	size_t half = (a->len > b->len ? a->len : b->len) / 2;

	if (a->len < 12 || b->len < 12) {
		multiply(out, a, b);
		return;
	}
	split(a, half, &l1, &h1);
	split(b, half, &l2, &h2);
	karatsuba(&low, &l1, &l2);
	karatsuba(&high, &h1, &h2);
	add_shifted(&l1, &h1, 0);
	add_shifted(&l2, &h2, 0);
	karatsuba(&mid, &l1, &l2);
	subtract(&mid, &low);
	subtract(&mid, &high);
	out->len = 0;
	add_shifted(out, &low, 0);
	add_shifted(out, &mid, half);
	add_shifted(out, &high, 2 * half);
	trim(out);
}

static void to_text(char *out, const struct big *n)
{
	size_t i;

	if (!n->len) {
		strcpy(out, "0");
		return;
	}
	out += sprintf(out, "%" PRIu32, n->limb[n->len - 1]);
	for (i = n->len - 1; i-- > 0;)
		out += sprintf(out, "%09" PRIu32, n->limb[i]);
}

static uint32_t remainder_of(const struct big *n, uint32_t by)
{
	uint64_t rest = 0;
	size_t i;

	for (i = n->len; i-- > 0;)
		rest = (rest * BASE + n->limb[i]) % by;
	return (uint32_t)rest;
}

static void random_big(struct big *n, size_t len, uint32_t *seed)
{
	for (n->len = 0; n->len < len; n->len++)
		n->limb[n->len] = rnd(seed) % BASE;
	trim(n);
}

int NS(bignum_selftest)(void)
{
	static struct big a, b, by_book, by_karatsuba, sum;
	static char text[LIMBS * 9 + 1];
	uint32_t seed = SEED, i;

	from_u64(&a, 1);
	for (i = 2; i <= 30; i++) {
		from_u64(&b, i);
		multiply(&sum, &a, &b);
		a = sum;
	}
	to_text(text, &a);
	CHECK(!strcmp(text, "265252859812191058636308480000000"));
	for (i = 0; i < 60; i++) {
		random_big(&a, 10 + rnd(&seed) % 90, &seed);
		random_big(&b, 10 + rnd(&seed) % 90, &seed);
		multiply(&by_book, &a, &b);
		karatsuba(&by_karatsuba, &a, &b);
		CHECK(!compare(&by_book, &by_karatsuba));
		CHECK(remainder_of(&by_book, 9973) == remainder_of(&a, 9973) * remainder_of(&b, 9973) % 9973);
		sum = a;
		add_shifted(&sum, &b, 0);
		subtract(&sum, &b);
		CHECK(!compare(&sum, &a));
	}
	return 0;
}
