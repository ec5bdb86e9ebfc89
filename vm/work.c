// SPDX-License-Identifier: GPL-2.0-only
/*
 * work pipe|messages|forks: a fixed piece of work eight times, with different pauses between, so that no phase
 * of a tick is favoured. Prints NS/UNITS for each: how long it took by the guest's clock, and how many
 *	pipe		sleeps there were while a byte went to a child and back ROUND_TRIPS times
 *	messages	messages went from SENDERS to RECEIVERS over sockets in each of GROUPS (hackbench's shape)
 *	forks		children were forked, exited and were waited for, one after the other
 * vm/cost.sh runs it where one ns is one instruction. Limits: any failing call ends it with status 1.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { REPETITIONS = 8, PAUSE_US = 20000, PAUSE_STEP_US = 7300, SETTLE_S = 5 };
enum { ROUND_TRIPS = 5000, FORKS = 500 };
enum { GROUPS = 2, SENDERS = 4, RECEIVERS = 4, LOOPS = 100, MESSAGE_BYTES = 100 };

struct result {
	long long ns;
	long units;
};

static void check(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

static long long now_ns(void)
{
	struct timespec t;

	check(!clock_gettime(CLOCK_MONOTONIC, &t), "clock_gettime");
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* What the boot and the last load left to do would land in the figure; and all work starts at one phase of a tick. */
static void settle(void)
{
	struct timespec t = { .tv_sec = (now_ns() / 1000000000LL / SETTLE_S + 2) * SETTLE_S };

	check(!clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL), "clock_nanosleep");
}

static pid_t forked(void)
{
	pid_t child = fork();

	check(child >= 0, "fork");
	return child;
}

static void wait_for_children(int nr)
{
	int status;

	while (nr--)
		check(wait(&status) > 0 && status == 0, "a child");
}

/* How often a process has slept so far. */
static long nr_sleeps(pid_t pid)
{
	char name[40], line[200];
	long nr = -1;

	snprintf(name, sizeof(name), "/proc/%d/status", pid);
	FILE *file = fopen(name, "r");
	check(file != NULL, name);
	while (nr < 0 && fgets(line, sizeof(line), file))
		sscanf(line, "voluntary_ctxt_switches: %ld", &nr);
	check(nr >= 0 && !fclose(file), name);
	return nr;
}

static struct result do_pipe(void)
{
	static int there[2], back[2];
	static pid_t child; /* the same in each repetition; it ends with the pipes */
	char byte = 0;

	if (!child) {
		check(!pipe(there) && !pipe(back), "pipe");
		child = forked();
		if (!child) {
			close(there[1]);
			while (read(there[0], &byte, 1) == 1)
				check(write(back[1], &byte, 1) == 1, "write");
			exit(0);
		}
		usleep(PAUSE_US);
	}
	long before = nr_sleeps(getpid()) + nr_sleeps(child);
	long long start = now_ns();
	for (int i = 0; i < ROUND_TRIPS; i++) {
		check(write(there[1], &byte, 1) == 1, "write");
		check(read(back[0], &byte, 1) == 1, "read");
	}
	long long ns = now_ns() - start;
	return (struct result){ ns, nr_sleeps(getpid()) + nr_sleeps(child) - before };
}

static void receive(int from)
{
	char message[MESSAGE_BYTES];

	for (int i = 0; i < SENDERS * LOOPS; i++)
		check(recv(from, message, sizeof(message), MSG_WAITALL) == sizeof(message), "recv");
	exit(0);
}

static void send_to_all(const int to[RECEIVERS], int starts)
{
	char message[MESSAGE_BYTES] = "";

	check(read(starts, message, 1) == 0, "read"); /* the end of that pipe is the start */
	for (int i = 0; i < LOOPS; i++)
		for (int j = 0; j < RECEIVERS; j++)
			check(write(to[j], message, sizeof(message)) == sizeof(message), "write");
	exit(0);
}

static void start_group(int starts[2])
{
	int to[RECEIVERS];

	for (int i = 0; i < RECEIVERS; i++) {
		int ends[2];

		check(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends), "socketpair");
		if (!forked()) {
			close(starts[1]);
			receive(ends[0]);
		}
		close(ends[0]);
		to[i] = ends[1];
	}
	for (int i = 0; i < SENDERS; i++)
		if (!forked()) {
			close(starts[1]);
			send_to_all(to, starts[0]);
		}
	for (int i = 0; i < RECEIVERS; i++)
		close(to[i]);
}

static struct result do_messages(void)
{
	int starts[2];

	check(!pipe(starts), "pipe");
	for (int i = 0; i < GROUPS; i++)
		start_group(starts);
	usleep(PAUSE_US); /* until all wait */
	long long start = now_ns();
	close(starts[1]);
	wait_for_children(GROUPS * (SENDERS + RECEIVERS));
	long long ns = now_ns() - start;
	close(starts[0]);
	return (struct result){ ns, GROUPS * SENDERS * RECEIVERS * LOOPS };
}

static struct result do_forks(void)
{
	long long start = now_ns();

	for (int i = 0; i < FORKS; i++) {
		if (!forked())
			_exit(0);
		wait_for_children(1);
	}
	return (struct result){ now_ns() - start, FORKS };
}

static const struct {
	const char *name;
	struct result (*run)(void);
} works[] = { { "pipe", do_pipe }, { "messages", do_messages }, { "forks", do_forks } };

int main(int argc, char **argv)
{
	for (unsigned int i = 0; i < sizeof(works) / sizeof(works[0]); i++) {
		if (argc != 2 || strcmp(argv[1], works[i].name))
			continue;
		settle();
		for (int rep = 0; rep < REPETITIONS; rep++) {
			usleep(PAUSE_US + rep * PAUSE_STEP_US);
			struct result result = works[i].run();
			printf(" %lld/%ld", result.ns, result.units);
			fflush(stdout); /* a child must not print it again */
		}
		printf("\n");
		return 0;
	}
	fprintf(stderr, "work pipe|messages|forks\n");
	return 1;
}
