/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GEMM in plain C: four rows by a strip of sixteen outputs at a time. Each output adds k in
 * ascending order, one product and one sum per step, whatever stands beside it.
 */
#include "kernels/cpu/expf.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/portable/portable.h"

#define STRIP 16u
#define ROWS PORTABLE_GEMM_ROWS

typedef uint32_t words __attribute__((vector_size(16)));
typedef float floats __attribute__((vector_size(16)));

#define VECTORS (STRIP * sizeof(float) / sizeof(floats))

struct strip {
	floats acc[ROWS][VECTORS];
};

static inline floats even(words pair)
{
	return (floats)(pair << 16);
}

static inline floats odd(words pair)
{
	return (floats)(pair & 0xffff0000u);
}

static inline floats broadcast(kernel_bf16 v)
{
	float f = kernel_bf16_to_f32(v);

	return (floats){f, f, f, f};
}

/* `rows` is a constant where it matters: the loops over it unroll. */
static inline __attribute__((always_inline)) void strip_sum(const kernel_bf16 *x, uint32_t ldx,
							    const kernel_bf16 *panel, uint32_t k,
							    uint32_t rows, struct strip *s)
{
	floats acc[ROWS][VECTORS] = {0};

	for (uint32_t i = 0; i < k; i++) {
		const words *w = (const words *)(panel + (size_t)(i / 2) * PACK_HALF * 2);

		for (uint32_t v = 0; v < VECTORS; v++) {
			floats b = i % 2 ? odd(w[v]) : even(w[v]);

			for (uint32_t r = 0; r < rows; r++)
				acc[r][v] += broadcast(x[(size_t)r * ldx + i]) * b;
		}
	}
	for (uint32_t r = 0; r < rows; r++)
		for (uint32_t v = 0; v < VECTORS; v++)
			s->acc[r][v] = acc[r][v];
}

static void strip_run(const struct kernel_gemm *g, uint32_t row, uint32_t rows,
		      const kernel_bf16 *panel, struct strip *s)
{
	const kernel_bf16 *x = g->x + (size_t)row * g->ldx;

	if (rows == ROWS) {
		strip_sum(x, g->ldx, panel, g->w->k, ROWS, s);
		return;
	}
	for (uint32_t r = 0; r < rows; r++) {
		struct strip one;

		strip_sum(x + (size_t)r * g->ldx, g->ldx, panel, g->w->k, 1, &one);
		__builtin_memcpy(s->acc[r], one.acc[0], sizeof(one.acc[0]));
	}
}

static void store_plain(const struct kernel_gemm *g, uint32_t row, uint32_t n0, const float *acc)
{
	uint32_t columns = n0 < g->w->n ? BITS_MIN(STRIP, g->w->n - n0) : 0;
	size_t at = (size_t)row * g->ldy + n0;

	for (uint32_t c = 0; c < columns; c++) {
		float v = acc[c] + (g->bias ? g->bias[n0 + c] : 0);

		if (g->out == KERNEL_OUT_HALF)
			((kernel_bf16 *)g->y)[at + c] = kernel_f32_to_bf16(v);
		else if (g->out == KERNEL_OUT_ADD)
			((float *)g->y)[at + c] += v;
		else
			((float *)g->y)[at + c] = v;
	}
}

static void store_swiglu(const struct kernel_gemm *g, uint32_t row, uint32_t n0, const float *gate,
			 const float *up)
{
	uint32_t f = g->w->n / 2;
	uint32_t columns = n0 < f ? BITS_MIN(STRIP, f - n0) : 0;
	kernel_bf16 *y = (kernel_bf16 *)g->y + (size_t)row * g->ldy + n0;

	for (uint32_t c = 0; c < columns; c++) {
		float a = gate[c] + (g->bias ? g->bias[n0 + c] : 0);
		float b = up[c] + (g->bias ? g->bias[f + n0 + c] : 0);

		y[c] = kernel_f32_to_bf16(a / (1 + expf_exp(-a)) * b);
	}
}

static void panel_run(const struct kernel_gemm *g, uint32_t row, uint32_t rows, uint32_t panel)
{
	const kernel_bf16 *w = pack_panel(g->w, panel);
	uint32_t strips = PACK_PANEL / STRIP;
	struct strip s[PACK_PANEL / STRIP];

	for (uint32_t i = 0; i < strips; i++)
		strip_run(g, row, rows, w + pack_index(g->w->k, 0, i * STRIP), &s[i]);
	for (uint32_t r = 0; r < rows; r++) {
		if (g->out != KERNEL_OUT_SWIGLU) {
			for (uint32_t i = 0; i < strips; i++)
				store_plain(g, row + r, panel * PACK_PANEL + i * STRIP,
					    (const float *)s[i].acc[r]);
			continue;
		}
		for (uint32_t i = 0; i < strips / 2; i++)
			store_swiglu(g, row + r, panel * PACK_PANEL / 2 + i * STRIP,
				     (const float *)s[i].acc[r],
				     (const float *)s[i + strips / 2].acc[r]);
	}
}

void portable_gemm(const struct isa_gemm_part *part, void *scratch)
{
	for (uint32_t p = 0; p < part->panels; p++)
		for (uint32_t r = 0; r < part->rows; r += ROWS)
			panel_run(part->g, part->row0 + r, BITS_MIN(ROWS, part->rows - r),
				  part->panel0 + p);
}
