/* SPDX-License-Identifier: Apache-2.0 */
/* Gather and page copy. */
#include "kernels/cpu/ref/ref.h"

void ref_copy_rows(const float *x, const uint32_t *rows, uint32_t count, uint32_t d, float *out)
{
	for (uint32_t i = 0; i < count; i++)
		for (uint32_t c = 0; c < d; c++)
			out[(size_t)i * d + c] = x[(size_t)rows[i] * d + c];
}

void ref_copy_page(uint64_t dst, uint64_t src, uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes; i++)
		((char *)(uintptr_t)dst)[i] = ((const char *)(uintptr_t)src)[i];
}
