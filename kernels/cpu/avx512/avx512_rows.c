/* SPDX-License-Identifier: Apache-2.0 */
/* The row operations. Tails are masked lanes of the same instructions, so they round alike. */
#include "kernels/cpu/avx512/avx512.h"
#include "kernels/cpu/avx512/epilogue.h"
#include "kernels/cpu/sincos.h"

#include <kernels/cpu/ctx.h>
#include <math.h>
#include <string.h>

/* Four chains of sixteen lanes; the sum over lanes is the instruction sequence's own, fixed. */
static float inverse_rms(const float *x, uint32_t d, float eps)
{
	__m512 sum[4];

	for (int i = 0; i < 4; i++)
		sum[i] = _mm512_setzero_ps();
	for (uint32_t i = 0; i < d; i += 64)
		for (uint32_t v = 0; v < 4; v++) {
			__m512 a =
				_mm512_maskz_loadu_ps(epilogue_mask(i + 16 * v, d), x + i + 16 * v);

			sum[v] = _mm512_fmadd_ps(a, a, sum[v]);
		}
	return 1 / sqrtf(_mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(sum[0], sum[1]),
							    _mm512_add_ps(sum[2], sum[3]))) /
				 (float)d +
			 eps);
}

static inline __m512 normed(const float *x, const float *weight, float scale, uint32_t i,
			    __mmask16 mask)
{
	__m512 a = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + i), _mm512_set1_ps(scale));

	return _mm512_mul_ps(a, _mm512_maskz_loadu_ps(mask, weight + i));
}

void avx512_rows_rmsnorm(const float *x, const float *weight, float eps, kernel_bf16 *out,
			 uint32_t d)
{
	float scale = inverse_rms(x, d, eps);

	for (uint32_t i = 0; i < d; i += 16) {
		__mmask16 mask = epilogue_mask(i, d);

		epilogue_store_bf16(out + i, mask, normed(x, weight, scale, i, mask));
	}
}

void avx512_rows_rope_angles(uint32_t pos, const float *inv_freq, uint32_t n, float *cosines,
			     float *sines)
{
	for (uint32_t i = 0; i < n; i++)
		sincos_angle((double)pos * (double)inv_freq[i], &cosines[i], &sines[i]);
}

static void rotate(const float *x, const float *cosines, const float *sines, uint32_t pairs,
		   kernel_bf16 *out)
{
	for (uint32_t i = 0; i < pairs; i += 16) {
		__mmask16 mask = epilogue_mask(i, pairs);
		__m512 a = _mm512_maskz_loadu_ps(mask, x + i);
		__m512 b = _mm512_maskz_loadu_ps(mask, x + pairs + i);
		__m512 c = _mm512_maskz_loadu_ps(mask, cosines + i);
		__m512 s = _mm512_maskz_loadu_ps(mask, sines + i);

		epilogue_store_bf16(out + i, mask, _mm512_fmsub_ps(a, c, _mm512_mul_ps(b, s)));
		epilogue_store_bf16(out + pairs + i, mask,
				    _mm512_fmadd_ps(a, s, _mm512_mul_ps(b, c)));
	}
}

void avx512_rows_rope_head(const float *x, const float *norm, float eps, const float *cosines,
			   const float *sines, uint32_t pairs, uint32_t head_dim, kernel_bf16 *out)
{
	float y[CTX_HEAD_DIM_MAX];

	if (norm) {
		float scale = inverse_rms(x, head_dim, eps);

		for (uint32_t i = 0; i < head_dim; i += 16) {
			__mmask16 mask = epilogue_mask(i, head_dim);

			_mm512_mask_storeu_ps(y + i, mask, normed(x, norm, scale, i, mask));
		}
		x = y;
	}
	rotate(x, cosines, sines, pairs, out);
	avx512_rows_round(x + 2 * pairs, 1, head_dim - 2 * pairs, out + 2 * pairs);
}

void avx512_rows_store_v(const float *x, uint32_t head_dim, uint32_t t, kernel_bf16 *v)
{
	__mmask32 lanes = t ? 0xaaaaaaaa : 0x55555555;

	for (uint32_t i = 0; i < head_dim; i += 16) {
		__mmask16 mask = epilogue_mask(i, head_dim);
		__m256bh h = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, x + i));
		__m512i wide = _mm512_cvtepu16_epi32((__m256i)h);
		__mmask32 here = (__mmask32)_pdep_u32(mask, lanes);

		wide = t ? _mm512_slli_epi32(wide, 16) : wide;
		_mm512_mask_storeu_epi16(v + 2 * i, here, wide);
	}
}

void avx512_rows_round(const float *x, float scale, uint32_t n, kernel_bf16 *out)
{
	for (uint32_t i = 0; i < n; i += 16) {
		__mmask16 mask = epilogue_mask(i, n);

		epilogue_store_bf16(
			out + i, mask,
			_mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + i), _mm512_set1_ps(scale)));
	}
}

void avx512_rows_embed(const struct kernel_weight *w, uint32_t token, float *x)
{
	uint32_t column;
	uint32_t panel = pack_locate(w->kind, w->n, token, &column);
	const kernel_bf16 *p = pack_panel(w, panel) + pack_index(w->k, 0, column);

	for (uint32_t k = 0; k < w->k; k++)
		x[k] = kernel_bf16_to_f32(p[(size_t)(k / 2) * PACK_HALF * 2 + k % 2]);
}

void avx512_rows_exps(const float *x, uint32_t n, float max, float scale, float *out)
{
	for (uint32_t i = 0; i < n; i += 16) {
		__mmask16 mask = epilogue_mask(i, n);
		__m512 a = _mm512_sub_ps(_mm512_maskz_loadu_ps(mask, x + i), _mm512_set1_ps(max));

		_mm512_mask_storeu_ps(out + i, mask,
				      vexp2(_mm512_mul_ps(a, _mm512_set1_ps(scale * VEXP_LOG2E))));
	}
}
