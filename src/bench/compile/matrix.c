// SPDX-License-Identifier: GPL-2.0-only
/* Matrices over the integers modulo a prime: product, power, determinant, inverse, linear systems. */
#include "ns.h"

#define N 20
#define PRIME 1000003

struct matrix {
	int64_t at[N][N];
};

static int64_t mod(int64_t v)
{
	v %= PRIME;
	return v < 0 ? v + PRIME : v;
}

static int64_t power(int64_t base, int64_t exponent)
{
	int64_t result = 1;

	for (base = mod(base); exponent; exponent >>= 1) {
		if (exponent & 1)
			result = mod(result * base);
		base = mod(base * base);
	}
	return result;
}

/* Fermat: the inverse of a nonzero value is its power PRIME - 2. */
static int64_t inverse(int64_t v)
{
	return power(v, PRIME - 2);
}

static void identity(struct matrix *m)
{
	int i;

	memset(m, 0, sizeof(*m));
	for (i = 0; i < N; i++)
		m->at[i][i] = 1;
}

static void product(struct matrix *out, const struct matrix *a, const struct matrix *b)
{
	struct matrix r;
	int i, j, k;

	memset(&r, 0, sizeof(r));
	for (i = 0; i < N; i++)
		for (k = 0; k < N; k++)
			for (j = 0; j < N; j++)
				r.at[i][j] += a->at[i][k] * b->at[k][j];
	for (i = 0; i < N; i++)
		for (j = 0; j < N; j++)
			out->at[i][j] = mod(r.at[i][j]);
}

static void transpose(struct matrix *out, const struct matrix *m)
{
	int i, j;

	for (i = 0; i < N; i++)
		for (j = 0; j < N; j++)
			out->at[j][i] = m->at[i][j];
}

static void row_swap(struct matrix *m, int a, int b)
{
	int64_t t[N];

	memcpy(t, m->at[a], sizeof(t));
	memcpy(m->at[a], m->at[b], sizeof(t));
	memcpy(m->at[b], t, sizeof(t));
}

static void row_scale(struct matrix *m, int row, int64_t by)
{
	int j;

	for (j = 0; j < N; j++)
		m->at[row][j] = mod(m->at[row][j] * by);
}

static void row_subtract(struct matrix *m, int row, int from, int64_t times)
{
	int j;

	for (j = 0; j < N; j++)
		m->at[row][j] = mod(m->at[row][j] - times * m->at[from][j]);
}

/* Gauss and Jordan on both matrices at once. Returns the determinant; 0 leaves inv undefined. */
static int64_t invert(struct matrix *inv, const struct matrix *m)
{
	struct matrix work = *m;
	int64_t det = 1, pivot;
	int col, row;

	identity(inv);
	for (col = 0; col < N; col++) {
		for (row = col; row < N && !work.at[row][col]; row++)
			;
		if (row == N)
			return 0;
		if (row != col) {
			row_swap(&work, row, col);
			row_swap(inv, row, col);
			det = mod(-det);
		}
		pivot = work.at[col][col];
		det = mod(det * pivot);
		row_scale(&work, col, inverse(pivot));
		row_scale(inv, col, inverse(pivot));
		for (row = 0; row < N; row++) {
			int64_t times = work.at[row][col];

			if (row == col || !times)
				continue;
			row_subtract(&work, row, col, times);
			row_subtract(inv, row, col, times);
		}
	}
	return det;
}

static void matrix_power(struct matrix *out, const struct matrix *m, unsigned int exponent)
{
	struct matrix base = *m;

	identity(out);
	for (; exponent; exponent >>= 1) {
		if (exponent & 1)
			product(out, out, &base);
		product(&base, &base, &base);
	}
}

static bool equal(const struct matrix *a, const struct matrix *b)
{
	return !memcmp(a, b, sizeof(*a));
}

static void fill(struct matrix *m, uint32_t *seed)
{
	int i, j;

	for (i = 0; i < N; i++)
		for (j = 0; j < N; j++)
			m->at[i][j] = rnd(seed) % PRIME;
}

int NS(matrix_selftest)(void)
{
	struct matrix a, b, ab, ia, ib, iab, one, t, u;
	uint32_t seed = SEED;
	int64_t da, db;

	identity(&one);
	fill(&a, &seed);
	fill(&b, &seed);
	product(&ab, &a, &b);
	da = invert(&ia, &a);
	db = invert(&ib, &b);
	CHECK(da && db);
	/* det(AB) = det(A) det(B); A A^-1 = 1; (AB)^-1 = B^-1 A^-1; (AB)^T = B^T A^T */
	CHECK(invert(&iab, &ab) == mod(da * db));
	product(&t, &a, &ia);
	CHECK(equal(&t, &one));
	product(&t, &ib, &ia);
	CHECK(equal(&t, &iab));
	transpose(&t, &ab);
	transpose(&ia, &a);
	transpose(&ib, &b);
	product(&u, &ib, &ia);
	CHECK(equal(&t, &u));
	matrix_power(&t, &a, 5);
	matrix_power(&u, &a, 2);
	product(&u, &u, &a);
	product(&u, &u, &a);
	product(&u, &u, &a);
	CHECK(equal(&t, &u));
	return 0;
}
