/* SPDX-License-Identifier: Apache-2.0 */
/* The row operations in plain C. Sums run in sixteen lanes that are added up in one fixed order. */
#include "kernels/cpu/expf.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/portable/portable.h"
#include "kernels/cpu/sincos.h"

#include <kernels/cpu/ctx.h>
#include <math.h>

#define LANES 16u

static float inverse_rms(const float *x, uint32_t d, float eps)
{
	float lane[LANES] = {0};
	float sum = 0;

	for (uint32_t i = 0; i + LANES <= d; i += LANES)
		for (uint32_t l = 0; l < LANES; l++)
			lane[l] += x[i + l] * x[i + l];
	for (uint32_t i = d / LANES * LANES; i < d; i++)
		lane[i % LANES] += x[i] * x[i];
	for (uint32_t l = 0; l < LANES; l++)
		sum += lane[l];
	return 1 / sqrtf(sum / (float)d + eps);
}

void portable_rows_rmsnorm(const float *x, const float *weight, float eps, kernel_bf16 *out,
			   uint32_t d)
{
	float scale = inverse_rms(x, d, eps);

	for (uint32_t i = 0; i < d; i++)
		out[i] = kernel_f32_to_bf16(x[i] * scale * weight[i]);
}

void portable_rows_rope_angles(uint32_t pos, const float *inv_freq, uint32_t n, float *cosines,
			       float *sines)
{
	for (uint32_t i = 0; i < n; i++)
		sincos_angle((double)pos * (double)inv_freq[i], &cosines[i], &sines[i]);
}

/* x has head_dim numbers; pairs are (i, i + pairs), the rest passes. */
static void rotate(const float *restrict x, const float *restrict cosines,
		   const float *restrict sines, uint32_t pairs, uint32_t head_dim,
		   kernel_bf16 *restrict out)
{
	for (uint32_t i = 0; i < pairs; i++) {
		float a = x[i];
		float b = x[i + pairs];

		out[i] = kernel_f32_to_bf16(a * cosines[i] - b * sines[i]);
		out[i + pairs] = kernel_f32_to_bf16(a * sines[i] + b * cosines[i]);
	}
	for (uint32_t i = 2 * pairs; i < head_dim; i++)
		out[i] = kernel_f32_to_bf16(x[i]);
}

void portable_rows_rope_head(const float *x, const float *norm, float eps, const float *cosines,
			     const float *sines, uint32_t pairs, uint32_t head_dim,
			     kernel_bf16 *out)
{
	float normed[CTX_HEAD_DIM_MAX];

	if (norm) {
		float scale = inverse_rms(x, head_dim, eps);

		for (uint32_t i = 0; i < head_dim; i++)
			normed[i] = x[i] * scale * norm[i];
		x = normed;
	}
	rotate(x, cosines, sines, pairs, head_dim, out);
}

void portable_rows_store_v(const float *x, uint32_t head_dim, uint32_t t, kernel_bf16 *v)
{
	for (uint32_t i = 0; i < head_dim; i++)
		v[2 * i + t] = kernel_f32_to_bf16(x[i]);
}

void portable_rows_round(const float *x, float scale, uint32_t n, kernel_bf16 *out)
{
	for (uint32_t i = 0; i < n; i++)
		out[i] = kernel_f32_to_bf16(x[i] * scale);
}

void portable_rows_embed(const struct kernel_weight *w, uint32_t token, float *x)
{
	uint32_t column;
	uint32_t panel = pack_locate(w->kind, w->n, token, &column);
	const kernel_bf16 *p = pack_panel(w, panel) + pack_index(w->k, 0, column);

	for (uint32_t k = 0; k < w->k; k++)
		x[k] = kernel_bf16_to_f32(p[(size_t)(k / 2) * PACK_HALF * 2 + k % 2]);
}

void portable_rows_exps(const float *x, uint32_t n, float max, float scale, float *out)
{
	scale *= EXPF_LOG2E;
	for (uint32_t i = 0; i < n; i++)
		out[i] = expf_exp2((x[i] - max) * scale);
}
