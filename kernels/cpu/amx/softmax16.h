/* SPDX-License-Identifier: Apache-2.0 */
/* One step of the online softmax for 16 rows and a tile of 64 keys. */
#ifndef KERNELS_CPU_AMX_SOFTMAX16_H
#define KERNELS_CPU_AMX_SOFTMAX16_H

#include <kernels/cpu/avx512/softmax.h>

/* [a's halves' maximum, b's]: the first two quarters are a's, the others b's. */
static inline __m512 softmax16_quarters(__m512 a, __m512 b)
{
	return _mm512_max_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}

/* Lane r: the maximum of top[r]. A tree of shuffles, 45 instructions for all. */
static inline __m512 softmax16_tops(const __m512 *top)
{
	__m512 e[4], g, h;

	for (int p = 0; p < 4; p++)
		e[p] = softmax16_quarters(softmax16_quarters(top[p], top[4 + p]),
					  softmax16_quarters(top[8 + p], top[12 + p]));
	g = _mm512_max_ps(_mm512_unpacklo_ps(e[0], e[1]), _mm512_unpackhi_ps(e[0], e[1]));
	h = _mm512_max_ps(_mm512_unpacklo_ps(e[2], e[3]), _mm512_unpackhi_ps(e[2], e[3]));
	return _mm512_max_ps(
		_mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(g), _mm512_castps_pd(h))),
		_mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(g), _mm512_castps_pd(h))));
}

/*
 * scores[16][64] are q.k; scale > 0 turns them into exponents of 2; row r sees the keys in mask[r]
 * (NULL: all). Writes all weights, 0 where nothing is seen, and brings max[16] and the lanes of
 * sum[16] up to date. alpha[r] is what row r's output so far must be multiplied by; returns
 * whether any is not 1.
 */
static inline __attribute__((always_inline)) bool
softmax16_step(const float (*scores)[ATTN_KEYS], const uint64_t *mask, float scale, float *max,
	       __m512 *sum, kernel_bf16 (*weights)[ATTN_KEYS], float *alpha)
{
	const __m512 none = _mm512_set1_ps(-INFINITY);
	const __m512 by = _mm512_set1_ps(scale);
	__m512 top[16], old, now, change;

	for (int r = 0; r < 16; r++) {
		__m512 s[4];

		for (int v = 0; v < 4; v++)
			s[v] = _mm512_mask_loadu_ps(none,
						    mask ? (__mmask16)(mask[r] >> 16 * v) : 0xffff,
						    scores[r] + 16 * v);
		top[r] = _mm512_max_ps(_mm512_max_ps(s[0], s[1]), _mm512_max_ps(s[2], s[3]));
	}
	old = _mm512_loadu_ps(max);
	now = _mm512_max_ps(_mm512_mul_ps(softmax16_tops(top), by), old);
	/* A row that has seen nothing yet has no output to scale. */
	change = _mm512_mask_mov_ps(vexp2(_mm512_sub_ps(old, now)), _mm512_cmpeq_ps_mask(old, now),
				    _mm512_set1_ps(1));
	_mm512_storeu_ps(max, now);
	_mm512_storeu_ps(alpha, change);
	for (int r = 0; r < 16; r++) {
		__m512 shift = _mm512_set1_ps(max[r]);
		__m512 s[4];

		for (int v = 0; v < 4; v++) {
			s[v] = vexp2(
				_mm512_fmsub_ps(_mm512_loadu_ps(scores[r] + 16 * v), by, shift));
			if (mask)
				s[v] = _mm512_maskz_mov_ps((__mmask16)(mask[r] >> 16 * v), s[v]);
			_mm256_storeu_si256((__m256i *)(weights[r] + 16 * v),
					    (__m256i)_mm512_cvtneps_pbh(s[v]));
		}
		sum[r] = _mm512_fmadd_ps(
			sum[r], _mm512_set1_ps(alpha[r]),
			_mm512_add_ps(_mm512_add_ps(s[0], s[1]), _mm512_add_ps(s[2], s[3])));
	}
	return _mm512_cmpneq_ps_mask(change, _mm512_set1_ps(1)) != 0;
}

#endif
