/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampling, one block a row; the order of the filters is the op table's (temperature, top-k, top-p,
 * min-p), and the draw runs over what remains, likeliest first, lower id first among equals.
 *
 * Nothing is sorted. A token's weight exp((x - max) / temperature) is also a whole number of
 * 2^-40ths: sums of those do not depend on the order in which threads add them. A token's key says
 * where it stands (the lighter the later, then the id), and sample_select() finds, ten bits of the
 * key at a time, the token at which the tokens up to it first have some weight, or some number.
 * Each filter is one such search and leaves a total weight; the draw is the last. Tokens lighter
 * than half of 2^-40 weigh nothing.
 *
 * A NaN logit counts as impossible. All branches around a barrier hang on values that are the same
 * in the whole block.
 */
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/launch.h"

#include <float.h>
#include <math.h>

#define SAMPLE_THREADS 512u
#define SAMPLE_WARPS (SAMPLE_THREADS / KV_WARP)
#define SAMPLE_DIGIT 10u
#define SAMPLE_BINS (1u << SAMPLE_DIGIT)
#define SAMPLE_LANE_BINS (SAMPLE_BINS / KV_WARP)
#define SAMPLE_ID_BITS (2 * SAMPLE_DIGIT)
#define SAMPLE_KEY_BITS (5 * SAMPLE_DIGIT)
#define SAMPLE_ONE 0x3f800000u	     /* 1.0f; no weight is above it */
#define SAMPLE_UNIT 1099511627776.0f /* 2^40 */
#define SAMPLE_LOG2_E 1.4426950408889634f

typedef unsigned long long sample_mass;

struct sample_shared {
	sample_mass mass[SAMPLE_BINS];
	uint32_t count[SAMPLE_BINS];
	/* Of the search: the bin it ends in, and what stands before that. */
	sample_mass below_mass;
	uint32_t below_count;
	uint32_t found;
	uint64_t key;
	sample_mass sum;
	float max_allowed[SAMPLE_WARPS];
	float max[SAMPLE_WARPS];
	uint32_t id;
};

struct sample_row {
	const float *logits;
	const uint32_t *banned;
	uint32_t banned_count;
	uint32_t v;
	float max;
	float scale; /* log2(e) / temperature */
};

/* How far a search goes: until the weight, or the number, is reached. */
struct sample_goal {
	sample_mass mass;
	uint32_t count;
};

/* The last token of what a search took, and the weight of all of them. */
struct sample_cut {
	uint64_t key;
	sample_mass mass;
};

KV_DEVICE float sample_logit(const sample_row &r, uint32_t i)
{
	for (uint32_t b = 0; b < r.banned_count; b++)
		if (r.banned[b] == i)
			return -INFINITY;
	return r.logits[i];
}

KV_DEVICE float sample_weight(const sample_row &r, uint32_t i)
{
	float w = kv_exp2((fminf(sample_logit(r, i), r.max) - r.max) * r.scale);

	/* fminf() takes a NaN for r.max. */
	if (isnan(r.logits[i]) || !(w >= 0.0f))
		return 0.0f;
	return fminf(w, 1.0f);
}

KV_DEVICE sample_mass sample_units(float weight)
{
	return static_cast<sample_mass>(rintf(weight * SAMPLE_UNIT));
}

KV_DEVICE uint64_t sample_key(float weight, uint32_t id, bool by_id)
{
	uint64_t order = by_id ? 0 : SAMPLE_ONE - __float_as_uint(weight);

	return order << SAMPLE_ID_BITS | id;
}

KV_DEVICE bool sample_reached(const sample_goal &goal, sample_mass mass, uint32_t count)
{
	return mass >= goal.mass || count >= goal.count;
}

/* Fills the bins with the tokens whose key begins with `prefix`, by the digit behind that. */
KV_DEVICE void sample_histogram(const sample_row &r, sample_shared *s, bool by_id, uint64_t prefix,
				uint32_t shift)
{
	for (uint32_t b = threadIdx.x; b < SAMPLE_BINS; b += SAMPLE_THREADS) {
		s->mass[b] = 0;
		s->count[b] = 0;
	}
	if (threadIdx.x == 0)
		s->found = SAMPLE_BINS;
	__syncthreads();
	for (uint32_t i = threadIdx.x; i < r.v; i += SAMPLE_THREADS) {
		float weight = sample_weight(r, i);
		sample_mass units = sample_units(weight);
		uint64_t key = sample_key(weight, i, by_id);

		if (units == 0 || key >> (shift + SAMPLE_DIGIT) != prefix)
			continue;
		atomicAdd(&s->mass[key >> shift & (SAMPLE_BINS - 1)], units);
		atomicAdd(&s->count[key >> shift & (SAMPLE_BINS - 1)], 1u);
	}
	__syncthreads();
}

