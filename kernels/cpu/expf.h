/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exp in plain C. libm's is good, but its bits differ from one libm to the next, and a KV bit must
 * not depend on which is installed. The polynomial is the Taylor series of 2^f = e^(f ln 2) to
 * degree 6 on [-0.5, 0.5]: relative error below 2e-7.
 */
#ifndef KERNELS_CPU_EXPF_H
#define KERNELS_CPU_EXPF_H

#include <stdint.h>

#define EXPF_LOG2E 1.44269504088896341f
/* Below this the result is 0: what a softmax does not see. */
#define EXPF_MIN -125.0f
#define EXPF_MAX 127.0f
/* Adding and subtracting 1.5 * 2^23 rounds to an integer, and leaves it in the low bits. */
#define EXPF_ROUND 12582912.0f

#define EXPF_C1 6.931471805599453e-1f
#define EXPF_C2 2.402265069591007e-1f
#define EXPF_C3 5.550410866482158e-2f
#define EXPF_C4 9.618129107628477e-3f
#define EXPF_C5 1.333355814642844e-3f
#define EXPF_C6 1.540353039338161e-4f

/* 2^x; 0 below EXPF_MIN, 2^127 above EXPF_MAX, NaN for NaN. No branches, so that loops vectorise.
 */
static inline float expf_exp2(float x)
{
	union {
		float f;
		uint32_t u;
	} power;
	float clamped = x < EXPF_MIN ? EXPF_MIN : x;
	float whole, f, p;

	clamped = clamped > EXPF_MAX ? EXPF_MAX : clamped;
	power.f = clamped + EXPF_ROUND;
	whole = power.f - EXPF_ROUND;
	f = clamped - whole;
	p = EXPF_C6;
	p = p * f + EXPF_C5;
	p = p * f + EXPF_C4;
	p = p * f + EXPF_C3;
	p = p * f + EXPF_C2;
	p = p * f + EXPF_C1;
	p = p * f + 1.0f;
	power.u = (power.u + 127) << 23;
	p = p * power.f;
	return x < EXPF_MIN ? 0.0f : p;
}

static inline float expf_exp(float x)
{
	return expf_exp2(x * EXPF_LOG2E);
}

#endif
