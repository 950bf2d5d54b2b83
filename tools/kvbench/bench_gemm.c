/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products at the shapes of small models, for one row (decode), and for chunks. Above eight
 * rows the limit is arithmetic, below it is reading the weights, of which each launch takes another
 * copy. The limits themselves are rows too: of a processor FLOP/s of each kind, read and memcpy for
 * one thread and for all, of another device arithmetic and memory.
 */
#include "tools/kvbench/bench_device.h"
#include "tools/kvbench/limits.h"

#include <base/bits.h>
#include <stdio.h>

#define GEMM_ROWS_MAX 4096u
#define GEMM_ROWS_MAX_CPU 512u
#define GEMM_READ_ROWS 8u /* up to so many rows a product reads rather than computes */
#define GEMM_Y_MAX ((size_t)512 * 49152)

struct gemm_shape {
	uint32_t n, k;
	enum kernel_gemm_out out;
};

struct gemm_bench {
	struct bench_device d;
	double flops;
	double bytes_per_s;
	uint32_t rows_max;
	struct bench_ring weights; /* the shape's */
	struct kernel_weight w;
	struct kernel_gemm call;
};

static const struct gemm_shape gemm_shapes[] = {
	{960, 576, KERNEL_OUT_F32},  {576, 576, KERNEL_OUT_ADD},   {3072, 576, KERNEL_OUT_SWIGLU},
	{576, 1536, KERNEL_OUT_ADD}, {2048, 2048, KERNEL_OUT_ADD}, {49152, 576, KERNEL_OUT_F32},
};
static const uint32_t gemm_rows[] = {1, 8, 32, 128, 512, 4096};

static void gemm_run(void *arg, const struct kernel_batch *given, uint32_t turn)
{
	struct gemm_bench *g = arg;

	g->w.data = bench_ring_at(&g->weights, turn);
	g->d.ops->gemm(g->d.ctx, &g->call);
}

static const char *gemm_name(const struct gemm_shape *s, uint32_t m)
{
	static char name[64];

	snprintf(name, sizeof(name), "n%u k%u m%u", s->n, s->k, m);
	return name;
}

static bool gemm_wanted(const struct gemm_bench *g, const struct gemm_shape *s, uint32_t m)
{
	return m <= g->rows_max && (size_t)m * s->n <= GEMM_Y_MAX &&
	       bench_wanted(g->d.b, gemm_name(s, m));
}

static int gemm_case(struct gemm_bench *g, const struct gemm_shape *s, uint32_t m)
{
	/* The products need none; a step has one. */
	const uint64_t page = 0;
	const uint32_t token = 0;
	const struct kernel_seq seq = {.rows = 1, .pages = &page};
	const struct kernel_batch batch = {
		.tokens = &token, .seqs = &seq, .rows = 1, .seq_count = 1};
	const struct bench_load load = {gemm_run, g, &batch};
	bool reads = m <= GEMM_READ_ROWS;

	g->call.m = m;
	return bench_device_emit(
		&g->d, gemm_name(s, m), reads ? (double)g->w.bytes : 2.0 * m * s->n * s->k,
		bench_device_seconds(&g->d, &load), !reads, reads ? g->bytes_per_s : g->flops);
}

static bool gemm_shape_open(struct gemm_bench *g, const struct gemm_shape *s)
{
	bool swiglu = s->out == KERNEL_OUT_SWIGLU;
	size_t y_count = BITS_MIN((size_t)g->rows_max * s->n, GEMM_Y_MAX);

	g->w = (struct kernel_weight){
		.kind = swiglu ? KERNEL_WEIGHT_GATE_UP : KERNEL_WEIGHT_PLAIN, .n = s->n, .k = s->k};
	if (!bench_device_weights(&g->d, &g->w, BENCH_DEVICE_RING_BYTES, &g->weights))
		return false;
	g->call = (struct kernel_gemm){
		.w = &g->w,
		.x = bench_device_memory(&g->d, (size_t)g->rows_max * s->k * sizeof(kernel_bf16)),
		.y = bench_device_memory(&g->d, y_count * sizeof(float)),
		.ldx = s->k,
		.ldy = swiglu ? s->n / 2 : s->n,
		.out = s->out};
	return g->call.x && g->call.y;
}

static int gemm_shape_run(struct gemm_bench *g, const struct gemm_shape *s)
{
	int status = 0;
	bool wanted = false;

	for (size_t r = 0; r < ARRAY_LEN(gemm_rows); r++)
		wanted |= gemm_wanted(g, s, gemm_rows[r]);
	if (!wanted)
		return 0;
	if (!gemm_shape_open(g, s))
		status = 1;
	for (size_t r = 0; r < ARRAY_LEN(gemm_rows) && status == 0; r++)
		if (gemm_wanted(g, s, gemm_rows[r]))
			status = gemm_case(g, s, gemm_rows[r]);
	bench_device_release(&g->d);
	return status;
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
	struct kernels_limits limits = {.k_max = 2048,
					.n_max = 3072,
					.heads_max = 1,
					.kv_heads = 1,
					.head_dim_max = 64,
					.vocab = 1,
					.sampled_max = 1,
					.sequences_max = 1,
					.pages_max = 1,
					.page_tokens = BENCH_DEVICE_PAGE_TOKENS};

	if (bench_device_open(&g->d, b, "gemm") < 0)
		return -1;
	g->rows_max = g->d.ops->asynchronous ? GEMM_ROWS_MAX : GEMM_ROWS_MAX_CPU;
	limits.rows_max = g->rows_max;
	return bench_device_ctx(&g->d, &limits);
}

/* Measures the limits, and emits them. */
static int gemm_measure_limits(struct gemm_bench *g)
{
	const struct bench *b = g->d.b;
	uint32_t threads = kernels_ctx_threads(g->d.ctx);

	if (!g->d.ops->asynchronous) {
		gemm_limits(b, 1);
		if (threads > 1)
			gemm_limits(b, threads);
	}
	g->flops = bench_device_limits_flops(b, g->d.ops, threads);
	g->bytes_per_s = bench_device_limits_bytes_per_s(b, g->d.ops, threads);
	return bench_device_limit_rows(&g->d, g->flops, g->bytes_per_s);
}

int bench_gemm_run(const struct bench *b)
{
	struct gemm_bench g;
	int status = 1;

	if (gemm_open(&g, b) == 0)
		status = gemm_measure_limits(&g);
	for (size_t i = 0; i < ARRAY_LEN(gemm_shapes) && status == 0; i++)
		status = gemm_shape_run(&g, &gemm_shapes[i]);
	bench_device_close(&g.d);
	return status;
}
