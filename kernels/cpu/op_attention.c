/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Divides attention among the team. A tile is up to 96 packed rows of one (sequence, kv head); its
 * keys fall into splits of 512 at absolute positions, and the splits' partial results are merged in
 * ascending order (attn.h says why). Two ways to divide, with the same bits:
 *
 * - many tiles (prefill, large batches): a tile is one thread's; threads draw tiles from a common
 *   counter, the last (longest) first;
 * - few tiles (decode, the rest of a cached prompt): every (tile, split) is a unit; threads draw
 *   the units of a wave, which fill the partials, and then merge these in order, each its own rows.
 */
#include "kernels/cpu/ctx.h"
#include "kernels/cpu/expf.h"

#include <base/assert.h>
#include <base/atomic.h>
#include <math.h>
#include <string.h>

#define MERGE_ROWS 8u /* that a thread takes at a time */

struct attention_job {
	struct kernels_ctx *ctx;
	const struct kernel_attention *a;
	uint32_t tiles;
	uint32_t next; /* tiles drawn, from the end; units drawn of the wave */
	/* One wave: units [unit0, unit0 + units). */
	uint32_t unit0;
	uint32_t units;
};

static uint32_t seq_tiles(const struct kernel_attention *a, const struct kernel_seq *seq)
{
	return (uint32_t)bits_div_ceil((uint64_t)seq->rows * attn_group(a), ATTN_ROWS) *
	       a->layout->kv_heads;
}

static uint32_t count_tiles(const struct kernel_attention *a)
{
	uint32_t tiles = 0;

	for (uint32_t s = 0; s < a->seq_count; s++)
		tiles += seq_tiles(a, &a->seqs[s]);
	return tiles;
}

static struct attn_tile find_tile(const struct kernel_attention *a, uint32_t index)
{
	const struct kernel_seq *seq = a->seqs;
	struct attn_tile t = {.a = a};

	while (index >= seq_tiles(a, seq))
		index -= seq_tiles(a, seq++);
	t.seq = seq;
	t.kv_head = index % a->layout->kv_heads;
	t.row0 = index / a->layout->kv_heads * ATTN_ROWS;
	t.rows = BITS_MIN(ATTN_ROWS, seq->rows * attn_group(a) - t.row0);
	return t;
}

/* The splits [*out_first, return) that the tile's rows see. */
static uint32_t tile_splits(const struct attn_tile *t, uint32_t *out_first)
{
	uint32_t lo, ignored;
	uint32_t hi = attn_visible(t->a, attn_row_pos(t, t->rows - 1), &ignored);

	(void)attn_visible(t->a, attn_row_pos(t, 0), &lo);
	*out_first = lo / ATTN_SPLIT;
	return (uint32_t)bits_div_ceil(hi, ATTN_SPLIT);
}

/* Packed rows [begin, end) of a tile. */
struct row_range {
	uint32_t begin;
	uint32_t end;
};

/* into = into + from, for the rows that see anything in `from`. */
static void merge(const struct attn_tile *t, struct row_range rows, struct attn_partial *into,
		  const struct attn_partial *from)
{
	uint32_t stride = attn_stride(t->a->layout->head_dim);

	for (uint32_t r = rows.begin; r < rows.end; r++) {
		float *o = into->o + (size_t)r * stride;
		const float *p = from->o + (size_t)r * stride;
		bool fresh = into->max[r] == -INFINITY && into->sum[r] == 0;
		float max = from->max[r] > into->max[r] ? from->max[r] : into->max[r];
		float old = fresh ? 0 : expf_exp2(into->max[r] - max);
		float add = fresh ? 1 : expf_exp2(from->max[r] - max);

		if (from->max[r] == -INFINITY && from->sum[r] == 0)
			continue;
		into->max[r] = max;
		into->sum[r] = into->sum[r] * old + from->sum[r] * add;
		for (uint32_t d = 0; d < stride; d++)
			o[d] = o[d] * old + p[d] * add;
	}
}

static void finish(const struct isa *isa, const struct attn_tile *t, struct row_range rows,
		   const struct attn_partial *p)
{
	uint32_t hd = t->a->layout->head_dim;

	for (uint32_t r = rows.begin; r < rows.end; r++)
		isa->round(p->o + (size_t)r * attn_stride(hd), 1 / p->sum[r], hd,
			   t->a->out + attn_row_offset(t, r));
}

static void run_tile(struct kernels_ctx *ctx, const struct attn_tile *t, struct attn_partial *two,
		     void *scratch)
{
	const struct row_range all = {0, t->rows};
	uint32_t first;
	uint32_t end = tile_splits(t, &first);

	ctx->isa->attn(t, first, &two[0], scratch);
	for (uint32_t s = first + 1; s < end; s++) {
		ctx->isa->attn(t, s, &two[1], scratch);
		merge(t, all, &two[0], &two[1]);
	}
	finish(ctx->isa, t, all, &two[0]);
}

