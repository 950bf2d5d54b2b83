/* SPDX-License-Identifier: Apache-2.0 */
/* The row operations in plain C. Sums run in sixteen lanes that are added up in one fixed order. */
#include "kernels/cpu/expf.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/portable/portable.h"
#include "kernels/cpu/rope_row.h"

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
	rope_row_angles(pos, inv_freq, n, cosines, sines);
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
	rope_row_rotate(x, cosines, sines, pairs, head_dim, out);
}

void portable_rows_embed(const struct kernel_weight *w, uint32_t token, float *x)
{
	uint32_t column;
	uint32_t panel = pack_locate(w->kind, w->n, token, &column);
	const kernel_bf16 *p = pack_panel(w, panel) + (size_t)column * 2;

	for (uint32_t k = 0; k < w->k; k++)
		x[k] = kernel_bf16_to_f32(p[(size_t)(k / 2) * PACK_PANEL * 2 + k % 2]);
}

void portable_rows_exps(const float *x, uint32_t n, float max, float scale, float *out)
{
	scale *= EXPF_LOG2E;
	for (uint32_t i = 0; i < n; i++)
		out[i] = expf_exp2((x[i] - max) * scale);
}
