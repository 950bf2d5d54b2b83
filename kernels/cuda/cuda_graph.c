/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs: a whole step, recorded once for each of a ladder of shapes and replayed for any batch
 * that fits. Lengths, pages and draws are read from the step's block, so a replay has the bits of
 * an eager step.
 *
 * Two ladders by number of rows: steps in which each sequence has but a few rows (no tiles of
 * attention), and mixed ones. A graph of r rows has room for r sequences, as far as a step can have
 * them. A batch goes to the smallest that it fits, unless that would more than double its rows (16
 * rows of padding cost nothing); else it runs eagerly. So does a decode of sequences longer than
 * CUDA_GRAPH_SPLITS splits: its kernels take long enough to hide their launches, and a graph would
 * launch the blocks of the longest in every step.
 *
 * Kernels are all that a graph holds: its memory is the context's own, shared by all of them. The
 * largest is recorded first, so that what the driver keeps for one is enough for the others.
 */
#include "base/bits.h"
#include "kernels/cuda/cuda_ctx.h"

#define CUDA_GRAPH_SPLITS 16u
#define CUDA_GRAPH_PADDING_FREE 16u

static uint32_t decode_after(uint32_t rows)
{
	if (rows < 8)
		return rows ? 2 * rows : 1;
	return rows + (rows < 64 ? 8 : rows < 256 ? 16 : 64);
}

static uint32_t mixed_after(uint32_t rows)
{
	if (rows < 128)
		return rows + 16;
	if (rows < 192)
		return rows + 32;
	if (rows < 1024)
		return rows + (rows < 512 ? 64 : 128);
	return 2 * rows;
}

static struct cuda_shape decode_shape(const struct kernels_ctx *ctx, uint32_t rows)
{
	return (struct cuda_shape){.rows = rows,
				   .seqs = rows,
				   .decodes = rows,
				   .sampled = BITS_MIN(rows, ctx->limit.sampled),
				   .splits = BITS_MIN(ctx->limit.splits, CUDA_GRAPH_SPLITS)};
}

static struct cuda_shape mixed_shape(const struct kernels_ctx *ctx, uint32_t rows)
{
	struct cuda_shape s = decode_shape(ctx, rows);

	s.seqs = s.decodes = BITS_MIN(rows, ctx->limit.seqs);
	s.sampled = BITS_MIN(s.seqs, ctx->limit.sampled);
	s.tiles = rows / ctx->tile_rows + BITS_MIN(s.seqs, rows / (ctx->decode_rows + 1));
	return s;
}

/* The next step of a ladder that ends at `last`; 0 behind it. */
static uint32_t climb(uint32_t rows, uint32_t (*after)(uint32_t rows), uint32_t last)
{
	return rows >= last ? 0 : BITS_MIN(after(rows), last);
}

void cuda_graph_plan(struct kernels_ctx *ctx)
{
	uint32_t decode_last = BITS_MIN(ctx->limit.seqs, ctx->limit.rows);
	uint32_t decode = climb(0, decode_after, decode_last);
	uint32_t mixed = climb(0, mixed_after, ctx->limit.rows);

	while ((decode || mixed) && ctx->graph_count < CUDA_CTX_GRAPHS) {
		struct cuda_graph *g = &ctx->graphs[ctx->graph_count++];

		if (decode && (!mixed || decode <= mixed)) {
			g->shape = decode_shape(ctx, decode);
			decode = climb(decode, decode_after, decode_last);
		} else {
			g->shape = mixed_shape(ctx, mixed);
			mixed = climb(mixed, mixed_after, ctx->limit.rows);
		}
	}
	ctx->graph_next = ctx->graph_count;
}

void cuda_graph_fini(struct kernels_ctx *ctx)
{
	for (uint32_t i = 0; i < ctx->graph_count; i++)
		if (ctx->graphs[i].exec)
			(void)cudaGraphExecDestroy(ctx->graphs[i].exec);
}

static bool fits(const struct cuda_shape *need, const struct cuda_shape *s)
{
	return need->rows <= s->rows && need->seqs <= s->seqs && need->tiles <= s->tiles &&
	       need->decodes <= s->decodes && need->sampled <= s->sampled &&
	       need->splits <= s->splits;
}

struct cuda_graph *cuda_graph_find(struct kernels_ctx *ctx, const struct cuda_shape *need)
{
	for (uint32_t i = 0; i < ctx->graph_count; i++) {
		struct cuda_graph *g = &ctx->graphs[i];
		uint32_t padding = g->shape.rows - need->rows;

		if (!g->exec || !fits(need, &g->shape))
			continue;
		return padding <= CUDA_GRAPH_PADDING_FREE || padding <= need->rows ? g : NULL;
	}
	return NULL;
}

bool cuda_graph_record(struct kernels_ctx *ctx)
{
	/* Other threads may go on to allocate and to copy. */
	if (ctx->graph_next == 0 ||
	    !cuda_ctx_check(ctx,
			    cudaStreamBeginCapture(ctx->compute, cudaStreamCaptureModeThreadLocal),
			    "recording of a step"))
		return false;
	ctx->graph = &ctx->graphs[--ctx->graph_next];
	ctx->shape = ctx->graph->shape;
	cuda_batch_place(&ctx->shape, ctx->block, &ctx->batch);
	ctx->state = CUDA_CTX_RECORD;
	return true;
}

void cuda_graph_recorded(struct kernels_ctx *ctx)
{
	cudaGraph_t graph = NULL;
	cudaError_t e = cudaStreamEndCapture(ctx->compute, &graph);

	if (!cuda_ctx_check(ctx, e, "recording of a step"))
		goto out;
	e = cudaGraphInstantiate(&ctx->graph->exec, graph, 0);
	if (e == cudaErrorMemoryAllocation) {
		/* No room for more: the others serve, and what they do not is run eagerly. */
		(void)cudaGetLastError();
		ctx->graph->exec = NULL;
		ctx->graph_next = 0;
		goto out;
	}
	if (cuda_ctx_check(ctx, e, "making of a graph") &&
	    cuda_ctx_check(ctx, cudaGraphUpload(ctx->graph->exec, ctx->compute),
			   "upload of a graph"))
		ctx->counts.graphs++;
out:
	if (graph)
		(void)cudaGraphDestroy(graph);
}
