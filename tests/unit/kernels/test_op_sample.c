/* SPDX-License-Identifier: Apache-2.0 */
/* Sampling against the sorting twin, its edges, and its independence from threads. */
#include "kernels/cpu/ref/ref.h"
#include "tests/unit/kernels/fixture.h"

static const struct kernel_sample_params params[] = {
	{0, 1, 0, 0, 0.50123f},	   {1, 1, 0, 0, 0.31237f},	 {0.7f, 0.9f, 0, 0, 0.98917f},
	{1.5f, 1, 0, 40, 0.7111f}, {1, 1, 0.05f, 0, 0.2039f},	 {0.8f, 0.95f, 0.01f, 50, 0.5511f},
	{2, 0.5f, 0, 3, 0},	   {1, 0.0001f, 0, 0, 0.90371f}, {1, 1, 1, 0, 0.90371f},
	{0.01f, 1, 0, 0, 0.999f},  {1, 1, 0, 1, 0.9999f},	 {1, 0.99f, 0, 1000000, 0.41713f},
};

#define ROWS ARRAY_LEN(params)

/*
 * A draw on the edge between two tokens may fall to either, so rows whose twin is sensitive to the
 * random number are left out.
 */
static bool on_an_edge(const float *logits, uint32_t v, const struct kernel_sample_params *p)
{
	struct kernel_sample_params near = *p;
	uint32_t low, high;
	float ignored;

	near.uniform = p->uniform * (1 - 2e-6f);
	ref_sample(logits, v, &near, &low, &ignored);
	near.uniform = BITS_MIN(p->uniform * (1 + 2e-6f), 0.9999999f);
	ref_sample(logits, v, &near, &high, &ignored);
	return low != high;
}

static void check_vocab(const struct kernel_ops *ops, uint32_t v, double deviation)
{
	uint64_t seed = v;
	float *logits = fixture_floats(&seed, ROWS * v, deviation);
	struct kernels_ctx *ctx = fixture_ctx(ops, 3);
	struct kernels_ctx *one = fixture_ctx(ops, 1);
	uint32_t got[ROWS], again[ROWS], want;
	float logprob[ROWS], logprob_again[ROWS], logprob_want;
	uint32_t compared = 0;

	ops->sample(ctx, logits, ROWS, v, params, got, logprob);
	ops->sample(one, logits, ROWS, v, params, again, logprob_again);
	assert_memory_equal(got, again, sizeof(got));
	assert_memory_equal(logprob, logprob_again, sizeof(logprob));
	for (uint32_t r = 0; r < ROWS; r++) {
		const float *row = logits + (size_t)r * v;

		if (on_an_edge(row, v, &params[r]))
			continue;
		ref_sample(row, v, &params[r], &want, &logprob_want);
		assert_int_equal(got[r], want);
		fixture_close_f32(&logprob[r], &logprob_want, 1, 1e-4, 1e-5);
		compared++;
	}
	assert_true(compared >= ROWS / 2);
	free(logits);
	kernels_ctx_free(ctx);
	kernels_ctx_free(one);
}

static void choices_match_the_twin(void **state)
{
	static const uint32_t vocabs[] = {1, 2, 17, 1000, 49152};

	(void)state;
	FIXTURE_EACH_TABLE(ops)
	for (size_t i = 0; i < ARRAY_LEN(vocabs); i++) {
		check_vocab(ops, vocabs[i], 3);
		check_vocab(ops, vocabs[i], 0);
	}
}

static void check_one(const struct kernel_ops *ops, const float *logits, uint32_t v,
		      float temperature, uint32_t want)
{
	struct kernel_sample_params p = {temperature, 0.9f, 0, 0, 0.1f};
	struct kernels_ctx *ctx = fixture_ctx(ops, 1);
	uint32_t token;
	float logprob;

	ops->sample(ctx, logits, 1, v, &p, &token, &logprob);
	assert_int_equal(token, want);
	assert_true(logprob <= 0);
	kernels_ctx_free(ctx);
}

static void odd_logits_have_an_answer(void **state)
{
	(void)state;
	FIXTURE_EACH_TABLE(ops)
	for (int hot = 0; hot < 2; hot++) {
		float t = (float)hot;

		check_one(ops, (float[]){NAN, 1, 0}, 3, t, 1);
		check_one(ops, (float[]){0, INFINITY, -5}, 3, t, 1);
		check_one(ops, (float[]){NAN, NAN}, 2, t, 0);
		check_one(ops, (float[]){-INFINITY, -INFINITY, -INFINITY}, 3, t, 0);
		check_one(ops, (float[]){-INFINITY, 3, NAN, -INFINITY}, 4, t, 1);
	}
}

static void equals_go_to_the_lowest_id(void **state)
{
	float logits[100] = {0};

	(void)state;
	logits[40] = logits[17] = logits[99] = 2;
	FIXTURE_EACH_TABLE(ops)
	check_one(ops, logits, 100, 0, 17);
}

/* Frequencies of many draws follow the softmax. */
static void draws_follow_the_distribution(void **state)
{
	const float logits[4] = {0, logf(2), logf(3), logf(4)};

	(void)state;
	FIXTURE_EACH_TABLE(ops)
	{
		struct kernels_ctx *ctx = fixture_ctx(ops, 1);
		uint32_t hits[4] = {0};

		for (uint32_t i = 0; i < 1000; i++) {
			struct kernel_sample_params p = {1, 1, 0, 0, ((float)i + 0.5f) / 1000};
			uint32_t token;
			float logprob;

			ops->sample(ctx, logits, 1, 4, &p, &token, &logprob);
			hits[token]++;
		}
		for (uint32_t i = 0; i < 4; i++)
			assert_in_range(hits[i], 100 * (i + 1) - 1, 100 * (i + 1) + 1);
		kernels_ctx_free(ctx);
	}
}

/* What is banned is never drawn, and still counts in the others' probabilities. */
static void banned_tokens_are_not_drawn(void **state)
{
	static const uint32_t vocabs[] = {3, 17, 1000};
	uint32_t drawn = 0;

	(void)state;
	FIXTURE_EACH_TABLE(ops)
	for (size_t i = 0; i < ARRAY_LEN(vocabs) * ROWS; i++) {
		uint32_t v = vocabs[i / ROWS], got, want;
		struct kernel_sample_params p = params[i % ROWS];
		struct kernels_ctx *ctx = fixture_ctx(ops, 1);
		uint64_t seed = i;
		float *logits = fixture_floats(&seed, v, 3);
		float logprob, logprob_want;

		ops->sample(ctx, logits, 1, v, &p, &p.banned[0], &logprob);
		p.banned[1] = (p.banned[0] + 1) % v;
		p.banned_count = 2;
		ops->sample(ctx, logits, 1, v, &p, &got, &logprob);
		assert_int_not_equal(got, p.banned[0]);
		assert_int_not_equal(got, p.banned[1]);
		if (!on_an_edge(logits, v, &p)) {
			ref_sample(logits, v, &p, &want, &logprob_want);
			assert_int_equal(got, want);
			fixture_close_f32(&logprob, &logprob_want, 1, 1e-4, 1e-5);
			drawn++;
		}
		free(logits);
		kernels_ctx_free(ctx);
	}
	assert_true(drawn >= ROWS);
}

TEST_MAIN(op_sample, cmocka_unit_test(banned_tokens_are_not_drawn),
	  cmocka_unit_test(choices_match_the_twin), cmocka_unit_test(odd_logits_have_an_answer),
	  cmocka_unit_test(equals_go_to_the_lowest_id),
	  cmocka_unit_test(draws_follow_the_distribution))
