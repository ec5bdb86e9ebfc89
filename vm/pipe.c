// SPDX-License-Identifier: GPL-2.0-only
/*
 * Send one byte to a child and back through pipes, ROUND_TRIPS times, and print how long that took in ns
 * of the guest's clock: eight times, with different pauses between, so that no phase of a tick is favoured.
 * vm/cost.sh runs it where one ns is one instruction. Limits: any failing call ends it with status 1.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { REPETITIONS = 8, ROUND_TRIPS = 5000, PAUSE_US = 20000, PAUSE_STEP_US = 7300 };

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

int main(void)
{
	int there[2], back[2];
	char byte = 0;

	check(!pipe(there) && !pipe(back), "pipe");
	pid_t child = fork();
	check(child >= 0, "fork");
	if (!child) {
		close(there[1]);
		while (read(there[0], &byte, 1) == 1)
			check(write(back[1], &byte, 1) == 1, "write");
		return 0;
	}
	for (int rep = 0; rep < REPETITIONS; rep++) {
		usleep(PAUSE_US + rep * PAUSE_STEP_US);
		long long start = now_ns();
		for (int i = 0; i < ROUND_TRIPS; i++) {
			check(write(there[1], &byte, 1) == 1, "write");
			check(read(back[0], &byte, 1) == 1, "read");
		}
		printf("%lld ", now_ns() - start);
	}
	printf("\n");
	return 0;
}
