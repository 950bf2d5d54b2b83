/* SPDX-License-Identifier: Apache-2.0 */
/* bf16 to float, for the matrix operations. */
#ifndef CUDASIM_EXEC_MATRIX_H
#define CUDASIM_EXEC_MATRIX_H

#include <stdint.h>
#include <string.h>

static inline float matrix_bf16_hi(uint32_t x)
{
	uint32_t bits = x & 0xffff0000u;
	float y;

	memcpy(&y, &bits, sizeof(y));
	return y;
}

static inline float matrix_bf16_lo(uint32_t x)
{
	return matrix_bf16_hi(x << 16);
}

#endif
