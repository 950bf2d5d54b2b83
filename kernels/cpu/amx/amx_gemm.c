/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GEMM of bf16 by tiles. The packed panel is what the tile unit wants already: 16 k pairs of 16
 * outputs are one tile, 128 bytes from row to row. The depth is never split: each sum adds its
 * pairs in ascending order.
 *
 * Many rows: two by two tiles, 32 rows by 32 outputs, so that four loads feed four products. The
 * 32 rows stay in the first-level cache while both halves of the panel pass; the finished sums of
 * a block are written out while the tile unit is busy with the next. At most 16 rows (decode): one
 * row tile against the panel's four, weights read once, in the order they lie.
 *
 * A depth that is no multiple of 32 is the AVX-512 kernel's; this depends on the weight alone.
 */
#include "kernels/cpu/amx/amx.h"
#include "kernels/cpu/amx/tile.h"
#include "kernels/cpu/avx512/avx512.h"
#include "kernels/cpu/avx512/epilogue.h"

#define HALF_STRIDE (PACK_HALF * 4u) /* bytes from pair to pair */
#define SUM_STRIDE (PACK_PANEL * sizeof(float))
#define SQUARE_ROWS AMX_GEMM_ROWS
#define LOWER_TILES 0x2cu /* of a square: sums 2 and 3, rows 5 */
#define ROW_BLOCK 256u	  /* rows whose activations stay cached while the panels pass */

static void finish_rows(const struct kernel_gemm *g, uint32_t row, uint32_t rows, uint32_t panel,
			const float *sums)
{
	for (uint32_t r = 0; r < rows; r++) {
		__m512 sum[4];

		for (int v = 0; v < 4; v++)
			sum[v] = _mm512_load_ps(sums + r * PACK_PANEL + v * 16);
		epilogue_row(g, row + r, panel, sum);
	}
}

/* Up to 16 rows, the whole depth, one panel. */
static void few_rows(const struct kernel_gemm *g, uint32_t row, uint32_t panel, float *sums)
{
	const char *w = (const char *)pack_panel(g->w, panel);
	const char *w1 = w + pack_half_elements(g->w->k) * sizeof(kernel_bf16);
	const kernel_bf16 *x = g->x + (size_t)row * g->ldx;
	size_t ldx = g->ldx * sizeof(*x);

	TILE_ZERO(0);
	TILE_ZERO(1);
	TILE_ZERO(2);
	TILE_ZERO(3);
	for (uint32_t k = 0; k < g->w->k; k += TILE_DEPTH) {
		TILE_LOAD(4, x + k, ldx);
		TILE_LOAD(5, w, HALF_STRIDE);
		TILE_DOT(0, 4, 5);
		TILE_LOAD(6, w + TILE_BYTES, HALF_STRIDE);
		TILE_DOT(1, 4, 6);
		TILE_LOAD(7, w1, HALF_STRIDE);
		TILE_DOT(2, 4, 7);
		TILE_LOAD(5, w1 + TILE_BYTES, HALF_STRIDE);
		TILE_DOT(3, 4, 5);
		w += TILE_PAIRS * HALF_STRIDE;
		w1 += TILE_PAIRS * HALF_STRIDE;
	}
	TILE_STORE(0, sums, SUM_STRIDE);
	TILE_STORE(1, sums + 16, SUM_STRIDE);
	TILE_STORE(2, sums + 32, SUM_STRIDE);
	TILE_STORE(3, sums + 48, SUM_STRIDE);
}

static void few_rows_panels(const struct isa_gemm_part *part, float *sums)
{
	tile_configure_rows(part->rows, 0x1f);
	for (uint32_t p = part->panel0; p < part->panel0 + part->panels; p++) {
		few_rows(part->g, part->row0, p, sums);
		finish_rows(part->g, part->row0, part->rows, p, sums);
	}
}

