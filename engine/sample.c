/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counter-based sampling. The random number of a position is Philox4x32-10 (Salmon, Moraes, Dror
 * and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11) with the request's seed as key and
 * the position as counter: no state to carry over a preemption, and no correlation between
 * neighbouring seeds. Pure functions, any thread.
 */
#include "engine/sample.h"
#include "base/assert.h"
#include "base/bits.h"

/* The paper's multipliers and Weyl constants. */
#define PHILOX_M0 0xd2511f53u
#define PHILOX_M1 0xcd9e8d57u
#define PHILOX_W0 0x9e3779b9u
#define PHILOX_W1 0xbb67ae85u
#define PHILOX_ROUNDS 10

static uint32_t philox(uint64_t key, uint32_t counter)
{
	uint32_t c0 = counter, c1 = 0, c2 = 0, c3 = 0;
	uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);

	for (int i = 0; i < PHILOX_ROUNDS; i++) {
		uint64_t p0 = (uint64_t)PHILOX_M0 * c0;
		uint64_t p1 = (uint64_t)PHILOX_M1 * c2;

		c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
		c1 = (uint32_t)p1;
		c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
		c3 = (uint32_t)p0;
		k0 += PHILOX_W0;
		k1 += PHILOX_W1;
	}
	return c0;
}

float sample_uniform(uint64_t seed, uint32_t position)
{
	/* 24 bits: every value is exact in a float, and 1 is never reached. */
	return (float)(philox(seed, position) >> 8) * 0x1p-24f;
}

struct kernel_sample_params sample_params(const struct engine_sampling *s, uint32_t position)
{
	return (struct kernel_sample_params){
		.temperature = s->temperature,
		.top_p = s->top_p,
		.min_p = s->min_p,
		.top_k = s->top_k,
		.uniform = sample_uniform(s->seed, position),
	};
}

float sample_normaliser(const float *logits, uint32_t token, float logprob)
{
	return logits[token] - logprob;
}

/* Puts the token where it belongs among the best so far; the array is sorted, best first. */
static uint32_t top_insert(struct engine_logprob *top, uint32_t have, uint32_t count,
			   struct engine_logprob one)
{
	uint32_t at = have < count ? have++ : count - 1;

	for (; at > 0 && top[at - 1].logprob < one.logprob; at--)
		top[at] = top[at - 1];
	top[at] = one;
	return have;
}

uint32_t sample_top(const float *logits, uint32_t vocab, float normaliser, uint32_t count,
		    struct engine_logprob *out)
{
	uint32_t have = 0;

	ASSERT(count <= ENGINE_LOGPROBS_MAX);
	count = BITS_MIN(count, vocab);
	for (uint32_t t = 0; t < vocab && count > 0; t++) {
		struct engine_logprob one = {.token = t, .logprob = logits[t]};

		if (have < count || one.logprob > out[have - 1].logprob)
			have = top_insert(out, have, count, one);
	}
	for (uint32_t i = 0; i < have; i++)
		out[i].logprob -= normaliser;
	return have;
}
