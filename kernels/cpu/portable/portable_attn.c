/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flash attention over pages in plain C, row by row: scores of a key tile, one step of the online
 * softmax, then the values of exactly the keys that the row sees. Missing tokens are never
 * multiplied, so what their memory holds does not matter.
 */
#include "kernels/cpu/expf.h"
#include "kernels/cpu/portable/portable.h"

#include <math.h>
#include <string.h>

size_t portable_attn_scratch_bytes(uint32_t head_dim)
{
	return head_dim * sizeof(float);
}

/* s[16] = q . k of 16 keys, d ascending. */
static void score_group(const float *q, const kernel_bf16 *k, uint32_t head_dim, float *s)
{
	float acc[ATTN_GROUP] = {0};

	for (uint32_t d = 0; d < head_dim; d += 2) {
		const kernel_bf16 *pair = k + (size_t)d / 2 * 2 * ATTN_GROUP;

		for (uint32_t i = 0; i < ATTN_GROUP; i++)
			acc[i] += q[d] * kernel_bf16_to_f32(pair[2 * i]);
		for (uint32_t i = 0; i < ATTN_GROUP; i++)
			acc[i] += q[d + 1] * kernel_bf16_to_f32(pair[2 * i + 1]);
	}
	memcpy(s, acc, sizeof(acc));
}

/* Scores, then weights, of keys [lo, hi) of the tile at base; the others become 0. */
static float weigh(const struct attn_tile *t, const float *q, uint32_t base, uint32_t lo,
		   uint32_t hi, float *max, float *s)
{
	float scale = t->a->scale * EXPF_LOG2E;
	float top = *max;
	float sum = 0;

	for (uint32_t g = lo / ATTN_GROUP * ATTN_GROUP; g < hi; g += ATTN_GROUP)
		score_group(q, attn_k(t, base + g), t->a->layout->head_dim, s + g);
	for (uint32_t i = lo; i < hi; i++) {
		s[i] *= scale;
		top = s[i] > top ? s[i] : top;
	}
	for (uint32_t i = lo; i < hi; i++) {
		s[i] = expf_exp2(s[i] - top);
		sum += s[i];
	}
	*max = top;
	return sum;
}

/* o += weights . V of keys [lo, hi), ascending. */
static void add_values(const struct attn_tile *t, uint32_t base, uint32_t lo, uint32_t hi,
		       const float *weight, float *restrict o)
{
	uint32_t hd = t->a->layout->head_dim;

	for (uint32_t i = lo; i < hi; i++) {
		const kernel_bf16 *v = attn_v(t, (base + i) / ATTN_GROUP * ATTN_GROUP);

		v += (size_t)(i % ATTN_GROUP / 2) * hd * 2 + i % 2;
		for (uint32_t d = 0; d < hd; d++)
			o[d] += weight[i] * kernel_bf16_to_f32(v[2 * d]);
	}
}

static void row_step(const struct attn_tile *t, uint32_t row, const float *q, uint32_t base,
		     struct attn_partial *p)
{
	uint32_t stride = attn_stride(t->a->layout->head_dim);
	float *o = p->o + (size_t)row * stride;
	float s[ATTN_KEYS];
	float old = p->max[row];
	float sum, alpha;
	uint32_t lo, hi;

	attn_row_range(t, row, base, &lo, &hi);
	if (lo >= hi)
		return;
	sum = weigh(t, q, base, lo, hi, &p->max[row], s);
	alpha = old == -INFINITY ? 0 : expf_exp2(old - p->max[row]);
	p->sum[row] = p->sum[row] * alpha + sum;
	for (uint32_t d = 0; d < stride; d++)
		o[d] *= alpha;
	add_values(t, base, lo, hi, s, o);
}

void portable_attn(const struct attn_tile *t, uint32_t split, struct attn_partial *out,
		   void *scratch)
{
	uint32_t hd = t->a->layout->head_dim;
	float *q = scratch;
	uint32_t begin;
	uint32_t end = attn_keys(t, split, &begin);

	memset(out->o, 0, (size_t)t->rows * attn_stride(hd) * sizeof(float));
	for (uint32_t r = 0; r < t->rows; r++) {
		const kernel_bf16 *row = t->a->q + attn_row_offset(t, r);

		out->max[r] = -INFINITY;
		out->sum[r] = 0;
		for (uint32_t d = 0; d < hd; d++)
			q[d] = kernel_bf16_to_f32(row[d]);
		for (uint32_t base = begin; base < end; base += ATTN_KEYS)
			row_step(t, r, q, base, out);
	}
}
