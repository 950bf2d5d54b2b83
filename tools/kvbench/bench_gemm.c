/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products at the shapes of small models, for one row (decode), and for chunks. Above eight
 * rows the limit is arithmetic, below it is reading the weights; the limits themselves are rows
 * too: FLOP/s, read and memcpy for one thread and for all.
 */
#include "tools/kvbench/bench.h"
#include "tools/kvbench/limits.h"

#include <base/bits.h>
#include <base/units.h>
#include <kernels/kernels.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GEMM_ROWS_MAX 512u
#define GEMM_READ_ROWS 8u /* up to so many rows a product reads rather than computes */
#define GEMM_SAMPLES_MAX 1001u

struct gemm_shape {
	uint32_t n, k;
	enum kernel_gemm_out out;
};

struct gemm_bench {
	const struct bench *b;
	const struct kernel_ops *ops;
	struct kernels_ctx *ctx;
	double flops;
	double bytes_per_s;
	char *memory; /* weights, then x, then y, of the largest shape */
};

static const struct gemm_shape gemm_shapes[] = {
	{960, 576, KERNEL_OUT_F32},  {576, 576, KERNEL_OUT_ADD},   {3072, 576, KERNEL_OUT_SWIGLU},
	{576, 1536, KERNEL_OUT_ADD}, {2048, 2048, KERNEL_OUT_ADD}, {49152, 576, KERNEL_OUT_F32},
};
static const uint32_t gemm_rows[] = {1, 8, 32, 128, 512};

static size_t gemm_weight_bytes(const struct kernel_ops *ops, const struct gemm_shape *s)
{
	enum kernel_weight_kind kind =
		s->out == KERNEL_OUT_SWIGLU ? KERNEL_WEIGHT_GATE_UP : KERNEL_WEIGHT_PLAIN;

	return bits_align_up(ops->weight_bytes(kind, s->n, s->k), 64);
}

static size_t gemm_x_bytes(const struct gemm_shape *s)
{
	return (size_t)GEMM_ROWS_MAX * s->k * sizeof(kernel_bf16);
}

static size_t gemm_bytes(const struct kernel_ops *ops, const struct gemm_shape *s)
{
	return gemm_weight_bytes(ops, s) + gemm_x_bytes(s) +
	       (size_t)GEMM_ROWS_MAX * s->n * sizeof(float);
}

/* Ordinary numbers: what the arithmetic costs may depend on them. */
static void gemm_fill(kernel_bf16 *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		x[i] = (kernel_bf16)((i & 1 ? 0xbc00 : 0x3c00) + i * 7919 % 997);
}

static double gemm_seconds(const struct gemm_bench *g, const struct kernel_gemm *call)
{
	double seconds[GEMM_SAMPLES_MAX];
	uint32_t repeat = BITS_MIN(g->b->repeat ? g->b->repeat : 31, GEMM_SAMPLES_MAX);

	g->ops->gemm(g->ctx, call);
	for (uint32_t i = 0; i < repeat; i++) {
		uint64_t start_ns = units_now_ns();

		g->ops->gemm(g->ctx, call);
		seconds[i] = (double)(units_now_ns() - start_ns) / 1e9;
	}
	return bench_median(seconds, repeat);
}

static void gemm_case(const struct gemm_bench *g, const struct gemm_shape *s, uint32_t m)
{
	struct kernel_weight w = {.kind = s->out == KERNEL_OUT_SWIGLU ? KERNEL_WEIGHT_GATE_UP
								      : KERNEL_WEIGHT_PLAIN,
				  .n = s->n,
				  .k = s->k,
				  .data = g->memory,
				  .bytes = gemm_weight_bytes(g->ops, s)};
	struct kernel_gemm call = {.w = &w,
				   .x = (kernel_bf16 *)(g->memory + w.bytes),
				   .y = g->memory + w.bytes + gemm_x_bytes(s),
				   .m = m,
				   .ldx = s->k,
				   .ldy = s->n,
				   .out = s->out};
	bool reads = m <= GEMM_READ_ROWS;
	double work = reads ? (double)w.bytes : 2.0 * m * s->n * s->k;
	char name[64];

	snprintf(name, sizeof(name), "n%u k%u m%u", s->n, s->k, m);
	if (!bench_wanted(g->b, name))
		return;
	gemm_fill(g->memory ? (kernel_bf16 *)g->memory : NULL, (w.bytes + gemm_x_bytes(s)) / 2);
	memset(call.y, 0, (size_t)m * s->n * sizeof(float));
	double rate = work / gemm_seconds(g, &call);
	double limit = reads ? g->bytes_per_s : g->flops;

	if (reads && w.bytes < LIMITS_CACHED_BYTES)
		limit = 0;

	bench_emit(g->b, &(struct bench_row){.bench = "gemm",
					     .name = name,
					     .value = rate / 1e9,
					     .unit = reads ? "GB/s" : "GFLOP/s",
					     .limit = limit / 1e9,
					     .fraction = limit > 0 ? rate / limit : 0});
}

static void gemm_limits(const struct bench *b, uint32_t threads)
{
	const struct {
		const char *name, *unit;
		double (*measure)(uint32_t threads);
	} limits[] = {
		{"bf16", "GFLOP/s", limits_bf16_flops},
		{"fp32", "GFLOP/s", limits_f32_flops},
		{"int8", "GOP/s", limits_int8_ops},
		{"read", "GB/s", limits_read_bytes_per_s},
		{"memcpy", "GB/s", limits_copy_bytes_per_s},
	};

	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		char name[64];

		snprintf(name, sizeof(name), "limit %s, %u threads", limits[i].name, threads);
		if (bench_wanted(b, name))
			bench_emit(b, &(struct bench_row){.bench = "gemm",
							  .name = name,
							  .value = limits[i].measure(threads) / 1e9,
							  .unit = limits[i].unit});
	}
}

static int gemm_open(struct gemm_bench *g, const struct bench *b)
{
	struct kernels_limits limits = {
		.rows_max = GEMM_ROWS_MAX, .k_max = 8192, .heads_max = 64, .head_dim_max = 64};
	size_t bytes = 0;

	*g = (struct gemm_bench){.b = b, .ops = kernels_cpu(NULL)};
	for (size_t i = 0; i < ARRAY_LEN(gemm_shapes); i++)
		bytes = BITS_MAX(bytes, gemm_bytes(g->ops, &gemm_shapes[i]));
	g->memory = aligned_alloc(64, bits_align_up(bytes, 64));
	if (!g->memory || kernels_ctx_new(g->ops, &limits, b->threads, &g->ctx) != 0) {
		fprintf(stderr, "kvbench: gemm: not enough memory\n");
		free(g->memory);
		return 1;
	}
	return 0;
}

int bench_gemm_run(const struct bench *b)
{
	struct gemm_bench g;
	uint32_t threads;

	if (gemm_open(&g, b) != 0)
		return 1;
	threads = kernels_ctx_threads(g.ctx);
	gemm_limits(b, 1);
	if (threads > 1)
		gemm_limits(b, threads);
	g.flops = limits_bf16_flops(threads);
	g.bytes_per_s = limits_read_bytes_per_s(threads);
	for (size_t i = 0; i < ARRAY_LEN(gemm_shapes); i++)
		for (size_t r = 0; r < ARRAY_LEN(gemm_rows); r++)
			gemm_case(&g, &gemm_shapes[i], gemm_rows[r]);
	kernels_ctx_free(g.ctx);
	free(g.memory);
	return 0;
}
