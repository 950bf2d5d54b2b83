/* SPDX-License-Identifier: Apache-2.0 */
/* The context behind struct kernels_ctx: a team, and scratch memory that is allocated once. */
#ifndef KERNELS_CPU_CTX_H
#define KERNELS_CPU_CTX_H

#include <kernels/cpu/isa.h>
#include <kernels/cpu/team.h>
#include <kernels/kernels.h>

/* Fewer rows than this are not worth a fork of the team. */
#define CTX_FORK_ROWS 8u
/* Angles of one row: cosines, then sines. */
#define CTX_HEAD_DIM_MAX 1024u

struct kernels_ctx {
	const struct kernel_ops *ops;
	const struct isa *isa;
	struct team *team;
	struct kernels_limits limits;
	/* One piece per thread, 64-byte aligned; what it holds is the operation's affair. */
	char *scratch;
	size_t scratch_bytes;
	/* For attention: two partials per thread, and the running one of the caller. */
	struct attn_partial *partial;
	uint32_t partial_count;
	uint64_t steps;
};

static inline void *ctx_scratch(const struct kernels_ctx *ctx, uint32_t thread)
{
	return ctx->scratch + thread * ctx->scratch_bytes;
}

/* The operations, as the table names them. */
void op_gemm(struct kernels_ctx *ctx, const struct kernel_gemm *g);
void op_attention(struct kernels_ctx *ctx, const struct kernel_attention *a);
void op_rope_store(struct kernels_ctx *ctx, const struct kernel_rope_store *r);
void op_rows_embed(struct kernels_ctx *ctx, const struct kernel_weight *w, const uint32_t *tokens,
		   const uint32_t *drawn, float *x, uint32_t m);
void op_rows_rmsnorm(struct kernels_ctx *ctx, const float *x, const float *weight, float eps,
		     kernel_bf16 *out, uint32_t m, uint32_t d);
void op_rows_gather(struct kernels_ctx *ctx, const float *x, const uint32_t *rows, uint32_t count,
		    uint32_t d, float *out);
void op_sample(struct kernels_ctx *ctx, const float *logits, uint32_t m, uint32_t v,
	       const struct kernel_sample_params *params, uint32_t *out_tokens,
	       float *out_logprobs);
void op_copy_page(struct kernels_ctx *ctx, uint64_t dst, uint64_t src, uint64_t bytes);
bool eager_prepare(struct kernels_ctx *ctx, struct kernel_batch *out);
enum kernel_step eager_begin(struct kernels_ctx *ctx, const struct kernel_batch *in,
			     struct kernel_batch *out);
void eager_end(struct kernels_ctx *ctx);
int eager_wait(struct kernels_ctx *ctx, uint32_t left);
const char *eager_failure(const struct kernels_ctx *ctx);
const float *eager_view(struct kernels_ctx *ctx, const float *row, uint32_t count);
void eager_counts(const struct kernels_ctx *ctx, struct kernel_counts *out);
void *memory_new(const struct kernel_ops *ops, size_t bytes);
void memory_free(const struct kernel_ops *ops, void *memory, size_t bytes);
int memory_write(const struct kernel_ops *ops, void *dst, const void *src, size_t bytes);
uint64_t memory_room(const struct kernel_ops *ops);
/* Scratch that sampling wants of a thread. */
size_t op_sample_scratch_bytes(uint32_t vocab);

#endif
