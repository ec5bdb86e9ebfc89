// SPDX-License-Identifier: GPL-2.0-only
/* Runs the self-test of every instance of every module; tests.h is generated and lists them. */
#include "ns.h"

#define TEST(name) int name(void);
#include "tests.h"
#undef TEST

int main(void)
{
	unsigned int passed = 0, failed = 0;

#define TEST(name) name() ? failed++ : passed++;
#include "tests.h"
#undef TEST
	printf("%u passed, %u failed\n", passed, failed);
	return failed != 0;
}
