/* SPDX-License-Identifier: Apache-2.0 */
/* RMSNorm. */
#include "kernels/cpu/ref/ref.h"

#include <math.h>

void ref_norm(const float *x, const float *weight, float eps, kernel_half *out, uint32_t m,
	      uint32_t d, enum kernel_type type)
{
	for (uint32_t r = 0; r < m; r++, x += d, out += d) {
		double sum = 0;

		for (uint32_t i = 0; i < d; i++)
			sum += (double)x[i] * x[i];
		for (uint32_t i = 0; i < d; i++)
			out[i] = kernel_f32_to_half((float)(x[i] / sqrt(sum / d + eps) * weight[i]),
						    type);
	}
}
