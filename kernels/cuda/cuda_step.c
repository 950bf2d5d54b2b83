/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step on the device. Three streams, in this order:
 *
 *   in:      (computed, of the step before) -> the staging block to the device -> copied
 *   compute: (copied) (done, of the step before) -> kernels, or a graph -> computed
 *   out:     (computed) -> tokens and log probabilities to pinned memory -> done
 *
 * The device's block is one, so the copy waits for the kernels that read the last batch; the
 * staging blocks are a ring, and one is written again only when its step's `done` was seen. The
 * host is free from step_end() to step_wait(), which hands the results of the steps it waits for to
 * their callers; meanwhile it may begin the next step. What that step takes from this one's draws
 * never leaves the device: they lie in ctx->drawn until its own sampling, which waits, as all its
 * kernels do, until they were copied out.
 *
 * Before the first step the graphs are recorded. A tiny step is run for that first, so that every
 * kernel has been loaded and every product has its algorithm: neither may happen while recording.
 */
#include "base/assert.h"
#include "base/bits.h"
#include "base/mutant.h"
#include "kernels/cuda/cuda_ctx.h"
#include <errno.h>
#include <string.h>

/* Waits for the slot's step and hands its results out. */
static void slot_finish(struct kernels_ctx *ctx, struct cuda_slot *s)
{
	if (!s->busy)
		return;
	s->busy = false;
	if (KVD_MUTANT(step_not_awaited))
		(void)cudaEventQuery(s->done);
	else if (!cuda_ctx_check(ctx, cudaEventSynchronize(s->done), "a step"))
		return;
	if (!s->out_tokens)
		return;
	memcpy(s->out_tokens, s->drawn, s->sampled_count * sizeof(*s->out_tokens));
	memcpy(s->out_logprobs, s->drawn + s->sampled, s->sampled_count * sizeof(*s->out_logprobs));
}

static bool send(struct kernels_ctx *ctx, const struct cuda_slot *s, size_t bytes)
{
	const char *what = "copy of a batch to the device";

	if (!KVD_MUTANT(step_batch_overwritten) &&
	    !cuda_ctx_check(ctx, cudaStreamWaitEvent(ctx->in, ctx->computed, 0), what))
		return false;
	return cuda_ctx_check(ctx,
			      cudaMemcpyAsync(ctx->block, s->staging, bytes, cudaMemcpyHostToDevice,
					      ctx->in),
			      what) &&
	       cuda_ctx_check(ctx, cudaEventRecord(s->copied, ctx->in), what) &&
	       (KVD_MUTANT(step_before_its_batch) ||
		cuda_ctx_check(ctx, cudaStreamWaitEvent(ctx->compute, s->copied, 0), what)) &&
	       (!ctx->last_slot ||
		cuda_ctx_check(ctx, cudaStreamWaitEvent(ctx->compute, ctx->last_slot->done, 0),
			       what));
}

/* Takes the next slot for a batch of that shape and sends it. */
static bool start(struct kernels_ctx *ctx, const struct kernel_batch *in,
		  const struct cuda_shape *shape)
{
	struct cuda_slot *s = &ctx->slots[ctx->next_slot];

	ASSERT(ctx->state == CUDA_CTX_IDLE);
	if (!KVD_MUTANT(step_staging_reused))
		slot_finish(ctx, s);
	ctx->next_slot = (ctx->next_slot + 1) % CUDA_CTX_SLOTS;
	ctx->slot = s;
	ctx->shape = *shape;
	cuda_batch_place(shape, ctx->block, &ctx->batch);
	s->out_tokens = in->params ? in->out_tokens : NULL;
	s->out_logprobs = in->out_logprobs;
	s->sampled_count = in->sampled_count;
	s->sampled = shape->sampled;
	return send(ctx, s, cuda_batch_fill(ctx, in, shape, s->staging));
}

