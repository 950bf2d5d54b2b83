/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations: each queues its kernel on the compute stream, or puts it into the graph that is
 * being recorded. After a failure they do nothing; step_wait() tells.
 */
#include "base/assert.h"
#include "kernels/cuda/attn.h"
#include "kernels/cuda/cuda_ctx.h"

static bool is_fp16(enum kernel_type type)
{
	return type == KERNEL_FP16;
}

static cudaDataType_t data_type(const struct kernel_weight *w)
{
	return is_fp16(w->type) ? CUDA_R_16F : CUDA_R_16BF;
}

static void product(struct kernels_ctx *ctx, const struct kernel_gemm *g, void *y, uint32_t ldy,
		    cudaDataType_t out)
{
	const struct cuda_product p = {.w = g->w->data,
				       .x = g->x,
				       .y = y,
				       .bias = g->bias,
				       .in = data_type(g->w),
				       .out = out,
				       .m = g->m,
				       .n = g->w->n,
				       .k = g->w->k,
				       .ldw = cuda_memory_weight_ld(g->w->k),
				       .ldx = g->ldx,
				       .ldy = ldy,
				       .add = g->out == KERNEL_OUT_ADD};

	cuda_ctx_check_gemm(ctx, cuda_gemm_run(&ctx->gemm, &p), &p);
}

/* By way of f32 scratch: what the library's epilogue cannot do, and fp16, which it lets run over.
 */
static void product_and(struct kernels_ctx *ctx, const struct kernel_gemm *g)
{
	uint32_t n = g->w->n;
	bool fp16 = is_fp16(g->w->type);

	ASSERT(g->m <= ctx->limits.rows_max && n <= ctx->limits.n_max);
	product(ctx, g, ctx->scratch, n, CUDA_R_32F);
	if (ctx->failed)
		return;
	if (g->out == KERNEL_OUT_SWIGLU)
		cuda_ctx_check(
			ctx,
			cuda_swiglu(ctx->compute, ctx->scratch, g->y, g->m, n / 2, g->ldy, fp16),
			"swiglu");
	else
		cuda_ctx_check(ctx,
			       cuda_round(ctx->compute, ctx->scratch, g->y, g->m, n, g->ldy, fp16),
			       "rounding");
}

void cuda_ops_gemm(struct kernels_ctx *ctx, const struct kernel_gemm *g)
{
	if (ctx->failed || g->m == 0)
		return;
	if (g->out == KERNEL_OUT_SWIGLU ||
	    (g->out == KERNEL_OUT_HALF && (g->bias || is_fp16(g->w->type))))
		product_and(ctx, g);
	else
		product(ctx, g, g->y, g->ldy,
			g->out == KERNEL_OUT_HALF ? data_type(g->w) : CUDA_R_32F);
}

void cuda_ops_embed(struct kernels_ctx *ctx, const struct kernel_weight *w, const uint32_t *tokens,
		    const uint32_t *drawn, float *x, uint32_t m)
{
	if (!ctx->failed && m)
		cuda_ctx_check(ctx,
			       cuda_embed(ctx->compute, w->data, cuda_memory_weight_ld(w->k),
					  tokens, drawn, x, m, w->k, is_fp16(w->type)),
			       "embedding");
}

void cuda_ops_rmsnorm(struct kernels_ctx *ctx, const float *x, const float *weight, float eps,
		      kernel_half *out, uint32_t m, uint32_t d)
{
	if (!ctx->failed && m)
		cuda_ctx_check(ctx,
			       cuda_rmsnorm(ctx->compute, x, weight, eps, out, m, d,
					    is_fp16(ctx->limits.type)),
			       "norm");
}

void cuda_ops_rope_store(struct kernels_ctx *ctx, const struct kernel_rope_store *r)
{
	const struct kvd_layout *l = r->layout;
	const struct cuda_rope rope = {.qkv = r->qkv,
				       .q = r->q,
				       .inv_freq = r->inv_freq,
				       .q_norm = r->q_norm,
				       .k_norm = r->k_norm,
				       .row_seq = ctx->batch.row_seq,
				       .seqs = ctx->batch.seqs,
				       .pages = ctx->batch.pages,
				       .layer_k_offset = kvd_layout_k(l, r->layer, 0),
				       .head_bytes = kvd_layout_head_bytes(l),
				       .norm_eps = r->norm_eps,
				       .rows = ctx->shape.rows,
				       .heads = r->heads,
				       .kv_heads = l->kv_heads,
				       .head_dim = l->head_dim,
				       .rope_dim = r->rope_dim,
				       .page_tokens = l->page_tokens};

	ASSERT((const void *)r->seqs == (const void *)ctx->batch.seqs);
	ASSERT(l->page_tokens == ctx->limits.page_tokens);
	if (!ctx->failed)
		cuda_ctx_check(ctx, cuda_rope_store(ctx->compute, &rope), "rope and store");
}

void cuda_ops_attention(struct kernels_ctx *ctx, const struct kernel_attention *a)
{
	const struct kvd_layout *l = a->layout;
	const struct cuda_attention att = {.q = a->q,
					   .out = a->out,
					   .fp16 = is_fp16(ctx->limits.type),
					   .heads = a->heads,
					   .kv_heads = l->kv_heads,
					   .head_dim = l->head_dim,
					   .page_tokens = l->page_tokens,
					   .window = a->window,
					   .scale = a->scale,
					   .layer_k_offset = kvd_layout_k(l, a->layer, 0),
					   .head_bytes = kvd_layout_head_bytes(l),
					   .seqs = ctx->batch.seqs,
					   .pages = ctx->batch.pages,
					   .tiles = ctx->batch.tiles,
					   .tile_count = ctx->shape.tiles,
					   .decodes = ctx->batch.decodes,
					   .decode_count = ctx->shape.decodes,
					   .splits_max = ctx->shape.splits,
					   .workspace = ctx->partials};

	ASSERT((const void *)a->seqs == (const void *)ctx->batch.seqs);
	/* The tiles were cut for this. */
	ASSERT(a->heads == ctx->limits.heads_max && l->kv_heads == ctx->limits.kv_heads);
	if (ctx->failed)
		return;
	cudaError_t e = cuda_choice_hopper(&ctx->choice, ctx->shape.rows)
				? cuda_attn_prefill_sm90(ctx->compute, &att)
				: cuda_attn_prefill(ctx->compute, &att);
	if (cuda_ctx_check(ctx, e, "attention of prompts"))
		cuda_ctx_check(ctx, cuda_attn_decode(ctx->compute, &att), "attention of rows");
}

void cuda_ops_gather(struct kernels_ctx *ctx, const float *x, const uint32_t *rows, uint32_t count,
		     uint32_t d, float *out)
{
	if (!ctx->failed && count)
		cuda_ctx_check(ctx, cuda_gather(ctx->compute, x, rows, count, d, out), "gather");
}

void cuda_ops_sample(struct kernels_ctx *ctx, const float *logits, uint32_t m, uint32_t v,
		     const struct kernel_sample_params *params, uint32_t *out_tokens,
		     float *out_logprobs)
{
	ASSERT(m <= ctx->shape.sampled);
	if (!ctx->failed && m)
		cuda_ctx_check(ctx,
			       cuda_sample(ctx->compute, logits, ctx->batch.sampled, params, m, v,
					   out_tokens, out_logprobs),
			       "sampling");
}
