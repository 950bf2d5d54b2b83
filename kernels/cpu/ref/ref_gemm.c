/* SPDX-License-Identifier: Apache-2.0 */
/* y = x W^T with its epilogues, one output at a time. */
#include "kernels/cpu/ref/ref.h"

static double weight_at(const struct kernel_weight *w, uint32_t panel, uint32_t column, uint32_t k)
{
	size_t pairs = (w->k + 1) / 2;
	const kernel_half *data = w->data;

	return kernel_half_to_f32(
		data[(((panel * 2 + column / 32) * pairs + k / 2) * 32 + column % 32) * 2 + k % 2],
		w->type);
}

double ref_gemm_weight(const struct kernel_weight *w, uint32_t row, uint32_t k)
{
	uint32_t f = w->n / 2;

	if (w->kind == KERNEL_WEIGHT_PLAIN)
		return weight_at(w, row / 64, row % 64, k);
	if (row < f)
		return weight_at(w, row / 32, row % 32, k);
	return weight_at(w, (row - f) / 32, (row - f) % 32 + 32, k);
}

static double output(const struct kernel_gemm *g, uint32_t row, uint32_t n)
{
	double sum = 0;

	for (uint32_t k = 0; k < g->w->k; k++)
		sum += kernel_half_to_f32(g->x[(size_t)row * g->ldx + k], g->w->type) *
		       ref_gemm_weight(g->w, n, k);
	return sum + (g->bias ? g->bias[n] : 0);
}

void ref_gemm(const struct kernel_gemm *g)
{
	uint32_t columns = g->out == KERNEL_OUT_SWIGLU ? g->w->n / 2 : g->w->n;

	for (uint32_t r = 0; r < g->m; r++) {
		float *y = (float *)g->y + (size_t)r * g->ldy;
		kernel_half *b = (kernel_half *)g->y + (size_t)r * g->ldy;

		for (uint32_t n = 0; n < columns; n++) {
			double v = output(g, r, n);

			if (g->out == KERNEL_OUT_F32)
				y[n] = (float)v;
			else if (g->out == KERNEL_OUT_ADD)
				y[n] = (float)(y[n] + v);
			else if (g->out == KERNEL_OUT_HALF)
				b[n] = kernel_f32_to_half((float)v, g->w->type);
			else
				b[n] = kernel_f32_to_half(
					(float)ref_swiglu(v, output(g, r, columns + n)),
					g->w->type);
		}
	}
}
