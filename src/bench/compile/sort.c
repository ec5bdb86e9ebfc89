// SPDX-License-Identifier: GPL-2.0-only
/* Four ways to sort, which must agree: insertion, heap, merge, and quick with median of three. */
#include "ns.h"

#define COUNT 1500

struct item {
	int32_t key;
	uint32_t seq; /* place before sorting: shows whether a sort is stable */
	char name[12];
};

typedef int (*compare_fn)(const struct item *a, const struct item *b);

static int by_key(const struct item *a, const struct item *b)
{
	return (a->key > b->key) - (a->key < b->key);
}

static int by_key_seq(const struct item *a, const struct item *b)
{
	int c = by_key(a, b);

	return c ? c : (a->seq > b->seq) - (a->seq < b->seq);
}

static int by_name(const struct item *a, const struct item *b)
{
	int c = strcmp(a->name, b->name);

	return c ? c : by_key_seq(a, b);
}

static void swap(struct item *a, struct item *b)
{
	struct item t = *a;

	*a = *b;
	*b = t;
}

static void insertion_sort(struct item *v, size_t n, compare_fn cmp)
{
	size_t i, j;

	for (i = 1; i < n; i++) {
		struct item x = v[i];

		for (j = i; j > 0 && cmp(&x, &v[j - 1]) < 0; j--)
			v[j] = v[j - 1];
		v[j] = x;
	}
}

static void sift_down(struct item *v, size_t root, size_t n, compare_fn cmp)
{
	for (;;) {
		size_t kid = 2 * root + 1;

		if (kid >= n)
			return;
		if (kid + 1 < n && cmp(&v[kid], &v[kid + 1]) < 0)
			kid++;
		if (cmp(&v[root], &v[kid]) >= 0)
			return;
		swap(&v[root], &v[kid]);
		root = kid;
	}
}

static void heap_sort(struct item *v, size_t n, compare_fn cmp)
{
	size_t i;

	for (i = n / 2; i-- > 0;)
		sift_down(v, i, n, cmp);
	for (i = n; i-- > 1;) {
		swap(&v[0], &v[i]);
		sift_down(v, 0, i, cmp);
	}
}

static void merge_sort(struct item *v, struct item *spare, size_t n, compare_fn cmp)
{
	size_t half = n / 2, i = 0, j = half, k = 0;

	if (n <= 12) {
		insertion_sort(v, n, cmp);
		return;
	}
	merge_sort(v, spare, half, cmp);
	merge_sort(v + half, spare, n - half, cmp);
	while (i < half && j < n)
		spare[k++] = cmp(&v[j], &v[i]) < 0 ? v[j++] : v[i++];
	while (i < half)
		spare[k++] = v[i++];
	while (j < n)
		spare[k++] = v[j++];
	memcpy(v, spare, n * sizeof(*v));
}

static void quick_sort(struct item *v, size_t n, compare_fn cmp)
{
	while (n > 16) {
		size_t lo = 0, hi = n - 1, mid = n / 2;
		struct item pivot;

		if (cmp(&v[mid], &v[lo]) < 0)
			swap(&v[mid], &v[lo]);
		if (cmp(&v[hi], &v[lo]) < 0)
			swap(&v[hi], &v[lo]);
		if (cmp(&v[hi], &v[mid]) < 0)
			swap(&v[hi], &v[mid]);
		pivot = v[mid];
		for (;;) {
			while (cmp(&v[lo], &pivot) < 0)
				lo++;
			while (cmp(&pivot, &v[hi]) < 0)
				hi--;
			if (lo >= hi)
				break;
			swap(&v[lo++], &v[hi--]);
		}
		/* The smaller side by recursion: the stack stays logarithmic. */
		if (hi + 1 < n - hi - 1) {
			quick_sort(v, hi + 1, cmp);
			v += hi + 1;
			n -= hi + 1;
		} else {
			quick_sort(v + hi + 1, n - hi - 1, cmp);
			n = hi + 1;
		}
	}
	insertion_sort(v, n, cmp);
}

static bool same(const struct item *a, const struct item *b, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (a[i].seq != b[i].seq)
			return false;
	return true;
}

int NS(sort_selftest)(void)
{
	static const compare_fn orders[] = { by_key_seq, by_name };
	static struct item start[COUNT], want[COUNT], got[COUNT], spare[COUNT];
	uint32_t seed = SEED;
	size_t i, o;

	for (i = 0; i < COUNT; i++) {
		start[i].key = (int32_t)(rnd(&seed) % 500);
		start[i].seq = (uint32_t)i;
		snprintf(start[i].name, sizeof(start[i].name), "t%u", rnd(&seed) % 300);
	}
	for (o = 0; o < 2; o++) {
		memcpy(want, start, sizeof(want));
		insertion_sort(want, COUNT, orders[o]);
		for (i = 1; i < COUNT; i++)
			CHECK(orders[o](&want[i - 1], &want[i]) < 0);
		memcpy(got, start, sizeof(got));
		heap_sort(got, COUNT, orders[o]);
		CHECK(same(want, got, COUNT));
		memcpy(got, start, sizeof(got));
		quick_sort(got, COUNT, orders[o]);
		CHECK(same(want, got, COUNT));
	}
	/* Merge sort is stable: ordering by key alone gives what key and place give together. */
	memcpy(want, start, sizeof(want));
	insertion_sort(want, COUNT, by_key_seq);
	memcpy(got, start, sizeof(got));
	merge_sort(got, spare, COUNT, by_key);
	CHECK(same(want, got, COUNT));
	return 0;
}
