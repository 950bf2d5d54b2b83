/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step's batch as the kernels read it: tables in one block of memory, laid out by the shape
 * alone, so that a recorded graph finds them at the addresses it was recorded with. The page
 * addresses of all sequences stand behind one another at the block's end, and only as many are
 * copied as there are.
 *
 * A shape may hold more than the batch does. What is over says so itself (CUDA_NONE, or a sequence
 * without rows): padding rows are computed, and reach neither a page nor the caller.
 *
 * Sequences of few rows go the way of decode, whose blocks share the keys of one sequence; the
 * others are cut into tiles. Both ways have the same bits (attn.h).
 */
#include "base/bits.h"
#include "base/mutant.h"
#include "kernels/cuda/attn.h"
#include "kernels/cuda/cuda_ctx.h"
#include <string.h>

#define CUDA_BATCH_ALIGN 16u

static void *part(uint8_t *base, size_t *at, size_t bytes)
{
	void *p = base + *at;

	*at = bits_align_up(*at + bytes, CUDA_BATCH_ALIGN);
	return p;
}

size_t cuda_batch_place(const struct cuda_shape *s, uint8_t *base, struct cuda_batch *out)
{
	size_t at = 0;

	out->tokens = part(base, &at, s->rows * sizeof(*out->tokens));
	out->row_seq = part(base, &at, s->rows * sizeof(*out->row_seq));
	out->seqs = part(base, &at, s->seqs * sizeof(*out->seqs));
	out->tiles = part(base, &at, s->tiles * sizeof(*out->tiles));
	out->decodes = part(base, &at, s->decodes * sizeof(*out->decodes));
	out->sampled = part(base, &at, s->sampled * sizeof(*out->sampled));
	out->params = part(base, &at, s->sampled * sizeof(*out->params));
	out->pages = part(base, &at, 0);
	return at;
}

static bool decodes(const struct kernels_ctx *ctx, const struct kernel_seq *seq)
{
	return seq->rows <= ctx->decode_rows;
}

struct cuda_shape cuda_batch_shape(const struct kernels_ctx *ctx, const struct kernel_batch *in)
{
	struct cuda_shape s = {
		.rows = in->rows, .seqs = in->seq_count, .sampled = in->sampled_count, .splits = 1};

	for (uint32_t i = 0; i < in->seq_count; i++) {
		const struct kernel_seq *seq = &in->seqs[i];
		uint32_t splits = (uint32_t)bits_div_ceil(seq->pos0 + seq->rows, CUDA_ATTN_SPLIT);

		if (decodes(ctx, seq)) {
			s.decodes++;
			s.splits = BITS_MAX(s.splits, splits);
		} else {
			s.tiles += (uint32_t)bits_div_ceil(seq->rows, ctx->tile_rows);
		}
	}
	return s;
}

/* The tables under construction: the same addresses, to be written. */
struct filling {
	uint32_t *row_seq;
	struct cuda_seq *seqs;
	struct cuda_tile *tiles;
	uint32_t *decodes;
	uint64_t *pages;
	uint32_t tile_count;
	uint32_t decode_count;
	uint32_t page_count;
};

static void fill_seq(const struct kernels_ctx *ctx, struct filling *f, uint32_t index,
		     const struct kernel_seq *seq)
{
	uint32_t tokens = seq->pos0 + seq->rows;
	uint32_t pages = (uint32_t)bits_div_ceil(tokens, ctx->limits.page_tokens);

	f->seqs[index] = (struct cuda_seq){.row0 = seq->row0,
					   .rows = seq->rows,
					   .pos0 = seq->pos0,
					   .store = !seq->query_only,
					   .page0 = f->page_count,
					   .page_count = pages};
	memcpy(f->pages + f->page_count, seq->pages, pages * sizeof(*f->pages));
	f->page_count += pages;
	for (uint32_t i = 0; i < seq->rows; i++)
		f->row_seq[seq->row0 + i] = index;
	if (decodes(ctx, seq)) {
		f->decodes[f->decode_count++] = index;
		return;
	}
	for (uint32_t row = 0; row < seq->rows; row += ctx->tile_rows)
		f->tiles[f->tile_count++] = (struct cuda_tile){index, row};
}

static void fill_padding(struct filling *f, const struct kernel_batch *in,
			 const struct cuda_shape *s)
{
	for (uint32_t i = in->seq_count; i < s->seqs; i++)
		f->seqs[i] = (struct cuda_seq){0};
	for (uint32_t i = f->tile_count; i < s->tiles; i++)
		f->tiles[i] = (struct cuda_tile){CUDA_NONE, 0};
	for (uint32_t i = f->decode_count; i < s->decodes; i++)
		f->decodes[i] = CUDA_NONE;
}

static void fill_sampled(const struct kernel_batch *in, const struct cuda_shape *s,
			 uint32_t *sampled, struct kernel_sample_params *params)
{
	for (uint32_t i = 0; i < s->sampled; i++) {
		bool real = i < in->sampled_count;

		sampled[i] = real ? in->sampled[i] : CUDA_NONE;
		params[i] = real && in->params ? in->params[i] : (struct kernel_sample_params){0};
	}
}

/* What the step before drew is the device's to look up; the host may not have it yet. */
static uint32_t token_of(const struct kernel_batch *in, uint32_t row)
{
	if (KVD_MUTANT(step_drawn_by_host))
		return kernel_token(in->tokens[row], in->drawn);
	return in->tokens[row];
}

size_t cuda_batch_fill(const struct kernels_ctx *ctx, const struct kernel_batch *in,
		       const struct cuda_shape *shape, uint8_t *staging)
{
	struct cuda_batch at;
	size_t bytes = cuda_batch_place(shape, staging, &at);
	uint32_t *tokens = (uint32_t *)at.tokens;
	struct filling f = {.row_seq = (uint32_t *)at.row_seq,
			    .seqs = (struct cuda_seq *)at.seqs,
			    .tiles = (struct cuda_tile *)at.tiles,
			    .decodes = (uint32_t *)at.decodes,
			    .pages = (uint64_t *)at.pages};

	for (uint32_t i = 0; i < shape->rows; i++) {
		tokens[i] = i < in->rows ? token_of(in, i) : 0;
		f.row_seq[i] = CUDA_NONE;
	}
	for (uint32_t i = 0; i < in->seq_count; i++)
		fill_seq(ctx, &f, i, &in->seqs[i]);
	fill_padding(&f, in, shape);
	fill_sampled(in, shape, (uint32_t *)at.sampled, (struct kernel_sample_params *)at.params);
	return bytes + f.page_count * sizeof(*f.pages);
}

void cuda_batch_given(const struct kernels_ctx *ctx, bool drawn, struct kernel_batch *out)
{
	*out = (struct kernel_batch){
		.tokens = ctx->batch.tokens,
		/* As the step before has left them there. */
		.drawn = ctx->drawn,
		/* A token of which step is meant: the operations hand it back, none looks inside.
		 */
		.seqs = (const struct kernel_seq *)(const void *)ctx->batch.seqs,
		.sampled = ctx->batch.sampled,
		.params = drawn ? ctx->batch.params : NULL,
		.out_tokens = ctx->drawn,
		.out_logprobs = (float *)(ctx->drawn + ctx->shape.sampled),
		.rows = ctx->shape.rows,
		.seq_count = ctx->shape.seqs,
		.sampled_count = ctx->shape.sampled,
	};
}
