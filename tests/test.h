/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmocka with the headers it wants, and the few helpers that every test uses. A test file is one
 * program: TEST_MAIN(name, cmocka_unit_test(...), ...). A test that needs what is not there says
 * so and exits 77, which meson shows as skipped.
 */
#ifndef TESTS_TEST_H
#define TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define TEST_SKIP_STATUS 77

#define TEST_MAIN(name, ...)                                                                       \
	int main(void)                                                                             \
	{                                                                                          \
		const struct CMUnitTest tests[] = {__VA_ARGS__};                                   \
		return cmocka_run_group_tests_name(#name, tests, NULL, NULL);                      \
	}

/* SplitMix64 (Steele, Lea, Flood 2014): seeds in tests are printed and replayed. */
static inline uint64_t test_random(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* Uniform in [0, 1). */
static inline double test_uniform(uint64_t *state)
{
	return (double)(test_random(state) >> 11) * 0x1p-53;
}

#endif
