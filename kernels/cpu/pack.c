/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights into panels, once at load. All tables share this form: it suits vector dot products and
 * matrix tiles alike, and plain code can read it too. Different rows touch different bytes. Of fp16
 * only the twins (ref/) make anything: no table here has products of it.
 */
#include "kernels/cpu/pack.h"

#include <base/assert.h>

size_t pack_bytes(enum kernel_weight_kind kind, uint32_t n, uint32_t k)
{
	return pack_panels(kind, n) * pack_panel_elements(k) * sizeof(kernel_bf16);
}

void pack_rows(const struct kernel_weight *w, uint32_t row0, uint32_t rows, const float *src)
{
	ASSERT(row0 + rows <= w->n);
	for (uint32_t r = 0; r < rows; r++) {
		uint32_t column;
		uint32_t panel = pack_locate(w->kind, w->n, row0 + r, &column);
		kernel_bf16 *dst = (kernel_bf16 *)w->data + panel * pack_panel_elements(w->k);
		const float *s = src + (size_t)r * w->k;

		for (uint32_t k = 0; k < w->k; k++)
			dst[pack_index(w->k, k, column)] = kernel_f32_to_half(s[k], w->type);
	}
}