static void tiles_thread(void *arg, uint32_t index, uint32_t count)
{
	struct attention_job *j = arg;
	struct attn_partial *two = &j->ctx->partial[2 * index];
	uint32_t drawn;

	while ((drawn = atomic_add_relaxed(&j->next, 1)) < j->tiles) {
		struct attn_tile t = find_tile(j->a, j->tiles - 1 - drawn);

		run_tile(j->ctx, &t, two, ctx_scratch(j->ctx, index));
	}
}

static uint32_t count_units(const struct attention_job *j)
{
	uint32_t units = 0, first;

	for (uint32_t i = 0; i < j->tiles; i++) {
		struct attn_tile t = find_tile(j->a, i);
		uint32_t end = tile_splits(&t, &first);

		units += end - first;
	}
	return units;
}

/* Unit `unit` of all: which tile, and which of its splits. */
static struct attn_tile find_unit(const struct attention_job *j, uint32_t unit, uint32_t *out_split)
{
	for (uint32_t i = 0;; i++) {
		struct attn_tile t = find_tile(j->a, i);
		uint32_t first;
		uint32_t end = tile_splits(&t, &first);

		if (unit < end - first) {
			*out_split = first + unit;
			return t;
		}
		unit -= end - first;
	}
}

static void units_thread(void *arg, uint32_t index, uint32_t count)
{
	struct attention_job *j = arg;
	uint32_t i, split;

	while ((i = atomic_add_relaxed(&j->next, 1)) < j->units) {
		struct attn_tile t = find_unit(j, j->unit0 + i, &split);

		j->ctx->isa->attn(&t, split, &j->ctx->partial[i], ctx_scratch(j->ctx, index));
	}
}

static void copy_rows(const struct attn_tile *t, struct row_range rows, struct attn_partial *to,
		      const struct attn_partial *from)
{
	uint32_t stride = attn_stride(t->a->layout->head_dim);
	uint32_t count = rows.end - rows.begin;

	memcpy(to->max + rows.begin, from->max + rows.begin, count * sizeof(*to->max));
	memcpy(to->sum + rows.begin, from->sum + rows.begin, count * sizeof(*to->sum));
	memcpy(to->o + (size_t)rows.begin * stride, from->o + (size_t)rows.begin * stride,
	       (size_t)count * stride * sizeof(*to->o));
}

static void merge_rows(const struct attention_job *j, uint32_t i, const struct attn_tile *t,
		       uint32_t split, struct row_range rows)
{
	struct attn_partial *running = &j->ctx->partial[j->ctx->partial_count - 1];
	uint32_t first;
	uint32_t end = tile_splits(t, &first);

	if (split == first)
		copy_rows(t, rows, running, &j->ctx->partial[i]);
	else
		merge(t, rows, running, &j->ctx->partial[i]);
	if (split + 1 == end)
		finish(j->ctx->isa, t, rows, running);
}

/*
 * Merges a wave's partials into the running one, and writes out the tiles that end in it. A row's
 * number says whose it is, whatever the tile: threads may be at different tiles, but never at the
 * same row of the running partial.
 */
static void merge_thread(void *arg, uint32_t index, uint32_t count)
{
	const struct attention_job *j = arg;
	uint32_t split;

	for (uint32_t i = 0; i < j->units; i++) {
		struct attn_tile t = find_unit(j, j->unit0 + i, &split);

		for (uint32_t r = index * MERGE_ROWS; r < t.rows; r += count * MERGE_ROWS)
			merge_rows(j, i, &t, split,
				   (struct row_range){r, BITS_MIN(r + MERGE_ROWS, t.rows)});
	}
}

/* Whether a fork of the team is cheaper than to merge alone: not in decode. */
static bool merge_is_large(const struct attention_job *j)
{
	uint32_t rows = 0;

	for (uint32_t s = 0; s < j->a->seq_count; s++)
		rows += j->a->seqs[s].rows;
	return rows >= CTX_FORK_ROWS;
}

static void run_units(struct kernels_ctx *ctx, struct attention_job *j, uint32_t total)
{
	uint32_t wave = ctx->partial_count - 1;

	for (j->unit0 = 0; j->unit0 < total; j->unit0 += wave) {
		j->units = BITS_MIN(wave, total - j->unit0);
		j->next = 0;
		team_run(ctx->team, units_thread, j);
		if (merge_is_large(j))
			team_run(ctx->team, merge_thread, j);
		else
			merge_thread(j, 0, 1);
	}
}

void op_attention(struct kernels_ctx *ctx, const struct kernel_attention *a)
{
	struct attention_job j = {.ctx = ctx, .a = a, .tiles = count_tiles(a)};
	uint32_t threads = team_threads(ctx->team);

	ASSERT(a->layout->page_tokens % ATTN_GROUP == 0);
	ASSERT(a->scale > 0);
	if (j.tiles == 0)
		return;
	if (threads == 1 || j.tiles >= 4 * threads)
		team_run(ctx->team, tiles_thread, &j);
	else
		run_units(ctx, &j, count_units(&j));
}