/* By one warp: the bin in which the goal is reached, or the whole weight if it is not. */
KV_DEVICE void sample_scan(sample_shared *s, const sample_goal &goal, sample_mass mass,
			   uint32_t count)
{
	uint32_t lane = threadIdx.x;
	uint32_t bin = lane * SAMPLE_LANE_BINS;
	sample_mass own_mass = 0;
	uint32_t own_count = 0;

	for (uint32_t b = 0; b < SAMPLE_LANE_BINS; b++) {
		own_mass += s->mass[bin + b];
		own_count += s->count[bin + b];
	}
	for (uint32_t from = 0; from < KV_WARP; from++) {
		sample_mass other_mass = __shfl_sync(KV_FULL_MASK, own_mass, from);
		uint32_t other_count = __shfl_sync(KV_FULL_MASK, own_count, from);

		mass += from < lane ? other_mass : 0;
		count += from < lane ? other_count : 0;
	}
	if (lane == KV_WARP - 1 && !sample_reached(goal, mass + own_mass, count + own_count))
		s->below_mass = mass + own_mass;
	if (sample_reached(goal, mass, count) ||
	    !sample_reached(goal, mass + own_mass, count + own_count))
		return;
	while (!sample_reached(goal, mass + s->mass[bin], count + s->count[bin])) {
		mass += s->mass[bin];
		count += s->count[bin++];
	}
	s->found = bin;
	s->below_mass = mass;
	s->below_count = count;
}

/* The one token whose key begins with `prefix`. */
KV_DEVICE uint64_t sample_find(const sample_row &r, sample_shared *s, bool by_id, uint64_t prefix,
			       uint32_t shift)
{
	for (uint32_t i = threadIdx.x; i < r.v; i += SAMPLE_THREADS) {
		float weight = sample_weight(r, i);
		uint64_t key = sample_key(weight, i, by_id);

		if (key >> shift == prefix && sample_units(weight))
			s->key = key;
	}
	__syncthreads();
	return s->key;
}

/* The shortest run of tokens, in the order of their keys, that reaches the goal; else all. */
KV_DEVICE sample_cut sample_select(const sample_row &r, sample_shared *s, bool by_id,
				   sample_goal goal)
{
	uint32_t shift = by_id ? SAMPLE_ID_BITS : SAMPLE_KEY_BITS;
	uint64_t prefix = 0;
	sample_cut cut = {UINT64_MAX, 0};
	uint32_t count = 0;

	do {
		shift -= SAMPLE_DIGIT;
		__syncthreads();
		sample_histogram(r, s, by_id, prefix, shift);
		if (threadIdx.x < KV_WARP)
			sample_scan(s, goal, cut.mass, count);
		__syncthreads();
		cut.mass = s->below_mass;
		if (s->found == SAMPLE_BINS)
			return cut;
		count = s->below_count;
		prefix = prefix << SAMPLE_DIGIT | s->found;
	} while (shift > 0 && s->count[s->found] > 1);
	cut.key = shift > 0 ? sample_find(r, s, by_id, prefix, shift) : prefix;
	cut.mass += s->mass[s->found];
	return cut;
}

/* The weight of all tokens that weigh at least weight_min. */
KV_DEVICE sample_mass sample_sum(const sample_row &r, sample_shared *s, float weight_min)
{
	sample_mass sum = 0;

	for (uint32_t i = threadIdx.x; i < r.v; i += SAMPLE_THREADS) {
		float weight = sample_weight(r, i);

		sum += weight >= weight_min ? sample_units(weight) : 0;
	}
	for (int distance = KV_WARP / 2; distance > 0; distance /= 2)
		sum += __shfl_xor_sync(KV_FULL_MASK, sum, distance);
	__syncthreads();
	if (threadIdx.x == 0)
		s->sum = 0;
	__syncthreads();
	if (threadIdx.x % KV_WARP == 0)
		atomicAdd(&s->sum, sum);
	__syncthreads();
	return s->sum;
}

/* The largest logits that are numbers, at most FLT_MAX: of what may be drawn, and of all. */
KV_DEVICE void sample_max(const sample_row &r, sample_shared *s, float *out_allowed, float *out_all)
{
	float allowed = -INFINITY, all = -INFINITY;

	for (uint32_t i = threadIdx.x; i < r.v; i += SAMPLE_THREADS) {
		allowed = fmaxf(allowed, sample_logit(r, i));
		all = fmaxf(all, r.logits[i]);
	}
	allowed = kv_warp_max(allowed);
	all = kv_warp_max(all);
	if (threadIdx.x % KV_WARP == 0) {
		s->max_allowed[threadIdx.x / KV_WARP] = allowed;
		s->max[threadIdx.x / KV_WARP] = all;
	}
	__syncthreads();
	for (uint32_t w = 0; w < SAMPLE_WARPS; w++) {
		allowed = fmaxf(allowed, s->max_allowed[w]);
		all = fmaxf(all, s->max[w]);
	}
	*out_allowed = fminf(allowed, FLT_MAX);
	*out_all = fminf(all, FLT_MAX);
}

