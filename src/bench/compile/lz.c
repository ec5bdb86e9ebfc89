// SPDX-License-Identifier: GPL-2.0-only
/*
 * A byte compressor in LZ77's manner. Control byte below 128: that many literals plus one follow.
 * From 128 on: a copy of (control - 128 + MIN_MATCH) bytes from the distance in the next two bytes.
 */
#include "ns.h"

#define MIN_MATCH 4
#define MAX_MATCH (MIN_MATCH + 127)
#define MAX_LITERALS 128
#define HASH_BITS 12
#define MAX_DISTANCE 65535

struct out {
	uint8_t *bytes;
	size_t len, room;
	bool overflow;
};

static void put(struct out *out, uint8_t byte)
{
	if (out->len < out->room)
		out->bytes[out->len++] = byte;
	else
		out->overflow = true;
}

static uint32_t hash4(const uint8_t *at)
{
	uint32_t v = (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;

	return v * 2654435761u >> (32 - HASH_BITS);
}

static void put_literals(struct out *out, const uint8_t *from, size_t count)
{
	while (count) {
		size_t part = count < MAX_LITERALS ? count : MAX_LITERALS, i;

		put(out, (uint8_t)(part - 1));
		for (i = 0; i < part; i++)
			put(out, from[i]);
		from += part;
		count -= part;
	}
}

static size_t match_len(const uint8_t *a, const uint8_t *b, const uint8_t *end)
{
	size_t len = 0;

	while (b + len < end && len < MAX_MATCH && a[len] == b[len])
		len++;
	return len;
}

static void compress(struct out *out, const uint8_t *in, size_t size)
{
	static size_t last[1 << HASH_BITS];
	size_t at = 0, pending = 0, len, gap;

	memset(last, 0xff, sizeof(last));
	while (at + MIN_MATCH <= size) {
		uint32_t h = hash4(in + at);
		size_t seen = last[h];

		last[h] = at;
		gap = at - seen;
		len = seen == SIZE_MAX || gap > MAX_DISTANCE ? 0 : match_len(in + seen, in + at, in + size);
		if (len < MIN_MATCH) {
			at++;
			continue;
		}
		put_literals(out, in + pending, at - pending);
		put(out, (uint8_t)(128 + len - MIN_MATCH));
		put(out, (uint8_t)(gap & 255));
		put(out, (uint8_t)(gap >> 8));
		at += len;
		pending = at;
	}
	put_literals(out, in + pending, size - pending);
}

static int expand(struct out *out, const uint8_t *in, size_t size)
{
	const uint8_t *end = in + size;

	while (in < end) {
		size_t control = *in++, count, gap;

		if (control < 128) {
			count = control + 1;
			if ((size_t)(end - in) < count)
				return -EINVAL;
			while (count--)
				put(out, *in++);
			continue;
		}
		if (end - in < 2)
			return -EINVAL;
		count = control - 128 + MIN_MATCH;
		gap = (size_t)in[0] | (size_t)in[1] << 8;
		in += 2;
		if (gap == 0 || gap > out->len)
			return -EINVAL;
		while (count--)
			put(out, out->bytes[out->len - gap]);
	}
	return out->overflow ? -ENOSPC : 0;
}

static size_t make_text(uint8_t *text, size_t room, uint32_t *seed)
{
	static const char *const words[] = { "the ", "earliest ", "deadline ", "runs ", "first, ", "and ",
					     "nobody ", "waits ", "for ", "ever.\n" };
	size_t len = 0;

	for (;;) {
		const char *w = words[rnd(seed) % 10];
		size_t n = strlen(w);

		if (len + n + 1 > room)
			return len;
		memcpy(text + len, w, n);
		len += n;
		if (rnd(seed) % 16 == 0)
			text[len++] = (uint8_t)rnd(seed);
	}
}

int NS(lz_selftest)(void)
{
	static uint8_t text[40000], packed[50000], again[40000];
	struct out small = { .bytes = packed, .room = sizeof(packed) };
	struct out back = { .bytes = again, .room = sizeof(again) };
	uint32_t seed = SEED;
	size_t size = make_text(text, sizeof(text), &seed);

	compress(&small, text, size);
	CHECK(!small.overflow);
	CHECK(small.len < size * 3 / 4);
	CHECK(expand(&back, packed, small.len) == 0);
	CHECK(back.len == size);
	CHECK(!memcmp(text, again, size));
	packed[0] = 200; /* a copy before anything was written must be refused */
	back.len = 0;
	CHECK(expand(&back, packed, small.len) == -EINVAL);
	return 0;
}