enum kernel_step cuda_step_begin(struct kernels_ctx *ctx, const struct kernel_batch *in,
				 struct kernel_batch *out)
{
	struct cuda_shape need = cuda_batch_shape(ctx, in);
	struct cuda_graph *graph = cuda_graph_find(ctx, &need);

	ASSERT(need.rows <= ctx->limit.rows && need.seqs <= ctx->limit.seqs);
	ASSERT(need.sampled <= ctx->limit.sampled && need.splits <= ctx->limit.splits);
	/* Of a context that has failed nothing is to be called. */
	if (!cuda_ctx_enter(ctx) || !start(ctx, in, graph ? &graph->shape : &need))
		return KERNEL_STEP_REPLAY;
	ctx->graph = graph;
	if (graph) {
		ctx->state = CUDA_CTX_REPLAY;
		ctx->counts.graph_steps++;
		ctx->counts.padding_rows += graph->shape.rows - in->rows;
		return KERNEL_STEP_REPLAY;
	}
	ctx->state = CUDA_CTX_EAGER;
	ctx->counts.eager_steps++;
	cuda_batch_given(ctx, in->params, out);
	return KERNEL_STEP_RUN;
}

static void finish(struct kernels_ctx *ctx, struct cuda_slot *s)
{
	const char *what = "copy of results to the host";

	s->busy = cuda_ctx_check(ctx, cudaEventRecord(ctx->computed, ctx->compute), what) &&
		  (KVD_MUTANT(step_results_early) ||
		   cuda_ctx_check(ctx, cudaStreamWaitEvent(ctx->out, ctx->computed, 0), what)) &&
		  (!s->out_tokens || !s->sampled ||
		   cuda_ctx_check(ctx,
				  cudaMemcpyAsync(s->drawn, ctx->drawn,
						  2 * s->sampled * sizeof(*s->drawn),
						  cudaMemcpyDeviceToHost, ctx->out),
				  what)) &&
		  cuda_ctx_check(ctx, cudaEventRecord(s->done, ctx->out), what);
	ctx->last_slot = s;
}

void cuda_step_end(struct kernels_ctx *ctx)
{
	enum cuda_ctx_state state = ctx->state;

	ctx->state = CUDA_CTX_IDLE;
	if (state == CUDA_CTX_RECORD) {
		cuda_graph_recorded(ctx);
		return;
	}
	if (ctx->failed)
		return;
	if (state == CUDA_CTX_REPLAY &&
	    !cuda_ctx_check(ctx, cudaGraphLaunch(ctx->graph->exec, ctx->compute), "a graph"))
		return;
	finish(ctx, ctx->slot);
}

int cuda_step_wait(struct kernels_ctx *ctx, uint32_t left)
{
	uint32_t oldest = CUDA_CTX_SLOTS - BITS_MIN(left, CUDA_CTX_SLOTS);

	if (cuda_ctx_enter(ctx))
		for (uint32_t i = 0; i < oldest; i++)
			slot_finish(ctx, &ctx->slots[(ctx->next_slot + i) % CUDA_CTX_SLOTS]);
	return ctx->failed ? -EIO : 0;
}

/* One row of padding, with one of everything. */
static bool warm_up(struct kernels_ctx *ctx)
{
	const struct kernel_batch none = {0};
	const struct cuda_shape one = {1, 1, 1, 1, ctx->limit.sampled > 0, 1};

	ctx->warmed = true;
	if (!start(ctx, &none, &one))
		return false;
	ctx->state = CUDA_CTX_EAGER;
	return true;
}

bool cuda_step_prepare(struct kernels_ctx *ctx, struct kernel_batch *out)
{
	bool more;

	if (!ctx->limits.graphs || !cuda_ctx_enter(ctx))
		return false;
	if (!ctx->warmed)
		more = warm_up(ctx);
	else
		more = cuda_step_wait(ctx, 0) == 0 && cuda_graph_record(ctx);
	if (more)
		cuda_batch_given(ctx, true, out);
	return more;
}
