/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GEMM of bf16 by vdpbf16ps: a register tile of 6 rows by 64 outputs, 24 accumulators, so that four
 * loads of weights and six broadcasts feed 24 instructions. The depth is never split: a panel of it
 * fits the second-level cache for every model we run, and each sum adds its pairs in ascending
 * order, whatever the number of rows. Rows go in blocks, so that their activations stay cached
 * while the panels pass.
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

static inline __attribute__((always_inline)) void tile(const struct kernel_gemm *g, uint32_t row,
						       uint32_t panel, const int rows)
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

static void tile_of(const struct kernel_gemm *g, uint32_t row, uint32_t panel, uint32_t rows)
{
	switch (rows) {
	case 1:
		tile(g, row, panel, 1);
		break;
	case 2:
		tile(g, row, panel, 2);
		break;
	case 3:
		tile(g, row, panel, 3);
		break;
	case 4:
		tile(g, row, panel, 4);
		break;
	case 5:
		tile(g, row, panel, 5);
		break;
	default:
		tile(g, row, panel, 6);
		break;
	}
}

void avx512_gemm(const struct isa_gemm_part *part, void *scratch)
{
	uint32_t end = part->row0 + part->rows;

	for (uint32_t block = part->row0; block < end; block += ROW_BLOCK) {
		uint32_t block_end = BITS_MIN(block + ROW_BLOCK, end);

		for (uint32_t p = 0; p < part->panels; p++)
			for (uint32_t r = block; r < block_end; r += AVX512_GEMM_ROWS)
				tile_of(part->g, r, part->panel0 + p,
					BITS_MIN(AVX512_GEMM_ROWS, block_end - r));
	}
}
