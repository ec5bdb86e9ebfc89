// SPDX-License-Identifier: GPL-2.0-only
/* A hash map from strings to numbers: open addressing, robin-hood placement, backward-shift removal. */
#include "ns.h"

struct entry {
	char *key;
	uint64_t hash;
	int64_t value;
};

struct map {
	struct entry *slots;
	size_t room, used; /* room is a power of two */
};

static uint64_t hash_of(const char *key)
{
	uint64_t h = 1469598103934665603u;

	while (*key) {
		h ^= (unsigned char)*key++;
		h *= 1099511628211u;
	}
	return h ? h : 1;
}

static size_t distance(const struct map *m, size_t slot)
{
	return (slot - m->slots[slot].hash) & (m->room - 1);
}

static bool place(struct map *m, struct entry e)
{
	size_t slot = e.hash & (m->room - 1), far = 0;

	for (;; slot = (slot + 1) & (m->room - 1), far++) {
		struct entry *here = &m->slots[slot];

		if (!here->key) {
			*here = e;
			m->used++;
			return true;
		}
		if (here->hash == e.hash && !strcmp(here->key, e.key)) {
			here->value = e.value;
			return false;
		}
		if (distance(m, slot) < far) {
			struct entry moved = *here;

			far = distance(m, slot);
			*here = e;
			e = moved;
		}
	}
}

static int grow(struct map *m)
{
	struct entry *old = m->slots;
	size_t room = m->room, i;

	m->room = room ? room * 2 : 16;
	m->slots = calloc(m->room, sizeof(*m->slots));
	if (!m->slots)
		return -ENOMEM;
	m->used = 0;
	for (i = 0; i < room; i++)
		if (old[i].key)
			place(m, old[i]);
	free(old);
	return 0;
}

static int map_set(struct map *m, const char *key, int64_t value)
{
	struct entry e = { .hash = hash_of(key), .value = value };

	if ((m->used + 1) * 4 > m->room * 3 && grow(m))
		return -ENOMEM;
	e.key = malloc(strlen(key) + 1);
	if (!e.key)
		return -ENOMEM;
	strcpy(e.key, key);
	if (!place(m, e))
		free(e.key);
	return 0;
}

static struct entry *map_find(const struct map *m, const char *key)
{
	uint64_t hash = hash_of(key);
	size_t slot, far;

	if (!m->room)
		return NULL;
	slot = hash & (m->room - 1);
	for (far = 0; m->slots[slot].key && distance(m, slot) >= far; far++) {
		if (m->slots[slot].hash == hash && !strcmp(m->slots[slot].key, key))
			return &m->slots[slot];
		slot = (slot + 1) & (m->room - 1);
	}
	return NULL;
}

static bool map_remove(struct map *m, const char *key)
{
	struct entry *e = map_find(m, key);
	size_t slot, next;

	if (!e)
		return false;
	free(e->key);
	slot = (size_t)(e - m->slots);
	for (;;) {
		next = (slot + 1) & (m->room - 1);
		if (!m->slots[next].key || distance(m, next) == 0)
			break;
		m->slots[slot] = m->slots[next];
		slot = next;
	}
	memset(&m->slots[slot], 0, sizeof(m->slots[slot]));
	m->used--;
	return true;
}

static void map_free(struct map *m)
{
	size_t i;

	for (i = 0; i < m->room; i++)
		free(m->slots[i].key);
	free(m->slots);
}

static void key_of(char *out, uint32_t n)
{
	static const char *const words[] = { "queue", "deadline", "slice", "idle", "wake", "niffy", "prio", "lock" };

	sprintf(out, "%s-%s-%" PRIu32, words[n % 8], words[n / 8 % 8], n);
}

int NS(map_selftest)(void)
{
	struct map m = { 0 };
	uint32_t seed = SEED, base = rnd(&seed) % 100000, i;
	char key[64];
	size_t left = 0;

	for (i = 0; i < 3000; i++) {
		key_of(key, base + i);
		CHECK(map_set(&m, key, i) == 0);
	}
	CHECK(m.used == 3000);
	for (i = 0; i < 3000; i += 3) {
		key_of(key, base + i);
		CHECK(map_remove(&m, key));
		CHECK(!map_remove(&m, key));
	}
	for (i = 0; i < 3000; i++) {
		struct entry *e;

		key_of(key, base + i);
		e = map_find(&m, key);
		CHECK((i % 3 == 0) == !e);
		if (e) {
			CHECK(e->value == (int64_t)i);
			left++;
		}
	}
	CHECK(left == m.used);
	map_free(&m);
	return 0;
}
