/* SPDX-License-Identifier: Apache-2.0 */
/* Quantiles of the histogram are right within a bucket, whatever the size of the values. */
#include "kvd/turns.h"
#include "tests/test.h"

static void test_empty(void **state)
{
	struct turns t = {0};

	assert_int_equal(turns_quantile_ns(&t, 990), 0);
}

static void test_one_value_of_every_size(void **state)
{
	for (int shift = 0; shift < 64; shift++) {
		struct turns t = {0};
		uint64_t v = 1ull << shift;
		turns_add(&t, v);
		uint64_t q = turns_quantile_ns(&t, 500);
		assert_true(q >= v);
		assert_true(q - v <= v / 4);
	}
	struct turns t = {0};
	turns_add(&t, UINT64_MAX);
	assert_true(turns_quantile_ns(&t, 500) == UINT64_MAX);
}

static void test_quantiles(void **state)
{
	struct turns t = {0};

	for (uint64_t i = 1; i <= 1000; i++)
		turns_add(&t, i * 1000);
	uint64_t p50 = turns_quantile_ns(&t, 500), p99 = turns_quantile_ns(&t, 990);
	assert_true(p50 >= 500000 && p50 <= 640000);
	assert_true(p99 >= 990000 && p99 <= 1250000);
}

static void test_the_past_fades(void **state)
{
	struct turns t = {0};

	for (uint32_t i = 0; i < 2 * TURNS_HALVE_AT; i++)
		turns_add(&t, 1000000);
	assert_true(t.total <= TURNS_HALVE_AT);
	for (uint32_t i = 0; i < 2 * TURNS_HALVE_AT; i++)
		turns_add(&t, 10);
	assert_true(turns_quantile_ns(&t, 500) < 100);
}

TEST_MAIN(turns, cmocka_unit_test(test_empty), cmocka_unit_test(test_one_value_of_every_size),
	  cmocka_unit_test(test_quantiles), cmocka_unit_test(test_the_past_fades))
