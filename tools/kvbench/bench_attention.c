/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flash attention over pages: a whole causal prefill against the arithmetic limit (counting only
 * the keys that a row sees), and one decode step of one sequence against the time to read its K and
 * V. Each launch takes the next layer of the pages; where all of them fit into a cache, there is no
 * limit.
 */
#include "tools/kvbench/bench_device.h"

#include <base/bits.h>
#include <math.h>
#include <stdio.h>

#define ATTENTION_TOKENS_MAX 8192u

struct attention_shape {
	const char *name;
	uint32_t heads, kv_heads, head_dim;
};

struct attention_bench {
	struct bench_device d;
	double flops;
	double bytes_per_s;
	struct kvd_layout layout;
	uint32_t heads;
	uint64_t page[ATTENTION_TOKENS_MAX / BENCH_DEVICE_PAGE_TOKENS];
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

/* A device's context is for one shape of heads, and may try its kernels with as many rows. */
static int attention_ctx(struct attention_bench *a, uint32_t rows_max)
{
	const struct kernels_limits limits = {.rows_max = rows_max,
					      .k_max = 64,
					      .n_max = 64,
					      .heads_max = a->heads,
					      .kv_heads = a->layout.kv_heads,
					      .head_dim_max = a->layout.head_dim,
					      .vocab = 1,
					      .sampled_max = 1,
					      .sequences_max = 1,
					      .pages_max = ARRAY_LEN(a->page),
					      .page_tokens = BENCH_DEVICE_PAGE_TOKENS};

	return bench_device_ctx(&a->d, &limits);
}

static bool attention_open(struct attention_bench *a, const struct attention_shape *s,
			   uint32_t rows_max)
{
	size_t bytes = (size_t)ATTENTION_TOKENS_MAX * s->heads * s->head_dim * sizeof(*a->q);
	uint64_t page_bytes;
	char *pages;

	a->layout = (struct kvd_layout){
		.layers = bench_device_layers(ATTENTION_TOKENS_MAX, s->kv_heads, s->head_dim),
		.kv_heads = s->kv_heads,
		.head_dim = s->head_dim,
		.page_tokens = BENCH_DEVICE_PAGE_TOKENS,
		.element_bytes = sizeof(kernel_bf16)};
	a->heads = s->heads;
	if (attention_ctx(a, rows_max) < 0)
		return false;
	page_bytes = kvd_layout_page_bytes(&a->layout);
	pages = bench_device_memory(&a->d, ARRAY_LEN(a->page) * page_bytes);
	for (size_t i = 0; i < ARRAY_LEN(a->page); i++)
		a->page[i] = (uintptr_t)pages + i * page_bytes;
	a->q = bench_device_memory(&a->d, bytes);
	a->out = bench_device_memory(&a->d, bytes);
	return pages && a->q && a->out;
}

static void attention_run(void *arg, const struct kernel_batch *given, uint32_t turn)
{
	struct attention_bench *a = arg;
	const struct kernel_attention call = {.q = a->q,
					      .out = a->out,
					      .heads = a->heads,
					      .scale = 1 / sqrtf((float)a->layout.head_dim),
					      .layer = turn % a->layout.layers,
					      .layout = &a->layout,
					      .seqs = given->seqs,
					      .seq_count = given->seq_count};

	a->d.ops->attention(a->d.ctx, &call);
}

static double attention_seconds(struct attention_bench *a, uint32_t pos0, uint32_t rows)
{
	static const uint32_t tokens[ATTENTION_TOKENS_MAX];
	const struct kernel_seq seq = {.rows = rows, .pos0 = pos0, .pages = a->page};
	const struct kernel_batch batch = {
		.tokens = tokens, .seqs = &seq, .rows = rows, .seq_count = 1};
	const struct bench_load load = {attention_run, a, &batch};

	return bench_device_seconds(&a->d, &load);
}

static const char *attention_name(const struct attention_shape *s, bool prefill, uint32_t tokens)
{
	static char name[64];

	snprintf(name, sizeof(name), "%s %s %u", s->name, prefill ? "prefill" : "decode", tokens);
	return name;
}

static int attention_case(struct attention_bench *a, const struct attention_shape *s, bool prefill,
			  uint32_t tokens)
{
	const char *name = attention_name(s, prefill, tokens);
	double flop = 4.0 * a->heads * a->layout.head_dim * tokens * (tokens + 1.0) / 2;
	double bytes = 2.0 * tokens * a->layout.kv_heads * a->layout.head_dim * sizeof(*a->q);
	bool cached = bytes * a->layout.layers < BENCH_DEVICE_CACHED_BYTES;

	if (!bench_wanted(a->d.b, name))
		return 0;
	if (prefill)
		return bench_device_emit(&a->d, name, flop, attention_seconds(a, 0, tokens), true,
					 a->flops);
	return bench_device_emit(&a->d, name, bytes, attention_seconds(a, tokens - 1, 1), false,
				 cached ? 0 : a->bytes_per_s);
}

static int attention_shape_run(struct attention_bench *a, const struct attention_shape *s)
{
	uint32_t rows_max = 0;

	for (size_t i = 0; i < ARRAY_LEN(attention_tokens); i++) {
		if (bench_wanted(a->d.b, attention_name(s, false, attention_tokens[i])))
			rows_max = BITS_MAX(rows_max, 1u);
		if (bench_wanted(a->d.b, attention_name(s, true, attention_tokens[i])))
			rows_max = attention_tokens[i];
	}
	if (rows_max == 0)
		return 0;
	int status = attention_open(a, s, rows_max) ? 0 : 1;

	for (size_t i = 0; status == 0 && i < ARRAY_LEN(attention_tokens); i++) {
		status = attention_case(a, s, true, attention_tokens[i]);
		if (status == 0)
			status = attention_case(a, s, false, attention_tokens[i]);
	}
	bench_device_release(&a->d);
	return status;
}

/* The threads of the context that the shapes will have. */
static int attention_measure_limits(struct attention_bench *a)
{
	a->heads = 1;
	a->layout = (struct kvd_layout){1, 1, 64, BENCH_DEVICE_PAGE_TOKENS, sizeof(kernel_bf16)};
	if (attention_ctx(a, 1) < 0)
		return 1;
	uint32_t threads = kernels_ctx_threads(a->d.ctx);

	a->flops = bench_device_limits_flops(a->d.b, a->d.ops, threads);
	a->bytes_per_s = bench_device_limits_bytes_per_s(a->d.b, a->d.ops, threads);
	return bench_device_limit_rows(&a->d, a->flops, a->bytes_per_s);
}

int bench_attention_run(const struct bench *b)
{
	struct attention_bench a = {0};
	int status = 1;

	if (bench_device_open(&a.d, b, "attention") == 0)
		status = attention_measure_limits(&a);
	for (size_t i = 0; status == 0 && i < ARRAY_LEN(attention_shapes); i++)
		status = attention_shape_run(&a, &attention_shapes[i]);
	bench_device_close(&a.d);
	return status;
}
