/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the packed embedding table. */
#include "kernels/cpu/ref/ref.h"

void ref_embed(const struct kernel_weight *w, const uint32_t *tokens, const uint32_t *drawn,
	       float *x, uint32_t m)
{
	for (uint32_t r = 0; r < m; r++)
		for (uint32_t k = 0; k < w->k; k++)
			x[(size_t)r * w->k + k] =
				(float)ref_gemm_weight(w, kernel_token(tokens[r], drawn), k);
}
