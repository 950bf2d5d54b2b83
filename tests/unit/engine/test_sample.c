/* SPDX-License-Identifier: Apache-2.0 */
/* The random numbers against the published vectors, and the choice of the best tokens. */
#include "engine/sample.h"
#include "tests/test.h"
#include <math.h>

/* First words of Random123's known answers for philox4x32-10. */
static void philox_known_answers(void **state)
{
	assert_true(sample_uniform(0, 0) == (float)(0x6627e8d5u >> 8) * 0x1p-24f);
}

static void uniform_is_uniform(void **state)
{
	double sum = 0, cross = 0;
	uint32_t n = 100000;

	for (uint32_t i = 0; i < n; i++) {
		float u = sample_uniform(42, i), neighbour = sample_uniform(43, i);

		assert_true(u >= 0 && u < 1);
		sum += u;
		cross += (u - 0.5) * (neighbour - 0.5);
	}
	assert_true(fabs(sum / n - 0.5) < 0.005);
	assert_true(fabs(cross / n) < 0.002);
}

static void draws_depend_on_seed_and_position_alone(void **state)
{
	const struct engine_sampling s = {.temperature = 0.7f, .top_p = 0.9f, .seed = 11};
	struct kernel_sample_params a = sample_params(&s, 5), b = sample_params(&s, 5);

	assert_memory_equal(&a, &b, sizeof(a));
	assert_true(sample_params(&s, 6).uniform != a.uniform);
	assert_true(a.temperature == 0.7f && a.top_p == 0.9f);
}

static void top_is_sorted_and_complete(void **state)
{
	uint64_t seed = 3;
	float logits[500];
	struct engine_logprob top[ENGINE_LOGPROBS_MAX];

	for (int i = 0; i < 500; i++)
		logits[i] = floorf((float)test_uniform(&seed) * 50);
	uint32_t count = sample_top(logits, 500, 2.0f, ENGINE_LOGPROBS_MAX, top);

	assert_int_equal(count, ENGINE_LOGPROBS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t better = 0;

		assert_true(top[i].logprob == logits[top[i].token] - 2.0f);
		for (uint32_t t = 0; t < 500; t++)
			better += logits[t] > logits[top[i].token] ||
				  (logits[t] == logits[top[i].token] && t < top[i].token);
		assert_int_equal(better, i);
	}
	assert_int_equal(sample_top(logits, 3, 0, 20, top), 3);
	assert_int_equal(sample_top(logits, 500, 0, 0, top), 0);
}

TEST_MAIN(sample, cmocka_unit_test(philox_known_answers), cmocka_unit_test(uniform_is_uniform),
	  cmocka_unit_test(draws_depend_on_seed_and_position_alone),
	  cmocka_unit_test(top_is_sorted_and_complete))
