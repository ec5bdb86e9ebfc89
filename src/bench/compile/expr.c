// SPDX-License-Identifier: GPL-2.0-only
/* Integer expressions: parsed to a tree, folded, compiled for a stack machine, run, and printed. */
#include "ns.h"

enum kind { NUM, VAR, NEG, ADD, SUB, MUL, DIV, MOD, LESS, EQUAL, COND };

struct node {
	enum kind kind;
	int64_t value;
	struct node *kid[3];
};

struct parser {
	const char *at;
	struct node *pool;
	size_t used, room;
	const char *error;
};

static struct node *node_new(struct parser *ps, enum kind kind, struct node *a, struct node *b, struct node *c)
{
	struct node *n;

	if (ps->used == ps->room) {
		ps->error = "expression too large";
		return &ps->pool[0];
	}
	n = &ps->pool[ps->used++];
	n->kind = kind;
	n->value = 0;
	n->kid[0] = a;
	n->kid[1] = b;
	n->kid[2] = c;
	return n;
}

static bool take(struct parser *ps, const char *token)
{
	size_t len = strlen(token);

	while (*ps->at == ' ' || *ps->at == '\t')
		ps->at++;
	if (strncmp(ps->at, token, len))
		return false;
	ps->at += len;
	return true;
}

static struct node *parse_cond(struct parser *ps);

static struct node *parse_atom(struct parser *ps)
{
	struct node *n;

	if (take(ps, "(")) {
		n = parse_cond(ps);
		if (!take(ps, ")"))
			ps->error = "missing )";
		return n;
	}
	if (take(ps, "-"))
		return node_new(ps, NEG, parse_atom(ps), NULL, NULL);
	if (*ps->at >= 'a' && *ps->at <= 'z') {
		n = node_new(ps, VAR, NULL, NULL, NULL);
		n->value = *ps->at++ - 'a';
		return n;
	}
	if (*ps->at >= '0' && *ps->at <= '9') {
		int64_t v = 0;

		while (*ps->at >= '0' && *ps->at <= '9')
			v = (v * 10 + (*ps->at++ - '0')) % 1000000007;
		n = node_new(ps, NUM, NULL, NULL, NULL);
		n->value = v;
		return n;
	}
	ps->error = "value expected";
	return node_new(ps, NUM, NULL, NULL, NULL);
}

static struct node *parse_term(struct parser *ps)
{
	struct node *n = parse_atom(ps);

	while (!ps->error) {
		if (take(ps, "*"))
			n = node_new(ps, MUL, n, parse_atom(ps), NULL);
		else if (take(ps, "/"))
			n = node_new(ps, DIV, n, parse_atom(ps), NULL);
		else if (take(ps, "%"))
			n = node_new(ps, MOD, n, parse_atom(ps), NULL);
		else
			break;
	}
	return n;
}

static struct node *parse_sum(struct parser *ps)
{
	struct node *n = parse_term(ps);

	while (!ps->error) {
		if (take(ps, "+"))
			n = node_new(ps, ADD, n, parse_term(ps), NULL);
		else if (take(ps, "-"))
			n = node_new(ps, SUB, n, parse_term(ps), NULL);
		else
			break;
	}
	return n;
}

static struct node *parse_cond(struct parser *ps)
{
	struct node *n = parse_sum(ps), *yes;

	if (take(ps, "<"))
		n = node_new(ps, LESS, n, parse_sum(ps), NULL);
	else if (take(ps, "=="))
		n = node_new(ps, EQUAL, n, parse_sum(ps), NULL);
	if (!ps->error && take(ps, "?")) {
		yes = parse_cond(ps);
		if (!take(ps, ":"))
			ps->error = "missing :";
		n = node_new(ps, COND, n, yes, parse_cond(ps));
	}
	return n;
}

static int64_t wrap(int64_t v)
{
	return v % 1000000007;
}

static int64_t apply(enum kind kind, int64_t a, int64_t b)
{
	switch (kind) {
	case ADD:
		return wrap(a + b);
	case SUB:
		return wrap(a - b);
	case MUL:
		return wrap(a * b);
	case DIV:
		return b ? a / b : 0;
	case MOD:
		return b ? a % b : 0;
	case LESS:
		return a < b;
	case EQUAL:
		return a == b;
	default:
		return 0;
	}
}

static int64_t eval(const struct node *n, const int64_t *vars)
{
	switch (n->kind) {
	case NUM:
		return n->value;
	case VAR:
		return vars[n->value];
	case NEG:
		return -eval(n->kid[0], vars);
	case COND:
		return eval(n->kid[eval(n->kid[0], vars) ? 1 : 2], vars);
	default:
		return apply(n->kind, eval(n->kid[0], vars), eval(n->kid[1], vars));
	}
}

