// SPDX-License-Identifier: GPL-2.0-only
/* Weighted graphs: Dijkstra with a binary heap against Bellman and Ford, Kruskal against Prim, components. */
#include "ns.h"

#define NODES 120
#define EDGES 900
#define FAR (INT64_MAX / 4)

struct edge {
	int from, to, next; /* next: index of the next edge out of the same node, -1 ends */
	int64_t cost;
};

struct graph {
	struct edge edges[2 * EDGES];
	int first[NODES];
	int count;
};

struct heap {
	int node[2 * EDGES + 1];
	int64_t key[2 * EDGES + 1];
	int len;
};

static void edge_add(struct graph *g, int from, int to, int64_t cost)
{
	struct edge *e = &g->edges[g->count];

	e->from = from;
	e->to = to;
	e->cost = cost;
	e->next = g->first[from];
	g->first[from] = g->count++;
}

static void heap_swap(struct heap *h, int a, int b)
{
	int node = h->node[a];
	int64_t key = h->key[a];

	h->node[a] = h->node[b];
	h->key[a] = h->key[b];
	h->node[b] = node;
	h->key[b] = key;
}

static void heap_push(struct heap *h, int node, int64_t key)
{
	int at = h->len++;

	h->node[at] = node;
	h->key[at] = key;
	while (at && h->key[(at - 1) / 2] > h->key[at]) {
		heap_swap(h, at, (at - 1) / 2);
		at = (at - 1) / 2;
	}
}

static int heap_pop(struct heap *h, int64_t *key)
{
	int top = h->node[0], at = 0;

	*key = h->key[0];
	heap_swap(h, 0, --h->len);
	for (;;) {
		int kid = 2 * at + 1;

		if (kid >= h->len)
			return top;
		if (kid + 1 < h->len && h->key[kid + 1] < h->key[kid])
			kid++;
		if (h->key[at] <= h->key[kid])
			return top;
		heap_swap(h, at, kid);
		at = kid;
	}
}

static void dijkstra(const struct graph *g, int start, int64_t *dist)
{
	static struct heap h;
	int i, e;

	for (i = 0; i < NODES; i++)
		dist[i] = FAR;
	dist[start] = 0;
	h.len = 0;
	heap_push(&h, start, 0);
	while (h.len) {
		int64_t key;
		int at = heap_pop(&h, &key);

		if (key > dist[at])
			continue;
		for (e = g->first[at]; e >= 0; e = g->edges[e].next) {
			int64_t reach = key + g->edges[e].cost;

			if (reach < dist[g->edges[e].to]) {
				dist[g->edges[e].to] = reach;
				heap_push(&h, g->edges[e].to, reach);
			}
		}
	}
}

static void bellman_ford(const struct graph *g, int start, int64_t *dist)
{
	bool changed = true;
	int i;

	for (i = 0; i < NODES; i++)
		dist[i] = FAR;
	dist[start] = 0;
	while (changed) {
		changed = false;
		for (i = 0; i < g->count; i++) {
			const struct edge *e = &g->edges[i];

			if (dist[e->from] < FAR && dist[e->from] + e->cost < dist[e->to]) {
				dist[e->to] = dist[e->from] + e->cost;
				changed = true;
			}
		}
	}
}

static int root_of(int *parent, int n)
{
	while (parent[n] != n)
		n = parent[n] = parent[parent[n]];
	return n;
}

static int compare_cost(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	return (x->cost > y->cost) - (x->cost < y->cost);
}

static int64_t kruskal(const struct graph *g, int *components)
{
	static struct edge sorted[2 * EDGES];
	int parent[NODES], i;
	int64_t total = 0;

	for (i = 0; i < NODES; i++)
		parent[i] = i;
	memcpy(sorted, g->edges, sizeof(sorted[0]) * (size_t)g->count);
	qsort(sorted, (size_t)g->count, sizeof(sorted[0]), compare_cost);
	*components = NODES;
	for (i = 0; i < g->count; i++) {
		int a = root_of(parent, sorted[i].from), b = root_of(parent, sorted[i].to);

		if (a == b)
			continue;
		parent[a] = b;
		total += sorted[i].cost;
		(*components)--;
	}
	return total;
}

static int64_t prim(const struct graph *g)
{
	static struct heap h;
	bool inside[NODES] = { false };
	int64_t total = 0, key;
	int start, e;

	for (start = 0; start < NODES; start++) {
		if (inside[start])
			continue;
		h.len = 0;
		heap_push(&h, start, 0);
		while (h.len) {
			int at = heap_pop(&h, &key);

			if (inside[at])
				continue;
			inside[at] = true;
			total += key;
			for (e = g->first[at]; e >= 0; e = g->edges[e].next)
				if (!inside[g->edges[e].to])
					heap_push(&h, g->edges[e].to, g->edges[e].cost);
		}
	}
	return total;
}

int NS(graph_selftest)(void)
{
	static struct graph g;
	int64_t a[NODES], b[NODES];
	uint32_t seed = SEED;
	int i, components, reached = 0;

	memset(g.first, 0xff, sizeof(g.first));
	g.count = 0;
	for (i = 0; i < EDGES; i++) {
		int from = (int)(rnd(&seed) % NODES), to = (int)(rnd(&seed) % NODES);
		int64_t cost = 1 + rnd(&seed) % 1000;

		edge_add(&g, from, to, cost);
		edge_add(&g, to, from, cost);
	}
	dijkstra(&g, 0, a);
	bellman_ford(&g, 0, b);
	for (i = 0; i < NODES; i++) {
		CHECK(a[i] == b[i]);
		reached += a[i] < FAR;
	}
	CHECK(kruskal(&g, &components) == prim(&g));
	CHECK(components == 1 ? reached == NODES : reached < NODES);
	return 0;
}
