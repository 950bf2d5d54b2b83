/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampling. The order of the filters: temperature, then top-k, then top-p over what is left, then
 * min-p against the likeliest; the draw runs over what remains, likeliest first, lower id first
 * among equals. The sum of a softmax runs in eight fixed lanes, so a row's choice does not depend
 * on the threads. Only as many tokens are ordered as the filters look at: a heap gives them up one
 * by one. A NaN logit counts as impossible. Banned tokens are made impossible in a copy of the row,
 * for the draw alone. Each row is one thread's.
 */
#include "kernels/cpu/ctx.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define SAMPLE_BLOCK 256u
#define SAMPLE_LANES 8u

struct sample_job {
	const struct kernels_ctx *ctx;
	const float *logits;
	const struct kernel_sample_params *params;
	uint32_t *out_tokens;
	float *out_logprobs;
	uint32_t m;
	uint32_t v;
};

struct sample_row {
	const struct isa *isa;
	const float *logits;
	uint32_t v;
	float max;
	uint64_t *heap; /* [v] */
	float *weight;	/* [v] */
};

size_t op_sample_scratch_bytes(uint32_t vocab)
{
	return (size_t)vocab * (sizeof(uint64_t) + 2 * sizeof(float)) + 64;
}

/* The largest logit that is a number, at most FLT_MAX; -inf when there is none. */
static float row_max(const float *x, uint32_t n)
{
	float lane[16];
	float max = -INFINITY;

	for (uint32_t l = 0; l < 16; l++)
		lane[l] = -INFINITY;
	for (uint32_t i = 0; i + 16 <= n; i += 16)
		for (uint32_t l = 0; l < 16; l++)
			lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
	for (uint32_t i = n / 16 * 16; i < n; i++)
		max = x[i] > max ? x[i] : max;
	for (uint32_t l = 0; l < 16; l++)
		max = lane[l] > max ? lane[l] : max;
	return max > FLT_MAX ? FLT_MAX : max;
}

/* exp((x - max) * scale) of one block; what is no number weighs nothing. */
static void block_weights(const struct sample_row *r, uint32_t at, uint32_t n, float scale,
			  float *out)
{
	r->isa->exps(r->logits + at, n, r->max, scale, out);
	for (uint32_t i = 0; i < n; i++)
		out[i] = out[i] >= 0 ? (out[i] > 1 ? 1 : out[i]) : 0;
}

/* The sum of all weights; `keep`, if given, gets the weights. */
static double sum_weights(const struct sample_row *r, float scale, float *keep)
{
	double lane[SAMPLE_LANES] = {0};
	float block[SAMPLE_BLOCK];
	double sum = 0;

	for (uint32_t at = 0; at < r->v; at += SAMPLE_BLOCK) {
		uint32_t n = BITS_MIN(SAMPLE_BLOCK, r->v - at);
		float *w = keep ? keep + at : block;

		block_weights(r, at, n, scale, w);
		for (uint32_t i = 0; i < n; i++)
			lane[i % SAMPLE_LANES] += w[i];
	}
	for (uint32_t l = 0; l < SAMPLE_LANES; l++)
		sum += lane[l];
	return sum;
}

static uint32_t argmax(const struct sample_row *r)
{
	for (uint32_t i = 0; i < r->v; i++)
		if (r->logits[i] >= r->max)
			return i;
	return 0;
}

/* Smaller keys first: the likelier token, then the lower id. Weights are never negative. */
static uint64_t heap_key(float weight, uint32_t id)
{
	uint32_t bits;

	memcpy(&bits, &weight, sizeof(bits));
	return (uint64_t)~bits << 32 | id;
}

static void sift_down(uint64_t *heap, uint32_t n, uint32_t i)
{
	uint64_t key = heap[i];

	for (uint32_t child; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n && heap[child + 1] < heap[child])
			child++;
		if (heap[child] >= key)
			break;
		heap[i] = heap[child];
	}
	heap[i] = key;
}

static uint64_t heap_pop(uint64_t *heap, uint32_t *n)
{
	uint64_t top = heap[0];

	heap[0] = heap[--*n];
	sift_down(heap, *n, 0);
	return top;
}

static uint32_t heap_build(const struct sample_row *r, float weight_min)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->v; i++)
		if (r->weight[i] > 0 && r->weight[i] >= weight_min)
			r->heap[n++] = heap_key(r->weight[i], i);
	for (uint32_t i = n / 2; i-- > 0;)
		sift_down(r->heap, n, i);
	return n;
}

/*
 * Moves the likeliest tokens out of the heap to its freed end, which is then in descending order
 * from the back: at most `limit` of them, until their weight reaches `mass`, none but the first
 * lighter than weight_min. Returns how many, and their weight.
 */
