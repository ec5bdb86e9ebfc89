// SPDX-License-Identifier: GPL-2.0-only
/* JSON: a tokenizer by state, a parser to a flat array of nodes, a writer; write(parse(x)) == x. */
#include "ns.h"

enum type { NONE, OBJECT, ARRAY, STRING, NUMBER, WORD };

struct token {
	enum type type;
	const char *at;
	size_t len;
	uint32_t kids;	/* members of an object, elements of an array */
	uint32_t skip;	/* this token and everything inside it */
};

struct parser {
	const char *at, *end;
	struct token *tokens;
	size_t used, room;
	unsigned int depth;
};

#define MAX_DEPTH 32

static void skip_space(struct parser *ps)
{
	while (ps->at < ps->end && (*ps->at == ' ' || *ps->at == '\n' || *ps->at == '\t' || *ps->at == '\r'))
		ps->at++;
}

static bool next_is(struct parser *ps, char c)
{
	skip_space(ps);
	if (ps->at == ps->end || *ps->at != c)
		return false;
	ps->at++;
	return true;
}

static int scan_string(struct parser *ps)
{
	for (ps->at++; ps->at < ps->end; ps->at++) {
		unsigned char c = (unsigned char)*ps->at;

		if (c == '"') {
			ps->at++;
			return 0;
		}
		if (c < 0x20)
			return -EINVAL;
		if (c == '\\') {
			if (++ps->at == ps->end)
				return -EINVAL;
			if (!strchr("\"\\/bfnrtu", *ps->at))
				return -EINVAL;
		}
	}
	return -EINVAL;
}

static size_t scan_digits(struct parser *ps)
{
	const char *from = ps->at;

	while (ps->at < ps->end && *ps->at >= '0' && *ps->at <= '9')
		ps->at++;
	return (size_t)(ps->at - from);
}

static int scan_number(struct parser *ps)
{
	if (*ps->at == '-')
		ps->at++;
	if (ps->at < ps->end && *ps->at == '0')
		ps->at++;
	else if (!scan_digits(ps))
		return -EINVAL;
	if (ps->at < ps->end && *ps->at == '.') {
		ps->at++;
		if (!scan_digits(ps))
			return -EINVAL;
	}
	if (ps->at < ps->end && (*ps->at == 'e' || *ps->at == 'E')) {
		ps->at++;
		if (ps->at < ps->end && (*ps->at == '+' || *ps->at == '-'))
			ps->at++;
		if (!scan_digits(ps))
			return -EINVAL;
	}
	return 0;
}

static int scan_word(struct parser *ps)
{
	static const char *const words[] = { "true", "false", "null" };
	size_t i;

	for (i = 0; i < 3; i++) {
		size_t len = strlen(words[i]);

		if ((size_t)(ps->end - ps->at) >= len && !memcmp(ps->at, words[i], len)) {
			ps->at += len;
			return 0;
		}
	}
	return -EINVAL;
}

static int parse_value(struct parser *ps);

static int parse_members(struct parser *ps, struct token *t, char close)
{
	int err;

	if (next_is(ps, close))
		return 0;
	do {
		if (close == '}') {
			skip_space(ps);
			if (ps->at == ps->end || *ps->at != '"')
				return -EINVAL;
			err = parse_value(ps);
			if (err)
				return err;
			if (!next_is(ps, ':'))
				return -EINVAL;
		}
		err = parse_value(ps);
		if (err)
			return err;
		t->kids++;
	} while (next_is(ps, ','));
	return next_is(ps, close) ? 0 : -EINVAL;
}

