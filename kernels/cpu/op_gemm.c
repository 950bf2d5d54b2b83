/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Divides a GEMM among the team. The work is a grid of panels by row tiles, numbered panel by
 * panel; each thread takes one contiguous run of numbers, so the shares are even although a matrix
 * may have few panels. A run is at most three rectangles: the end of one panel, whole panels, the
 * beginning of another. Nothing here touches a number of the result.
 */
#include "kernels/cpu/ctx.h"
#include "kernels/cpu/pack.h"

#include <base/assert.h>

struct op_gemm_job {
	const struct kernels_ctx *ctx;
	const struct kernel_gemm *g;
};

/* Row tiles [tile0, tile1) of `panels` panels. */
static void gemm_rectangle(const struct op_gemm_job *j, uint32_t panel0, uint32_t panels,
			   uint32_t tile0, uint32_t tile1, void *scratch)
{
	uint32_t tile = j->ctx->isa->gemm_rows;
	struct isa_gemm_part part = {
		.g = j->g,
		.row0 = tile0 * tile,
		.rows = BITS_MIN(tile1 * tile, j->g->m) - tile0 * tile,
		.panel0 = panel0,
		.panels = panels,
	};

	j->ctx->isa->gemm(&part, scratch);
}

static void gemm_thread(void *arg, uint32_t index, uint32_t count)
{
	const struct op_gemm_job *j = arg;
	uint32_t tiles = (uint32_t)bits_div_ceil(j->g->m, j->ctx->isa->gemm_rows);
	uint32_t panels = pack_panels(j->g->w->kind, j->g->w->n);
	void *scratch = ctx_scratch(j->ctx, index);
	uint32_t at, end;

	team_part(panels * tiles, index, count, &at, &end);
	while (at < end) {
		uint32_t panel = at / tiles;
		uint32_t tile = at % tiles;
		uint32_t whole = tile == 0 ? (end - at) / tiles : 0;
		uint32_t tile_end = whole ? tiles : BITS_MIN(tiles, tile + end - at);

		whole = BITS_MAX(whole, 1);
		gemm_rectangle(j, panel, whole, tile, tile_end, scratch);
		at += whole * (tile_end - tile);
	}
}

void op_gemm(struct kernels_ctx *ctx, const struct kernel_gemm *g)
{
	struct op_gemm_job job = {ctx, g};

	ASSERT(g->w->type == KERNEL_BF16);
	ASSERT_DEBUG((g->out == KERNEL_OUT_SWIGLU) == (g->w->kind == KERNEL_WEIGHT_GATE_UP));
	if (g->m)
		team_run(ctx->team, gemm_thread, &job);
}