/* 32 rows, the whole depth, 32 outputs. */
static void square(const struct kernel_gemm *g, uint32_t row, const char *w, float *sums)
{
	const kernel_bf16 *x = g->x + (size_t)row * g->ldx;
	const kernel_bf16 *x1 = x + (size_t)TILE_ROWS * g->ldx;
	float *sums1 = sums + TILE_ROWS * PACK_PANEL;
	size_t ldx = g->ldx * sizeof(*x);

	TILE_ZERO(0);
	TILE_ZERO(1);
	TILE_ZERO(2);
	TILE_ZERO(3);
	for (uint32_t k = 0; k < g->w->k; k += TILE_DEPTH, w += TILE_PAIRS * HALF_STRIDE) {
		TILE_LOAD(4, x + k, ldx);
		TILE_LOAD(6, w, HALF_STRIDE);
		TILE_LOAD(7, w + TILE_BYTES, HALF_STRIDE);
		TILE_DOT(0, 4, 6);
		TILE_LOAD(5, x1 + k, ldx);
		TILE_DOT(1, 4, 7);
		TILE_DOT(2, 5, 6);
		TILE_DOT(3, 5, 7);
	}
	TILE_STORE(0, sums, SUM_STRIDE);
	TILE_STORE(1, sums + 16, SUM_STRIDE);
	TILE_STORE(2, sums1, SUM_STRIDE);
	TILE_STORE(3, sums1 + 16, SUM_STRIDE);
}

/* Full squares of [row, row + rows), rows a multiple of 32. */
static void squares(const struct kernel_gemm *g, uint32_t row, uint32_t rows, uint32_t panel,
		    float *sums)
{
	const char *w = (const char *)pack_panel(g->w, panel);
	size_t half = pack_half_elements(g->w->k) * sizeof(kernel_bf16);
	float *last = sums + SQUARE_ROWS * PACK_PANEL;

	for (uint32_t r = 0; r < rows; r += SQUARE_ROWS) {
		float *swap = last;

		square(g, row + r, w, sums);
		if (r)
			finish_rows(g, row + r - SQUARE_ROWS, SQUARE_ROWS, panel, last);
		square(g, row + r, w + half, sums + PACK_HALF);
		last = sums;
		sums = swap;
	}
	finish_rows(g, row + rows - SQUARE_ROWS, SQUARE_ROWS, panel, last);
}

/* 17 to 31 rows: squares whose lower tiles are short. The weights are read once for all rows. */
static void short_squares(const struct isa_gemm_part *part, float *sums)
{
	size_t half = pack_half_elements(part->g->w->k) * sizeof(kernel_bf16);

	tile_configure_rows(part->rows - TILE_ROWS, LOWER_TILES);
	for (uint32_t p = part->panel0; p < part->panel0 + part->panels; p++) {
		const char *w = (const char *)pack_panel(part->g->w, p);

		square(part->g, part->row0, w, sums);
		square(part->g, part->row0, w + half, sums + PACK_HALF);
		finish_rows(part->g, part->row0, part->rows, p, sums);
	}
}

/* What is left of rows after full squares: 1 to 31, all panels. */
static void rest(const struct isa_gemm_part *part, uint32_t row, uint32_t rows, float *sums)
{
	struct isa_gemm_part few = *part;

	few.row0 = row;
	few.rows = rows;
	if (rows > TILE_ROWS)
		short_squares(&few, sums);
	else
		few_rows_panels(&few, sums);
}

void amx_gemm(const struct isa_gemm_part *part, void *scratch)
{
	uint32_t full = part->rows / AMX_GEMM_ROWS * AMX_GEMM_ROWS;

	if (part->g->w->k % TILE_DEPTH != 0) {
		avx512_gemm(part, scratch);
		return;
	}
	if (full)
		tile_configure_rows(TILE_ROWS, 0);
	for (uint32_t at = 0; at < full; at += ROW_BLOCK) {
		uint32_t rows = BITS_MIN(ROW_BLOCK, full - at);

		for (uint32_t p = part->panel0; p < part->panel0 + part->panels; p++)
			squares(part->g, part->row0 + at, rows, p, scratch);
	}
	if (full < part->rows)
		rest(part, part->row0 + full, part->rows - full, scratch);
	tile_release();
}