static int parse_value(struct parser *ps)
{
	size_t index = ps->used;
	struct token *t;
	int err;

	skip_space(ps);
	if (ps->at == ps->end)
		return -EINVAL;
	if (ps->used == ps->room || ps->depth == MAX_DEPTH)
		return -E2BIG;
	t = &ps->tokens[ps->used++];
	memset(t, 0, sizeof(*t));
	t->at = ps->at;
	ps->depth++;
	switch (*ps->at) {
	case '{':
		t->type = OBJECT;
		ps->at++;
		err = parse_members(ps, t, '}');
		break;
	case '[':
		t->type = ARRAY;
		ps->at++;
		err = parse_members(ps, t, ']');
		break;
	case '"':
		t->type = STRING;
		err = scan_string(ps);
		break;
	case '-': case '0': case '1': case '2': case '3': case '4':
	case '5': case '6': case '7': case '8': case '9':
		t->type = NUMBER;
		err = scan_number(ps);
		break;
	default:
		t->type = WORD;
		err = scan_word(ps);
	}
	ps->depth--;
	t->len = (size_t)(ps->at - t->at);
	t->skip = (uint32_t)(ps->used - index);
	return err;
}

static int parse(struct parser *ps, const char *text)
{
	int err;

	ps->at = text;
	ps->end = text + strlen(text);
	ps->used = 0;
	ps->depth = 0;
	err = parse_value(ps);
	skip_space(ps);
	return err ? err : ps->at == ps->end ? 0 : -EINVAL;
}

static const struct token *write(char **out, const struct token *t)
{
	const struct token *kid = t + 1;
	uint32_t i;

	if (t->type != OBJECT && t->type != ARRAY) {
		memcpy(*out, t->at, t->len);
		*out += t->len;
		return t + 1;
	}
	*(*out)++ = t->type == OBJECT ? '{' : '[';
	for (i = 0; i < t->kids; i++) {
		if (i)
			*(*out)++ = ',';
		if (t->type == OBJECT) {
			kid = write(out, kid);
			*(*out)++ = ':';
		}
		kid = write(out, kid);
	}
	*(*out)++ = t->type == OBJECT ? '}' : ']';
	return kid;
}

static char *random_value(char *out, int depth, uint32_t *seed)
{
	uint32_t kind = depth ? rnd(seed) % 5 : 2 + rnd(seed) % 3, i, kids = rnd(seed) % 5;

	switch (kind) {
	case 0:
		*out++ = '{';
		for (i = 0; i < kids; i++) {
			out += sprintf(out, "%s\"k%u\":", i ? "," : "", rnd(seed) % 100);
			out = random_value(out, depth - 1, seed);
		}
		*out++ = '}';
		break;
	case 1:
		*out++ = '[';
		for (i = 0; i < kids; i++) {
			if (i)
				*out++ = ',';
			out = random_value(out, depth - 1, seed);
		}
		*out++ = ']';
		break;
	case 2:
		out += sprintf(out, "\"line\\n%x\\\"\"", rnd(seed));
		break;
	case 3:
		out += sprintf(out, "-%u.%ue+%u", rnd(seed) % 1000 + 1, rnd(seed) % 1000, rnd(seed) % 20);
		break;
	default:
		out += sprintf(out, "%s", rnd(seed) & 1 ? "true" : "null");
	}
	*out = '\0';
	return out;
}

int NS(json_selftest)(void)
{
	static const char *const broken[] = { "", "{", "[1,]", "{\"a\" 1}", "01", "1.", "\"x", "tru", "[1] 2", "\"\\q\"" };
	static char text[65536], again[65536];
	static struct token tokens[8192];
	struct parser ps = { .tokens = tokens, .room = 8192 };
	uint32_t seed = SEED;
	size_t i;

	for (i = 0; i < 100; i++) {
		char *end = again;

		random_value(text, 1 + (int)(i % 6), &seed);
		CHECK(parse(&ps, text) == 0);
		CHECK(tokens[0].skip == ps.used);
		write(&end, tokens);
		*end = '\0';
		CHECK(!strcmp(text, again));
	}
	for (i = 0; i < sizeof(broken) / sizeof(broken[0]); i++)
		CHECK(parse(&ps, broken[i]) < 0);
	return 0;
}
