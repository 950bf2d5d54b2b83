/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sine and cosine in plain C doubles, for RoPE angles: the same bits on every processor and with
 * every libm. Error below 1e-10 for angles up to 2^22, far below what a float keeps. No branches,
 * so that loops vectorise.
 */
#ifndef KERNELS_CPU_SINCOS_H
#define KERNELS_CPU_SINCOS_H

#include <stdint.h>

/* pi / 2 in two parts; the first has 33 bits, so its product with a 20-bit quadrant is exact. */
#define SINCOS_PI2_HIGH 1.57079632673412561417e+00
#define SINCOS_PI2_LOW 6.07710050650619224932e-11
#define SINCOS_2_PI 6.36619772367581382433e-01
/* Adding and subtracting 1.5 * 2^52 rounds to an integer, and leaves it in the low bits. */
#define SINCOS_ROUND 6755399441055744.0

static inline void sincos_angle(double angle, float *out_cosine, float *out_sine)
{
	union {
		double f;
		uint64_t u;
	} quadrant = {.f = angle * SINCOS_2_PI + SINCOS_ROUND};
	double turns = quadrant.f - SINCOS_ROUND;
	double r = (angle - turns * SINCOS_PI2_HIGH) - turns * SINCOS_PI2_LOW;
	double z = r * r;
	double s = 1.0 / 39916800;
	double c = -1.0 / 3628800;
	double swap = (double)(int32_t)(quadrant.u & 1);
	double sine, cosine;

	/* Taylor, to r^11 and r^10, |r| <= pi / 4. */
	s = 1.0 / 362880 - z * s;
	s = -1.0 / 5040 + z * s;
	s = 1.0 / 120 + z * s;
	s = -1.0 / 6 + z * s;
	s = r + r * z * s;
	c = 1.0 / 40320 + z * c;
	c = -1.0 / 720 + z * c;
	c = 1.0 / 24 + z * c;
	c = -1.0 / 2 + z * c;
	c = 1.0 + z * c;
	sine = s * (1 - swap) + c * swap;
	cosine = c * (1 - swap) + s * swap;
	*out_sine = (float)(quadrant.u & 2 ? -sine : sine);
	*out_cosine = (float)((quadrant.u + 1) & 2 ? -cosine : cosine);
}

#endif
