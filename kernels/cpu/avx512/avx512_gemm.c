/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GEMM of bf16 by vdpbf16ps: a register tile of 6 rows by 64 outputs, 24 accumulators, so that four
 * loads of weights and six broadcasts feed 24 instructions. The depth is never split: a panel of it
 * fits the second-level cache for every model we run, and each sum adds its pairs in ascending
 * order, whatever the number of rows. Rows go in blocks, so that their activations stay cached
 * while the panels pass. The first four row tiles of a panel each fetch a quarter of the next one,
 * a line for every pair of k: else the first tile would wait for memory, and memory for the others.
 */
#include "kernels/cpu/avx512/avx512.h"
#include "kernels/cpu/avx512/epilogue.h"

#include <string.h>

#define ROW_BLOCK (16 * AVX512_GEMM_ROWS)
#define VECTORS 4

/* Two neighbouring activations in every lane. */
static inline __m512i pair(const kernel_bf16 *x)
{
	int32_t two;

	memcpy(&two, x, sizeof(two));
	return _mm512_set1_epi32(two);
}

static inline __attribute__((always_inline)) void
tile(const struct kernel_gemm *g, uint32_t row, uint32_t panel, const char *ahead, const int rows)
{
	const kernel_bf16 *w = pack_panel(g->w, panel);
	size_t half = pack_half_elements(g->w->k);
	const kernel_bf16 *x = g->x + (size_t)row * g->ldx;
	__m512 sum[AVX512_GEMM_ROWS][VECTORS];
	uint32_t k;

	for (int r = 0; r < rows; r++)
		for (int v = 0; v < VECTORS; v++)
			sum[r][v] = _mm512_setzero_ps();
	for (k = 0; k + 2 <= g->w->k; k += 2, w += 2 * PACK_HALF) {
		__m512i b[VECTORS];

		if (ahead)
			_mm_prefetch(ahead + (size_t)k / 2 * 64, _MM_HINT_T1);
		for (uint32_t v = 0; v < VECTORS; v++)
			b[v] = _mm512_loadu_si512(w + v / 2 * half + v % 2 * 32);
		for (int r = 0; r < rows; r++) {
			__m512i a = pair(x + (size_t)r * g->ldx + k);

			for (int v = 0; v < VECTORS; v++)
				sum[r][v] =
					_mm512_dpbf16_ps(sum[r][v], (__m512bh)a, (__m512bh)b[v]);
		}
	}
	if (k < g->w->k) /* the last of an odd depth: what follows in x may be anything */
		for (int r = 0; r < rows; r++)
			for (int v = 0; v < VECTORS; v++)
				sum[r][v] = _mm512_dpbf16_ps(
					sum[r][v],
					(__m512bh)_mm512_set1_epi32(x[(size_t)r * g->ldx + k]),
					(__m512bh)_mm512_loadu_si512(w + v / 2 * half +
								     v % 2 * 32));
	for (int r = 0; r < rows; r++)
		epilogue_row(g, row + (uint32_t)r, panel, sum[r]);
}

static void tile_of(const struct kernel_gemm *g, uint32_t row, uint32_t panel, const char *ahead,
		    uint32_t rows)
{
	switch (rows) {
	case 1:
		tile(g, row, panel, ahead, 1);
		break;
	case 2:
		tile(g, row, panel, ahead, 2);
		break;
	case 3:
		tile(g, row, panel, ahead, 3);
		break;
	case 4:
		tile(g, row, panel, ahead, 4);
		break;
	case 5:
		tile(g, row, panel, ahead, 5);
		break;
	default:
		tile(g, row, panel, ahead, 6);
		break;
	}
}

/* The quarter of the panel after p that row tile `i` of a block fetches, or NULL. */
static const char *quarter_ahead(const struct isa_gemm_part *part, uint32_t p, uint32_t i)
{
	const struct kernel_weight *w = part->g->w;
	size_t quarter = pack_panel_elements(w->k) * sizeof(kernel_bf16) / 4;

	if (p + 1 == part->panels || i >= 4)
		return NULL;
	return (const char *)pack_panel(w, part->panel0 + p + 1) + i * quarter;
}

void avx512_gemm(const struct isa_gemm_part *part, void *scratch)
{
	uint32_t end = part->row0 + part->rows;

	for (uint32_t block = part->row0; block < end; block += ROW_BLOCK) {
		uint32_t tiles =
			(uint32_t)bits_div_ceil(BITS_MIN(ROW_BLOCK, end - block), AVX512_GEMM_ROWS);

		for (uint32_t p = 0; p < part->panels; p++)
			for (uint32_t i = 0; i < tiles; i++) {
				uint32_t row = block + i * AVX512_GEMM_ROWS;

				tile_of(part->g, row, part->panel0 + p, quarter_ahead(part, p, i),
					BITS_MIN(AVX512_GEMM_ROWS, end - row));
			}
	}
}
