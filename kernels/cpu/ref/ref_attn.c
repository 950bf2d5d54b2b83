/* SPDX-License-Identifier: Apache-2.0 */
/* Attention as the textbook has it: all scores of a row, their softmax, the weighted values. */
#include "kernels/cpu/ref/ref.h"

#include <math.h>
#include <stdlib.h>

struct ref_attn_head {
	const struct kernel_attention *a;
	const struct kernel_seq *seq;
	uint32_t kv_head;
	enum kernel_type out;
};

static const kernel_bf16 *page_of(const struct ref_attn_head *h, uint32_t pos, uint64_t offset)
{
	const char *page = (const char *)(uintptr_t)h->seq->pages[pos / h->a->layout->page_tokens];

	return (const kernel_bf16 *)(page + offset);
}

static double key(const struct ref_attn_head *h, uint32_t pos, uint32_t d)
{
	const struct kvd_layout *l = h->a->layout;
	const kernel_bf16 *k = page_of(h, pos, kvd_layout_k(l, h->a->layer, h->kv_head));

	return kernel_bf16_to_f32(k[kvd_layout_k16_index(l, pos % l->page_tokens, d)]);
}

static double value(const struct ref_attn_head *h, uint32_t pos, uint32_t d)
{
	const struct kvd_layout *l = h->a->layout;
	const kernel_bf16 *v = page_of(h, pos, kvd_layout_v(l, h->a->layer, h->kv_head));

	return kernel_bf16_to_f32(v[kvd_layout_v2_index(l, pos % l->page_tokens, d)]);
}

static void head_row(const struct ref_attn_head *h, const kernel_bf16 *q, uint32_t pos,
		     double *weight, kernel_half *out)
{
	uint32_t window = h->a->window;
	uint32_t lo = window && pos + 1 > window ? pos + 1 - window : 0;
	double max = -INFINITY;
	double sum = 0;

	for (uint32_t p = lo; p <= pos; p++) {
		weight[p] = 0;
		for (uint32_t d = 0; d < h->a->layout->head_dim; d++)
			weight[p] += kernel_bf16_to_f32(q[d]) * key(h, p, d);
		weight[p] *= h->a->scale;
		max = fmax(max, weight[p]);
	}
	for (uint32_t p = lo; p <= pos; p++)
		sum += weight[p] = exp(weight[p] - max);
	for (uint32_t d = 0; d < h->a->layout->head_dim; d++) {
		double o = 0;

		for (uint32_t p = lo; p <= pos; p++)
			o += weight[p] * value(h, p, d);
		out[d] = kernel_f32_to_half((float)(o / sum), h->out);
	}
}

void ref_attn(const struct kernel_attention *a, enum kernel_type out)
{
	uint32_t hd = a->layout->head_dim;
	uint32_t group = a->heads / a->layout->kv_heads;

	for (uint32_t s = 0; s < a->seq_count; s++) {
		const struct kernel_seq *seq = &a->seqs[s];
		double *weight = calloc(seq->pos0 + seq->rows + 1, sizeof(*weight));

		for (uint32_t i = 0; weight && i < seq->rows * a->heads; i++) {
			struct ref_attn_head h = {a, seq, i % a->heads / group, out};
			size_t at = ((size_t)seq->row0 * a->heads + i) * hd;

			head_row(&h, a->q + at, seq->pos0 + i / a->heads, weight, a->out + at);
		}
		free(weight);
	}
}