/* Replaces every operation on two constants by its value. */
static void fold(struct node *n)
{
	int i;

	for (i = 0; i < 3; i++)
		if (n->kid[i])
			fold(n->kid[i]);
	if (n->kind >= ADD && n->kind <= EQUAL && n->kid[0]->kind == NUM && n->kid[1]->kind == NUM) {
		n->value = apply(n->kind, n->kid[0]->value, n->kid[1]->value);
		n->kind = NUM;
		n->kid[0] = n->kid[1] = NULL;
	} else if (n->kind == NEG && n->kid[0]->kind == NUM) {
		n->value = -n->kid[0]->value;
		n->kind = NUM;
		n->kid[0] = NULL;
	}
}

enum op { PUSH, LOAD, NEGATE, BINARY, JUMP, JUMP_FALSE };

struct insn {
	enum op op;
	int64_t arg;
};

struct code {
	struct insn insn[512];
	size_t len;
};

static size_t emit(struct code *code, enum op op, int64_t arg)
{
	if (code->len < sizeof(code->insn) / sizeof(code->insn[0])) {
		code->insn[code->len].op = op;
		code->insn[code->len].arg = arg;
	}
	return code->len++;
}

static void compile(struct code *code, const struct node *n)
{
	size_t over, end;

	switch (n->kind) {
	case NUM:
		emit(code, PUSH, n->value);
		break;
	case VAR:
		emit(code, LOAD, n->value);
		break;
	case NEG:
		compile(code, n->kid[0]);
		emit(code, NEGATE, 0);
		break;
	case COND:
		compile(code, n->kid[0]);
		over = emit(code, JUMP_FALSE, 0);
		compile(code, n->kid[1]);
		end = emit(code, JUMP, 0);
		code->insn[over].arg = (int64_t)code->len;
		compile(code, n->kid[2]);
		code->insn[end].arg = (int64_t)code->len;
		break;
	default:
		compile(code, n->kid[0]);
		compile(code, n->kid[1]);
		emit(code, BINARY, n->kind);
	}
}

static int64_t execute(const struct code *code, const int64_t *vars)
{
	int64_t stack[128];
	size_t sp = 0, pc = 0;

	while (pc < code->len && sp < 126) {
		const struct insn *in = &code->insn[pc++];

		switch (in->op) {
		case PUSH:
			stack[sp++] = in->arg;
			break;
		case LOAD:
			stack[sp++] = vars[in->arg];
			break;
		case NEGATE:
			stack[sp - 1] = -stack[sp - 1];
			break;
		case BINARY:
			sp--;
			stack[sp - 1] = apply((enum kind)in->arg, stack[sp - 1], stack[sp]);
			break;
		case JUMP:
			pc = (size_t)in->arg;
			break;
		case JUMP_FALSE:
			if (!stack[--sp])
				pc = (size_t)in->arg;
			break;
		}
	}
	return sp ? stack[0] : 0;
}

/* Writes a random expression of at most the given depth; returns where it ends. */
static char *write_random(char *out, int depth, uint32_t *seed)
{
	static const char operators[] = "+-*/%<";

	if (depth == 0)
		return out + (rnd(seed) & 1 ? sprintf(out, "%u", rnd(seed) % 1000)
					    : sprintf(out, "%c", (int)('a' + rnd(seed) % 26)));
	*out++ = '(';
	if (rnd(seed) % 8 == 0) {
		out = write_random(out, depth - 1, seed);
		*out++ = '?';
		out = write_random(out, depth - 1, seed);
		*out++ = ':';
		out = write_random(out, depth - 1, seed);
	} else {
		out = write_random(out, depth - 1, seed);
		*out++ = operators[rnd(seed) % (sizeof(operators) - 1)];
		out = write_random(out, depth - 1, seed);
	}
	*out++ = ')';
	*out = '\0';
	return out;
}

int NS(expr_selftest)(void)
{
	static struct node pool[1024];
	static struct code code;
	static char text[8192];
	int64_t vars[26], direct;
	uint32_t seed = SEED;
	int round, i;

	for (i = 0; i < 26; i++)
		vars[i] = (int64_t)(rnd(&seed) % 2000) - 1000;
	for (round = 0; round < 200; round++) {
		struct parser ps = { .at = text, .pool = pool, .room = 1024 };
		struct node *root;

		write_random(text, 1 + round % 5, &seed);
		root = parse_cond(&ps);
		CHECK(!ps.error);
		CHECK(*ps.at == '\0');
		direct = eval(root, vars);
		fold(root);
		CHECK(eval(root, vars) == direct);
		code.len = 0;
		compile(&code, root);
		CHECK(code.len <= 512);
		CHECK(execute(&code, vars) == direct);
	}
	return 0;
}
