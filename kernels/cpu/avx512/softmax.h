/* SPDX-License-Identifier: Apache-2.0 */
/* One step of the online softmax, for one row and one tile of 64 keys. */
#ifndef KERNELS_CPU_AVX512_SOFTMAX_H
#define KERNELS_CPU_AVX512_SOFTMAX_H

#include <kernels/cpu/attn.h>
#include <kernels/cpu/avx512/vexp.h>
#include <math.h>

/* Keys [lo, hi) of 64. */
static inline uint64_t softmax_mask(uint32_t lo, uint32_t hi)
{
	uint64_t below = hi < 64 ? (1ull << hi) - 1 : ~0ull;

	return below & (~0ull << lo);
}

/*
 * scores[64] are q.k; scale > 0 turns them into exponents of 2. Writes the weights of the keys in
 * `mask` (not empty), 0 for the others; brings *max and the 16 lanes of *sum up to date. Returns
 * what the row's output so far must be multiplied by.
 */
static inline float softmax_step(const float *scores, uint64_t mask, float scale, float *max,
				 __m512 *sum, kernel_bf16 *weights)
{
	const __m512 by = _mm512_set1_ps(scale);
	__m512 s[4], shift;
	float top, alpha;

	for (int v = 0; v < 4; v++)
		s[v] = _mm512_mask_loadu_ps(_mm512_set1_ps(-INFINITY), (__mmask16)(mask >> 16 * v),
					    scores + 16 * v);
	top = scale * _mm512_reduce_max_ps(
			      _mm512_max_ps(_mm512_max_ps(s[0], s[1]), _mm512_max_ps(s[2], s[3])));
	top = top > *max ? top : *max;
	alpha = top == *max ? 1 : _mm512_cvtss_f32(vexp2(_mm512_set1_ps(*max - top)));
	*max = top;
	shift = _mm512_set1_ps(top);
	for (int v = 0; v < 4; v++) {
		s[v] = vexp2(_mm512_fmsub_ps(s[v], by, shift));
		s[v] = _mm512_maskz_mov_ps((__mmask16)(mask >> 16 * v), s[v]);
		_mm256_storeu_si256((__m256i *)(weights + 16 * v),
				    (__m256i)_mm512_cvtneps_pbh(s[v]));
	}
	*sum = _mm512_fmadd_ps(*sum, _mm512_set1_ps(alpha),
			       _mm512_add_ps(_mm512_add_ps(s[0], s[1]), _mm512_add_ps(s[2], s[3])));
	return alpha;
}

#endif