KV_DEVICE uint32_t sample_argmax(const sample_row &r, sample_shared *s)
{
	uint32_t id = UINT32_MAX;

	for (uint32_t i = threadIdx.x; i < r.v && id == UINT32_MAX; i += SAMPLE_THREADS)
		if (sample_logit(r, i) >= r.max)
			id = i;
	if (threadIdx.x == 0)
		s->id = UINT32_MAX;
	__syncthreads();
	id = __reduce_min_sync(KV_FULL_MASK, id);
	if (threadIdx.x % KV_WARP == 0)
		atomicMin(&s->id, id);
	__syncthreads();
	return s->id == UINT32_MAX ? 0 : s->id;
}

/* The goal that lies at `share` of the weight, within it. */
KV_DEVICE sample_goal sample_goal_of(double weight, sample_mass most)
{
	sample_mass mass = weight > 1.0 ? static_cast<sample_mass>(weight) : 1;

	return sample_goal{mass < most ? mass : most, UINT32_MAX};
}

KV_DEVICE uint32_t sample_draw(const sample_row &r, sample_shared *s, const kernel_sample_params *p,
			       sample_mass all)
{
	bool by_id = p->top_k == 0 && !(p->top_p < 1.0f) && !(p->min_p > 0.0f);
	sample_mass kept = all;

	if (p->top_k)
		kept = sample_select(r, s, false, sample_goal{UINT64_MAX, p->top_k}).mass;
	if (p->top_p < 1.0f)
		kept = sample_select(r, s, false,
				     sample_goal_of(ceil(static_cast<double>(p->top_p) *
							 static_cast<double>(kept)),
						    kept))
			       .mass;
	if (p->min_p > 0.0f) {
		sample_mass heavy = sample_sum(r, s, p->min_p);

		/* The likeliest token, of weight 1, always stays. */
		heavy = heavy ? heavy : sample_units(1.0f);
		kept = heavy < kept ? heavy : kept;
	}
	/* The draw is the first token with which more than uniform * kept is reached. */
	sample_cut cut = sample_select(
		r, s, by_id,
		sample_goal_of(floor(static_cast<double>(kept) * static_cast<double>(p->uniform)) +
				       1.0,
			       kept));
	return static_cast<uint32_t>(cut.key & ((1u << SAMPLE_ID_BITS) - 1));
}

KV_DEVICE uint32_t sample_choose(const sample_row &r, sample_shared *s,
				 const kernel_sample_params *p)
{
	sample_mass all;

	if (!(p->temperature > 0.0f) || r.max == -INFINITY)
		return sample_argmax(r, s);
	all = sample_sum(r, s, 0.0f);
	return all ? sample_draw(r, s, p, all) : sample_argmax(r, s);
}

KV_DEVICE float sample_logprob(const sample_row &r, sample_shared *s, uint32_t token)
{
	if (r.max == -INFINITY)
		return -INFINITY;
	double units = static_cast<double>(sample_sum(r, s, 0.0f));
	float logit = fminf(r.logits[token], r.max) - r.max;

	return static_cast<float>(static_cast<double>(logit) -
				  log(units * (1.0 / static_cast<double>(SAMPLE_UNIT))));
}

KV_KERNEL __launch_bounds__(SAMPLE_THREADS, 2)
	sample_rows(const float *logits, const uint32_t *sampled,
		    const kernel_sample_params *params, uint32_t v, uint32_t *out_tokens,
		    float *out_logprobs)
{
	KV_SMEM(sample_shared, s);
	const kernel_sample_params *p = params + blockIdx.x;
	sample_row r = {};
	float max_all;

	if (sampled[blockIdx.x] == CUDA_NONE)
		return;
	r.logits = logits + static_cast<uint64_t>(blockIdx.x) * v;
	r.banned = p->banned;
	r.banned_count = p->banned_count;
	r.v = v;
	r.scale = SAMPLE_LOG2_E / p->temperature;
	sample_max(r, s, &r.max, &max_all);
	uint32_t token = sample_choose(r, s, p);

	r.banned_count = 0;
	r.max = max_all;
	r.scale = SAMPLE_LOG2_E;
	float logprob = sample_logprob(r, s, token);

	if (threadIdx.x == 0) {
		out_tokens[blockIdx.x] = token;
		out_logprobs[blockIdx.x] = logprob;
	}
}

extern "C" cudaError_t cuda_sample(cudaStream_t stream, const float *logits,
				   const uint32_t *sampled,
				   const struct kernel_sample_params *params, uint32_t m,
				   uint32_t v, uint32_t *out_tokens, float *out_logprobs)
{
	if (v > 1u << SAMPLE_ID_BITS)
		return cudaErrorInvalidValue;
	return KV_LAUNCH(sample_rows, dim3(m), dim3(SAMPLE_THREADS), sizeof(sample_shared), stream,
			 logits, sampled, params, v, out_tokens, out_logprobs);
}
