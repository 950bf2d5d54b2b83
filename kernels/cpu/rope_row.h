/* SPDX-License-Identifier: Apache-2.0 */
/* RoPE of one row in plain C: each instruction set's file compiles it for its own vectors. */
#ifndef KERNELS_CPU_ROPE_ROW_H
#define KERNELS_CPU_ROPE_ROW_H

#include <kernels/cpu/sincos.h>
#include <kernels/kernels.h>

static inline void rope_row_angles(uint32_t pos, const float *restrict inv_freq, uint32_t n,
				   float *restrict cosines, float *restrict sines)
{
	for (uint32_t i = 0; i < n; i++)
		sincos_angle((double)pos * (double)inv_freq[i], &cosines[i], &sines[i]);
}

/* x has head_dim numbers; pairs are (i, i + pairs), the rest passes. */
static inline void rope_row_rotate(const float *restrict x, const float *restrict cosines,
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

#endif
