/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPU's op tables and their context. A table is the common operations (op_*.c) over one
 * instruction set's inner kernels; the choice is made once, when the engine starts. The context
 * owns the thread team and every byte of scratch, sized from the limits: operations never
 * allocate.
 */
#include "kernels/cpu/amx/amx.h"
#include "kernels/cpu/avx512/avx512.h"
#include "kernels/cpu/cpuid.h"
#include "kernels/cpu/ctx.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/portable/portable.h"

#include <base/assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct table {
	const char *isa_name;
	bool (*usable)(void);
	const struct isa *isa;
	struct kernel_ops ops;
};

static bool always(void)
{
	return true;
}

static int ctx_new(const struct kernel_ops *ops, const struct kernels_limits *limits,
		   uint32_t threads, struct kernels_ctx **out);
static void ctx_free(struct kernels_ctx *ctx);
static size_t ctx_bytes(const struct kernels_limits *limits, uint32_t threads);
static uint32_t ctx_threads(const struct kernels_ctx *ctx);

#define TABLE_OPS(table_name)                                                                      \
	{                                                                                          \
		.name = (table_name), .numerics_id = ISA_NUMERICS(table_name),                     \
		.layout = KVD_LAYOUT_CPU_BF16, .memory_new = memory_new,                           \
		.memory_free = memory_free, .memory_write = memory_write,                          \
		.memory_room = memory_room, .ctx_new = ctx_new, .ctx_free = ctx_free,              \
		.ctx_bytes = ctx_bytes, .ctx_threads = ctx_threads, .ctx_counts = eager_counts,    \
		.step_prepare = eager_prepare, .step_begin = eager_begin, .step_end = eager_end,   \
		.step_wait = eager_wait, .failure = eager_failure, .view = eager_view,             \
		.weight_bytes = pack_bytes, .weight_pack = pack_rows, .gemm = op_gemm,             \
		.embed = op_rows_embed, .rmsnorm = op_rows_rmsnorm, .rope_store = op_rope_store,   \
		.attention = op_attention, .gather = op_rows_gather, .sample = op_sample,          \
		.page_copy = op_copy_page,                                                         \
	}

/* Best first. */
static const struct table tables[] = {
#ifdef KERNELS_AMX
	{"amx", cpuid_has_amx_bf16, &amx_isa, TABLE_OPS("cpu-amx-bf16")},
#endif
#ifdef KERNELS_AVX512
	{"avx512bf16", cpuid_has_avx512bf16, &avx512_isa, TABLE_OPS("cpu-avx512bf16")},
#endif
	{"portable", always, &portable_isa, TABLE_OPS("cpu-portable")},
};

const struct kernel_ops *kernels_cpu(const char *isa)
{
	for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
		if (isa && strcmp(isa, tables[i].isa_name) != 0)
			continue;
		if (tables[i].usable())
			return &tables[i].ops;
	}
	return NULL;
}

static size_t scratch_bytes(const struct isa *isa, const struct kernels_limits *l)
{
	size_t bytes = BITS_MAX(isa->gemm_scratch_bytes, isa->attn_scratch_bytes(l->head_dim_max));

	bytes = BITS_MAX(bytes, op_sample_scratch_bytes(l->vocab));
	bytes = BITS_MAX(bytes, 2 * CTX_HEAD_DIM_MAX * sizeof(float));
	return bits_align_up(bytes, 64);
}

static size_t partial_bytes(const struct kernels_limits *l)
{
	return ATTN_ROWS * attn_stride(l->head_dim_max) * sizeof(float);
}

static uint32_t partial_count(uint32_t threads)
{
	return 8 * threads + 1;
}

static size_t arena_bytes(const struct isa *isa, const struct kernels_limits *l, uint32_t threads)
{
	return threads * scratch_bytes(isa, l) + partial_count(threads) * partial_bytes(l);
}

static size_t ctx_bytes(const struct kernels_limits *limits, uint32_t threads)
{
	size_t arena = 0;

	if (threads == 0)
		threads = team_cores();
	for (size_t i = 0; i < ARRAY_LEN(tables); i++)
		arena = BITS_MAX(arena, arena_bytes(tables[i].isa, limits, threads));
	return sizeof(struct kernels_ctx) + arena +
	       partial_count(threads) * sizeof(struct attn_partial);
}

static int ctx_alloc(struct kernels_ctx *ctx)
{
	uint32_t threads = team_threads(ctx->team);
	char *at;

	ctx->scratch_bytes = scratch_bytes(ctx->isa, &ctx->limits);
	ctx->partial_count = partial_count(threads);
	ctx->partial = calloc(ctx->partial_count, sizeof(ctx->partial[0]));
	ctx->scratch = aligned_alloc(64, arena_bytes(ctx->isa, &ctx->limits, threads));
	if (!ctx->partial || !ctx->scratch)
		return -ENOMEM;
	at = ctx->scratch + threads * ctx->scratch_bytes;
	for (uint32_t i = 0; i < ctx->partial_count; i++)
		ctx->partial[i].o = (float *)(at + i * partial_bytes(&ctx->limits));
	return 0;
}

static int ctx_new(const struct kernel_ops *ops, const struct kernels_limits *limits,
		   uint32_t threads, struct kernels_ctx **out)
{
	struct kernels_ctx *ctx;
	int rc;

	if (limits->head_dim_max == 0 || limits->head_dim_max > CTX_HEAD_DIM_MAX)
		return -EINVAL;
	if (limits->type != KERNEL_BF16)
		return -ENOTSUP;
	ctx = calloc(1, sizeof(*ctx));
	if (!ctx)
		return -ENOMEM;
	ctx->ops = ops;
	ctx->isa = CONTAINER_OF(ops, struct table, ops)->isa;
	ctx->limits = *limits;
	rc = team_new(threads, &ctx->team);
	if (rc == 0)
		rc = ctx_alloc(ctx);
	if (rc < 0) {
		ctx_free(ctx);
		return rc;
	}
	*out = ctx;
	return 0;
}

static void ctx_free(struct kernels_ctx *ctx)
{
	team_free(ctx->team);
	free(ctx->partial);
	free(ctx->scratch);
	free(ctx);
}

static uint32_t ctx_threads(const struct kernels_ctx *ctx)
{
	return team_threads(ctx->team);
}
