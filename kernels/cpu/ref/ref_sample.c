/* SPDX-License-Identifier: Apache-2.0 */
/* Sampling by a full sort: filter after filter, as the op's story tells them. */
#include "kernels/cpu/ref/ref.h"

#include <math.h>
#include <stdlib.h>

struct ref_sample_token {
	double p; /* relative to the likeliest */
	uint32_t id;
};

static int likelier(const void *a, const void *b)
{
	const struct ref_sample_token *x = a;
	const struct ref_sample_token *y = b;

	if (x->p != y->p)
		return x->p < y->p ? 1 : -1;
	return x->id < y->id ? -1 : 1;
}

static uint32_t filter(const struct ref_sample_token *t, uint32_t n,
		       const struct kernel_sample_params *p)
{
	double all = 0;
	double sum = 0;
	uint32_t kept = 0;

	if (p->top_k && p->top_k < n)
		n = p->top_k;
	for (uint32_t i = 0; i < n; i++)
		all += t[i].p;
	while (kept < n && (kept == 0 || p->top_p >= 1 || sum < p->top_p * all))
		sum += t[kept++].p;
	while (kept > 1 && t[kept - 1].p < p->min_p)
		kept--;
	return kept;
}

static uint32_t draw(const struct ref_sample_token *t, uint32_t n, double uniform)
{
	double sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += t[i].p;
	sum *= uniform;
	for (uint32_t i = 0; i < n; i++) {
		sum -= t[i].p;
		if (sum < 0)
			return t[i].id;
	}
	return t[0].id;
}

static int by_id(const void *a, const void *b)
{
	const struct ref_sample_token *x = a;
	const struct ref_sample_token *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

static void ban(struct ref_sample_token *t, uint32_t v, const struct kernel_sample_params *p)
{
	double max = 0;

	for (uint32_t i = 0; i < p->banned_count; i++)
		t[p->banned[i]].p = 0;
	for (uint32_t i = 0; i < v; i++)
		max = fmax(max, t[i].p);
	for (uint32_t i = 0; i < v && max > 0; i++)
		t[i].p /= max;
}

static uint32_t pick(struct ref_sample_token *t, uint32_t v, const struct kernel_sample_params *p)
{
	uint32_t n;

	if (p->banned_count)
		ban(t, v, p);

	qsort(t, v, sizeof(*t), likelier);
	if (p->temperature <= 0)
		return t[0].id;
	n = filter(t, v, p);
	/* With no filter at all nothing needs an order but the ids' own. */
	if (!p->top_k && p->top_p >= 1 && p->min_p <= 0)
		qsort(t, n, sizeof(*t), by_id);
	return draw(t, n, p->uniform);
}

void ref_sample(const float *logits, uint32_t v, const struct kernel_sample_params *p,
		uint32_t *out_token, float *out_logprob)
{
	struct ref_sample_token *t = calloc(v, sizeof(*t));
	double max = -INFINITY;
	double sum = 0;

	if (!t)
		abort();
	for (uint32_t i = 0; i < v; i++)
		max = fmax(max, logits[i]);
	for (uint32_t i = 0; i < v; i++) {
		t[i].id = i;
		t[i].p = exp((logits[i] - max) / (p->temperature > 0 ? p->temperature : 1));
		sum += exp(logits[i] - max);
	}
	*out_token = pick(t, v, p);
	*out_logprob = (float)(logits[*out_token] - max - log(sum));
	free(t);
}
