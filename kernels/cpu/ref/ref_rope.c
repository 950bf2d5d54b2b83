/* SPDX-License-Identifier: Apache-2.0 */
/* RoPE (with the norm of q and k before it) and the store into pages, number by number. */
#include "kernels/cpu/ref/ref.h"

#include <math.h>

static double inverse_rms(const float *x, uint32_t d, float eps)
{
	double sum = 0;

	for (uint32_t i = 0; i < d; i++)
		sum += (double)x[i] * x[i];
	return 1 / sqrt(sum / d + eps);
}

/* Dimension d of a rotated head. */
static kernel_bf16 rotated(const struct kernel_rope_store *r, const float *x, const float *norm,
			   uint32_t pos, uint32_t d)
{
	uint32_t hd = r->layout->head_dim;
	uint32_t pairs = r->rope_dim / 2;
	double scale = norm ? inverse_rms(x, hd, r->norm_eps) : 1;
	uint32_t i = d < pairs ? d : d - pairs;
	double angle, a, b;

	if (d >= 2 * pairs)
		return kernel_f32_to_bf16((float)(x[d] * scale * (norm ? norm[d] : 1)));
	angle = (double)pos * r->inv_freq[i];
	a = x[i] * scale * (norm ? norm[i] : 1);
	b = x[i + pairs] * scale * (norm ? norm[i + pairs] : 1);
	if (d < pairs)
		return kernel_f32_to_bf16((float)(a * cos(angle) - b * sin(angle)));
	return kernel_f32_to_bf16((float)(a * sin(angle) + b * cos(angle)));
}

static void store(const struct kernel_rope_store *r, const struct kernel_seq *seq, uint32_t pos,
		  const float *kv)
{
	const struct kvd_layout *l = r->layout;
	char *page = (char *)(uintptr_t)seq->pages[pos / l->page_tokens];
	uint32_t t = pos % l->page_tokens;

	for (uint32_t h = 0; h < l->kv_heads; h++) {
		kernel_bf16 *k = (kernel_bf16 *)(page + kvd_layout_k(l, r->layer, h));
		kernel_bf16 *v = (kernel_bf16 *)(page + kvd_layout_v(l, r->layer, h));
		const float *key = kv + (size_t)h * l->head_dim;
		const float *value = key + (size_t)l->kv_heads * l->head_dim;

		for (uint32_t d = 0; d < l->head_dim; d++) {
			k[kvd_layout_k16_index(l, t, d)] = rotated(r, key, r->k_norm, pos, d);
			v[kvd_layout_v2_index(l, t, d)] = kernel_f32_to_bf16(value[d]);
			for (uint32_t z = t + 1;
			     z < l->page_tokens && t % KVD_LAYOUT_V_GROUP == 0 &&
			     z < t + KVD_LAYOUT_V_GROUP;
			     z++)
				v[kvd_layout_v2_index(l, z, d)] = 0;
		}
	}
}

void ref_rope(const struct kernel_rope_store *r)
{
	uint32_t hd = r->layout->head_dim;

	for (uint32_t s = 0; s < r->seq_count; s++) {
		const struct kernel_seq *seq = &r->seqs[s];

		for (uint32_t i = 0; i < seq->rows; i++) {
			size_t row = seq->row0 + i;
			const float *x = r->qkv + row * (r->heads + 2 * r->layout->kv_heads) * hd;

			for (uint32_t d = 0; d < r->heads * hd; d++)
				r->q[row * r->heads * hd + d] = rotated(
					r, x + d / hd * hd, r->q_norm, seq->pos0 + i, d % hd);
			if (!seq->query_only)
				store(r, seq, seq->pos0 + i, x + (size_t)r->heads * hd);
		}
	}
}