static uint32_t take_likeliest(const struct sample_row *r, uint32_t n, uint32_t limit, double mass,
			       float weight_min, double *out_sum)
{
	uint32_t taken = 0;
	double sum = 0;

	while (taken < limit && n > 0 && (taken == 0 || sum < mass)) {
		uint64_t key = heap_pop(r->heap, &n);
		float weight = r->weight[(uint32_t)key];

		r->heap[n] = key;
		if (taken && weight < weight_min)
			break;
		sum += weight;
		taken++;
	}
	*out_sum = sum;
	return taken;
}

/* How many of the `taken` tokens before heap[end] reach `mass` and weigh at least weight_min. */
static uint32_t keep_likeliest(const struct sample_row *r, uint32_t end, uint32_t taken,
			       double mass, float weight_min, double *out_sum)
{
	uint32_t kept = 0;
	double sum = 0;

	for (; kept < taken && (kept == 0 || sum < mass); kept++) {
		float weight = r->weight[(uint32_t)r->heap[end - 1 - kept]];

		if (kept && weight < weight_min)
			break;
		sum += weight;
	}
	*out_sum = sum;
	return kept;
}

static uint32_t draw_filtered(const struct sample_row *r, const struct kernel_sample_params *p,
			      double all)
{
	bool top_p = p->top_p < 1;
	uint32_t n, taken;
	double sum, target;

	if (p->top_k) {
		/* top-p is a share of what top-k leaves, so that comes first. */
		n = heap_build(r, 0);
		taken = take_likeliest(r, n, p->top_k, INFINITY, 0, &sum);
		taken = keep_likeliest(r, n, taken, top_p ? p->top_p * sum : INFINITY, p->min_p,
				       &sum);
	} else {
		/* All tokens lighter than this weigh less than the 1 - top_p that may be missing.
		 */
		n = heap_build(r, top_p ? (float)((1 - p->top_p) * all / r->v)
					: BITS_MIN(p->min_p, 1));
		taken = take_likeliest(r, n, r->v, top_p ? p->top_p * all : INFINITY, p->min_p,
				       &sum);
	}
	target = sum * p->uniform;
	for (uint32_t i = 0; i < taken; i++) {
		uint32_t id = (uint32_t)r->heap[n - 1 - i];

		target -= r->weight[id];
		if (target < 0)
			return id;
	}
	return (uint32_t)r->heap[n - 1];
}

static uint32_t draw_all(const struct sample_row *r, float uniform, double all)
{
	double target = all * uniform;

	for (uint32_t i = 0; i < r->v; i++) {
		target -= r->weight[i];
		if (target < 0)
			return i;
	}
	return argmax(r);
}

static uint32_t choose(const struct sample_row *r, const struct kernel_sample_params *p)
{
	double all;

	if (!(p->temperature > 0) || r->max == -INFINITY)
		return argmax(r);
	all = sum_weights(r, 1 / p->temperature, r->weight);
	if (!(all > 0))
		return argmax(r);
	if (p->top_k == 0 && !(p->top_p < 1) && !(p->min_p > 0))
		return draw_all(r, p->uniform, all);
	return draw_filtered(r, p, all);
}

/* The row without what must not be drawn. */
static const float *allowed(const float *logits, uint32_t v, const struct kernel_sample_params *p,
			    float *copy)
{
	if (p->banned_count == 0)
		return logits;
	memcpy(copy, logits, v * sizeof(*copy));
	for (uint32_t i = 0; i < p->banned_count; i++)
		if (p->banned[i] < v)
			copy[p->banned[i]] = -INFINITY;
	return copy;
}

static float logprob(struct sample_row *r, const float *logits, uint32_t token)
{
	r->logits = logits;
	r->max = row_max(logits, r->v);
	if (r->max == -INFINITY)
		return -INFINITY;
	float logit = BITS_MIN(logits[token], r->max);

	return (float)((double)(logit - r->max) - log(sum_weights(r, 1, NULL)));
}

static void sample_thread(void *arg, uint32_t index, uint32_t count)
{
	const struct sample_job *j = arg;
	char *scratch = ctx_scratch(j->ctx, index);
	uint32_t i, end;

	team_part(j->m, index, count, &i, &end);
	for (; i < end; i++) {
		const float *logits = j->logits + (size_t)i * j->v;
		struct sample_row r = {
			.isa = j->ctx->isa,
			.v = j->v,
			.heap = (uint64_t *)scratch,
			.weight = (float *)(scratch + (size_t)j->v * sizeof(uint64_t)),
		};

		r.logits = allowed(logits, j->v, &j->params[i], r.weight + j->v);
		r.max = row_max(r.logits, j->v);
		j->out_tokens[i] = choose(&r, &j->params[i]);
		j->out_logprobs[i] = logprob(&r, logits, j->out_tokens[i]);
	}
}

void op_sample(struct kernels_ctx *ctx, const float *logits, uint32_t m, uint32_t v,
	       const struct kernel_sample_params *params, uint32_t *out_tokens, float *out_logprobs)
{
	struct sample_job j = {ctx, logits, params, out_tokens, out_logprobs, m, v};

	if (m == 1)
		sample_thread(&j, 0, 1);
	else
		team_run(ctx->team, sample_thread, &j);
}
