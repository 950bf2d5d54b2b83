/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of a finished row of 64 sums: bias, then store, add, round or SwiGLU. */
#ifndef KERNELS_CPU_AVX512_EPILOGUE_H
#define KERNELS_CPU_AVX512_EPILOGUE_H

#include <kernels/cpu/avx512/vexp.h>
#include <kernels/cpu/pack.h>

/* Lanes of the sixteen columns at `column` that exist among n. */
static inline __mmask16 epilogue_mask(uint32_t column, uint32_t n)
{
	if (column + 16 <= n)
		return 0xffff;
	return column < n ? (__mmask16)((1u << (n - column)) - 1) : 0;
}

static inline __m512 epilogue_bias(const struct kernel_gemm *g, __m512 v, __mmask16 mask,
				   uint32_t n)
{
	return g->bias ? _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, g->bias + n)) : v;
}

static inline void epilogue_store_bf16(kernel_bf16 *y, __mmask16 mask, __m512 v)
{
	_mm256_mask_storeu_epi16(y, mask, (__m256i)_mm512_cvtneps_pbh(v));
}

static inline void epilogue_plain(const struct kernel_gemm *g, uint32_t row, uint32_t column,
				  __m512 v)
{
	__mmask16 mask = epilogue_mask(column, g->w->n);
	size_t at = (size_t)row * g->ldy + column;
	float *y = (float *)g->y + at;

	if (!mask)
		return;
	v = epilogue_bias(g, v, mask, column);
	if (g->out == KERNEL_OUT_HALF) {
		epilogue_store_bf16((kernel_bf16 *)g->y + at, mask, v);
		return;
	}
	if (g->out == KERNEL_OUT_ADD)
		v = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, y), v);
	_mm512_mask_storeu_ps(y, mask, v);
}

static inline void epilogue_swiglu(const struct kernel_gemm *g, uint32_t row, uint32_t column,
				   __m512 gate, __m512 up)
{
	uint32_t f = g->w->n / 2;
	__mmask16 mask = epilogue_mask(column, f);
	__m512 e;

	if (!mask)
		return;
	gate = epilogue_bias(g, gate, mask, column);
	up = epilogue_bias(g, up, mask, f + column);
	e = vexp2(_mm512_mul_ps(gate, _mm512_set1_ps(-VEXP_LOG2E)));
	gate = _mm512_div_ps(gate, _mm512_add_ps(_mm512_set1_ps(1), e));
	epilogue_store_bf16((kernel_bf16 *)g->y + (size_t)row * g->ldy + column, mask,
			    _mm512_mul_ps(gate, up));
}

static inline void epilogue_row(const struct kernel_gemm *g, uint32_t row, uint32_t panel,
				const __m512 *sum)
{
	uint32_t column = panel * PACK_PANEL;

	if (g->out == KERNEL_OUT_SWIGLU) {
		epilogue_swiglu(g, row, column / 2, sum[0], sum[2]);
		epilogue_swiglu(g, row, column / 2 + 16, sum[1], sum[3]);
		return;
	}
	for (uint32_t v = 0; v < 4; v++)
		epilogue_plain(g, row, column + v * 16, sum[v]);
}

#endif
