/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 2^x for sixteen floats. The same polynomial as expf.h, its sixth power economised away (replaced
 * by what a Chebyshev polynomial leaves of it): relative error below 4e-7, and exactly 1 at 0.
 */
#ifndef KERNELS_CPU_AVX512_VEXP_H
#define KERNELS_CPU_AVX512_VEXP_H

#include <immintrin.h>

#define VEXP_LOG2E 1.44269504088896341f

/* NaN for NaN: max and min give their second operand then. */
static inline __m512 vexp2(__m512 x)
{
	__m512 n, f, p;

	x = _mm512_max_ps(_mm512_set1_ps(-200), x);
	x = _mm512_min_ps(_mm512_set1_ps(200), x);
	n = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
	f = _mm512_sub_ps(x, n);
	p = _mm512_set1_ps(1.333355814642844e-3f);
	p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(9.675892346072635e-3f));
	p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(5.550410866482158e-2f));
	p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(2.402210916552e-1f));
	p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(6.931471805599453e-1f));
	p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1));
	return _mm512_scalef_ps(p, n);
}

#endif
