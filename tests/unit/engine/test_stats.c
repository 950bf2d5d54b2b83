/* SPDX-License-Identifier: Apache-2.0 */
/* Histograms: cumulative, complete, and right at their bounds. */
#include "base/units.h"
#include "engine/stats.h"
#include "tests/test.h"

static void buckets_are_cumulative(void **state)
{
	struct engine_histogram h = {0};

	stats_observe(&h, UNITS_NS_PER_MS);	  /* on the first bound */
	stats_observe(&h, 40 * UNITS_NS_PER_MS);  /* in the middle */
	stats_observe(&h, 1000 * UNITS_NS_PER_S); /* beyond all */
	assert_int_equal(h.count, 3);
	assert_int_equal(h.bucket[0], 1);
	assert_int_equal(h.bucket[5], 1);
	assert_int_equal(h.bucket[6], 2);
	assert_int_equal(h.bucket[19], 2);
	assert_true(h.sum_s > 1000.04 && h.sum_s < 1000.05);
	for (int i = 1; i < 20; i++)
		assert_true(engine_histogram_bounds_s[i] > engine_histogram_bounds_s[i - 1]);
}

static void requests_without_a_token_have_no_ttft(void **state)
{
	struct engine_stats s = {0};
	struct engine_done d = {.finish = ENGINE_FINISH_CANCELLED, .prompt_tokens = 5};

	stats_done(&s, &d);
	assert_int_equal(s.ttft.count, 0);
	assert_int_equal(s.e2e.count, 1);
	assert_int_equal(s.requests_done[ENGINE_FINISH_CANCELLED], 1);
	d.ttft_ns = 1;
	stats_done(&s, &d);
	assert_int_equal(s.ttft.count, 1);
	assert_int_equal(s.prompt_tokens, 10);
}

/* A hit rate is over what was looked up: not over cold runs, nor over what was refused. */
static void lookups_are_counted_apart(void **state)
{
	struct engine_stats s = {0};
	struct engine_done cold = {.prompt_tokens = 5};
	struct engine_done warm = {.prompt_tokens = 7, .lookup_tokens = 7, .cached_tokens = 6};

	stats_done(&s, &cold);
	stats_done(&s, &warm);
	assert_int_equal(s.prompt_tokens, 12);
	assert_int_equal(s.lookup_tokens, 7);
	assert_int_equal(s.cached_tokens, 6);
}

TEST_MAIN(stats, cmocka_unit_test(buckets_are_cumulative),
	  cmocka_unit_test(requests_without_a_token_have_no_ttft),
	  cmocka_unit_test(lookups_are_counted_apart))
