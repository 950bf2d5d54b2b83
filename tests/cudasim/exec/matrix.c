/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix operations of a warp, with the fragments of PTX. The product sums in the order of k, each
 * bf16 product being exact in float: one rounding a step, whatever the lanes' order.
 */
#include "tests/cudasim/exec/matrix.h"
#include "tests/cudasim/exec/block.h"

#include <string.h>

typedef float row4 __attribute__((vector_size(16)));

struct mma {
	const uint32_t *a;
	const uint32_t *b;
	float *d;
};

static void mma_gather(const struct block_warp *w, float a[16][16], float b[16][8])
{
	for (uint32_t lane = 0; lane < SIM_WARP; lane++) {
		const struct mma *m = w->lanes[lane].in;
		uint32_t g = lane / 4, t = lane % 4;

		for (uint32_t i = 0; i < 4; i++) {
			float *to = &a[g + i % 2 * 8][2 * t + i / 2 * 8];

			to[0] = matrix_bf16_lo(m->a[i]);
			to[1] = matrix_bf16_hi(m->a[i]);
		}
		for (uint32_t i = 0; i < 2; i++) {
			b[2 * t + i * 8][g] = matrix_bf16_lo(m->b[i]);
			b[2 * t + i * 8 + 1][g] = matrix_bf16_hi(m->b[i]);
		}
	}
}

static void mma_op(struct block_warp *w, uint32_t mask)
{
	float a[16][16];
	float b[16][8] __attribute__((aligned(32)));

	(void)mask;
	mma_gather(w, a, b);
	for (uint32_t row = 0; row < 16; row++) {
		float d[8] __attribute__((aligned(32)));
		row4 low, high;

		for (uint32_t t = 0; t < 4; t++) {
			const struct mma *m = w->lanes[row % 8 * 4 + t].in;

			memcpy(&d[2 * t], &m->d[row / 8 * 2], 2 * sizeof(float));
		}
		memcpy(&low, d, sizeof(low));
		memcpy(&high, d + 4, sizeof(high));
		for (uint32_t k = 0; k < 16; k++) {
			low += a[row][k] * *(const row4 *)b[k];
			high += a[row][k] * *(const row4 *)(b[k] + 4);
		}
		memcpy(d, &low, sizeof(low));
		memcpy(d + 4, &high, sizeof(high));
		for (uint32_t t = 0; t < 4; t++) {
			const struct mma *m = w->lanes[row % 8 * 4 + t].in;

			memcpy(&m->d[row / 8 * 2], &d[2 * t], 2 * sizeof(float));
		}
	}
}

void sim_mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2], struct sim_place place)
{
	struct mma m = {a, b, d};

	warp_meet(0xffffffffu, mma_op, &m, NULL, place);
}

struct ldmatrix {
	const unsigned char *row;
	uint32_t matrices;
	bool transpose;
};

static uint32_t element(const struct block_warp *w, uint32_t matrix, uint32_t row, uint32_t column)
{
	const struct ldmatrix *l = w->lanes[matrix * 8 + row].in;
	uint16_t x;

	memcpy(&x, l->row + column * sizeof(x), sizeof(x));
	return x;
}

static void ldmatrix_op(struct block_warp *w, uint32_t mask)
{
	const struct ldmatrix *first = w->lanes[0].in;

	(void)mask;
	for (uint32_t lane = 0; lane < SIM_WARP; lane++) {
		uint32_t *r = w->lanes[lane].out;
		uint32_t g = lane / 4, t = 2 * (lane % 4);

		for (uint32_t i = 0; i < first->matrices; i++)
			r[i] = first->transpose
				       ? element(w, i, t, g) | element(w, i, t + 1, g) << 16
				       : element(w, i, g, t) | element(w, i, g, t + 1) << 16;
	}
}

void sim_ldmatrix(uint32_t *r, uint32_t matrices, bool transpose, const void *row,
		  struct sim_place place)
{
	struct ldmatrix l = {row, matrices, transpose};

	if (sim_self->lane < matrices * 8)
		memory_check_smem(row, 16, 16, "row of a matrix", place);
	warp_meet(0xffffffffu, ldmatrix_op, &l, r, place);
}
