/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flash attention over pages: a whole causal prefill against the arithmetic limit (counting only
 * the keys that a row sees), and one decode step against the time to read its K and V.
 */
#include "tools/kvbench/bench.h"
#include "tools/kvbench/limits.h"

#include <base/bits.h>
#include <base/units.h>
#include <kernels/kernels.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define ATTENTION_PAGE_TOKENS 64u
#define ATTENTION_TOKENS_MAX 8192u
#define ATTENTION_SAMPLES_MAX 1001u

struct attention_shape {
	const char *name;
	uint32_t heads, kv_heads, head_dim;
};

struct attention_bench {
	const struct bench *b;
	const struct kernel_ops *ops;
	struct kernels_ctx *ctx;
	double flops;
	double bytes_per_s;
	struct kvd_layout layout;
	uint32_t heads;
	char *pages;
	uint64_t page[ATTENTION_TOKENS_MAX / ATTENTION_PAGE_TOKENS];
	kernel_bf16 *q;
	kernel_bf16 *out;
};

static const struct attention_shape attention_shapes[] = {
	{"hd64 9/3", 9, 3, 64},
	{"hd64 32/8", 32, 8, 64},
	{"hd128 16/8", 16, 8, 128},
	{"hd256 4/1", 4, 1, 256},
};
static const uint32_t attention_tokens[] = {512, 2048, 8192};

/* Ordinary numbers, of both signs. */
static void attention_fill(kernel_bf16 *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		x[i] = (kernel_bf16)((i * 31 & 32 ? 0xbf00 : 0x3f00) + i * 7919 % 251);
}

static int attention_open(struct attention_bench *a, const struct attention_shape *s)
{
	size_t elements = (size_t)ATTENTION_TOKENS_MAX * s->heads * s->head_dim;
	uint64_t page_bytes;

	a->layout = (struct kvd_layout){1, s->kv_heads, s->head_dim, ATTENTION_PAGE_TOKENS,
					sizeof(kernel_bf16)};
	a->heads = s->heads;
	page_bytes = kvd_layout_page_bytes(&a->layout);
	a->pages = aligned_alloc(64, ARRAY_LEN(a->page) * page_bytes);
	a->q = aligned_alloc(64, elements * sizeof(*a->q));
	a->out = aligned_alloc(64, elements * sizeof(*a->out));
	if (!a->pages || !a->q || !a->out)
		return -1;
	attention_fill((kernel_bf16 *)a->pages, ARRAY_LEN(a->page) * page_bytes / 2);
	attention_fill(a->q, elements);
	for (size_t i = 0; i < ARRAY_LEN(a->page); i++)
		a->page[i] = (uint64_t)(uintptr_t)(a->pages + i * page_bytes);
	return 0;
}

static void attention_close(struct attention_bench *a)
{
	free(a->pages);
	free(a->q);
	free(a->out);
}

static double attention_seconds(const struct attention_bench *a, uint32_t pos0, uint32_t rows)
{
	struct kernel_seq seq = {.rows = rows, .pos0 = pos0, .pages = a->page};
	struct kernel_attention call = {.q = a->q,
					.out = a->out,
					.heads = a->heads,
					.scale = 1 / sqrtf((float)a->layout.head_dim),
					.layout = &a->layout,
					.seqs = &seq,
					.seq_count = 1};
	uint32_t repeat = BITS_MIN(a->b->repeat ? a->b->repeat : 15, ATTENTION_SAMPLES_MAX);
	double seconds[ATTENTION_SAMPLES_MAX];

	a->ops->attention(a->ctx, &call);
	for (uint32_t i = 0; i < repeat; i++) {
		uint64_t start_ns = units_now_ns();

		a->ops->attention(a->ctx, &call);
		seconds[i] = (double)(units_now_ns() - start_ns) / 1e9;
	}
	return bench_median(seconds, repeat);
}

static void attention_prefill(const struct attention_bench *a, const char *shape, uint32_t tokens)
{
	double flop = 4.0 * a->heads * a->layout.head_dim * tokens * (tokens + 1.0) / 2;
	char name[64];
	double rate;

	snprintf(name, sizeof(name), "%s prefill %u", shape, tokens);
	if (!bench_wanted(a->b, name))
		return;
	rate = flop / attention_seconds(a, 0, tokens);
	bench_emit(a->b, &(struct bench_row){.bench = "attention",
					     .name = name,
					     .value = rate / 1e9,
					     .unit = "GFLOP/s",
					     .limit = a->flops / 1e9,
					     .fraction = rate / a->flops});
}

static void attention_decode(const struct attention_bench *a, const char *shape, uint32_t tokens)
{
	double bytes = 2.0 * tokens * a->layout.kv_heads * a->layout.head_dim * sizeof(*a->q);
	char name[64];
	double rate, limit;

	snprintf(name, sizeof(name), "%s decode %u", shape, tokens);
	if (!bench_wanted(a->b, name))
		return;
	rate = bytes / attention_seconds(a, tokens - 1, 1);
	limit = bytes < LIMITS_CACHED_BYTES ? 0 : a->bytes_per_s;
	bench_emit(a->b, &(struct bench_row){.bench = "attention",
					     .name = name,
					     .value = rate / 1e9,
					     .unit = "GB/s",
					     .limit = limit / 1e9,
					     .fraction = limit > 0 ? rate / limit : 0});
}

static int attention_shape_run(struct attention_bench *a, const struct attention_shape *s)
{
	int err = attention_open(a, s);

	for (size_t i = 0; !err && i < ARRAY_LEN(attention_tokens); i++) {
		attention_prefill(a, s->name, attention_tokens[i]);
		attention_decode(a, s->name, attention_tokens[i]);
	}
	attention_close(a);
	return err;
}

int bench_attention_run(const struct bench *b)
{
	struct kernels_limits limits = {.rows_max = ATTENTION_TOKENS_MAX,
					.k_max = 64,
					.heads_max = 64,
					.head_dim_max = 256};
	struct attention_bench a = {.b = b, .ops = kernels_cpu(NULL)};
	int err = kernels_ctx_new(a.ops, &limits, b->threads, &a.ctx);
	uint32_t threads;

	if (!err) {
		threads = kernels_ctx_threads(a.ctx);
		a.flops = limits_bf16_flops(threads);
		a.bytes_per_s = limits_read_bytes_per_s(threads);
	}
	for (size_t i = 0; !err && i < ARRAY_LEN(attention_shapes); i++)
		err = attention_shape_run(&a, &attention_shapes[i]);
	kernels_ctx_free(a.ctx);
	if (err)
		fprintf(stderr, "kvbench: attention: not enough memory\n");
	return err ? 1 : 0;
}
