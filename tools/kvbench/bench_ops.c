/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every operation of a device's table at the shape of a small model, through the seam that the
 * engine uses: a step is begun, the operation is queued many times, the step is waited for. So a
 * device is kept busy, and a processor does what it always does. The limits are measured the same
 * way in the same run: a large square product for arithmetic, copies of pages for memory (a byte
 * copied is read and written).
 */
#include "tools/kvbench/bench.h"

#include <base/bits.h>
#include <base/units.h>
#include <kernels/kernels.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPS_HIDDEN 576u
#define OPS_FFN 1536u
#define OPS_HEADS 9u
#define OPS_KV_HEADS 3u
#define OPS_HEAD_DIM 64u
#define OPS_QKV ((OPS_HEADS + 2 * OPS_KV_HEADS) * OPS_HEAD_DIM)
#define OPS_VOCAB 49152u
#define OPS_PAGE_TOKENS 64u
#define OPS_LAYERS 2u /* of a page: enough for a stride */
#define OPS_ROWS_CPU 512u
#define OPS_ROWS_DEVICE 4096u
#define OPS_DEPTH 2048u /* keys of a row that decodes */
#define OPS_SAMPLED 16u
#define OPS_SQUARE 4096u /* width and depth of the product that is the limit */
#define OPS_COPY_BYTES (32 * UNITS_MIB)
#define OPS_ENOUGH_NS (5 * UNITS_NS_PER_MS)
#define OPS_TIMES_MAX 256u
#define OPS_SAMPLES_MAX 101u

enum ops_kind { OPS_GEMM, OPS_SWIGLU, OPS_LIMIT, OPS_WEIGHTS };

struct ops_bench {
	const struct bench *b;
	const struct kernel_ops *ops;
	struct kernels_ctx *ctx;
	struct kvd_layout layout;
	uint32_t rows, keys;
	double flops, bytes_per_s;
	struct kernel_weight w[OPS_WEIGHTS];
	float *x, *norm, *inv_freq, *logits;
	kernel_bf16 *narrow; /* what enters a product */
	void *out;	     /* of any operation */
	char *pages;
	uint64_t *page;	  /* addresses */
	uint32_t *tokens; /* the host's, as all of a batch */
	uint32_t sampled[OPS_SAMPLED];
	struct kernel_sample_params params[OPS_SAMPLED];
	uint32_t drawn[OPS_SAMPLED];
	float logprobs[OPS_SAMPLED];
};

struct ops_case {
	const char *name;
	void (*run)(struct ops_bench *d, const struct kernel_batch *b);
	double (*work)(const struct ops_bench *d); /* bytes, or FLOP */
	bool flop;
	bool decodes; /* one row behind OPS_DEPTH keys */
	float top_p;
};

/* --- the operations ----------------------------------------------------------------------------
 */

static void product(struct ops_bench *d, enum ops_kind kind, enum kernel_gemm_out out,
		    const struct kernel_batch *b)
{
	const struct kernel_weight *w = &d->w[kind];
	const struct kernel_gemm g = {
		.w = w,
		.x = d->narrow,
		.y = d->out,
		.m = b->rows,
		.ldx = w->k,
		.ldy = kind == OPS_SWIGLU ? w->n / 2 : w->n,
		.out = out,
	};

	d->ops->gemm(d->ctx, &g);
}

static void run_embed(struct ops_bench *d, const struct kernel_batch *b)
{
	d->ops->embed(d->ctx, &d->w[OPS_GEMM], b->tokens, d->out, b->rows);
}

static void run_norm(struct ops_bench *d, const struct kernel_batch *b)
{
	d->ops->rmsnorm(d->ctx, d->x, d->norm, 1e-5f, d->out, b->rows, OPS_HIDDEN);
}

static void run_gemm(struct ops_bench *d, const struct kernel_batch *b)
{
	product(d, OPS_GEMM, KERNEL_OUT_F32, b);
}

static void run_swiglu(struct ops_bench *d, const struct kernel_batch *b)
{
	product(d, OPS_SWIGLU, KERNEL_OUT_SWIGLU, b);
}

static void run_limit(struct ops_bench *d, const struct kernel_batch *b)
{
	product(d, OPS_LIMIT, KERNEL_OUT_BF16, b);
}

static void run_rope(struct ops_bench *d, const struct kernel_batch *b)
{
	const struct kernel_rope_store r = {.qkv = d->x,
					    .q = d->out,
					    .inv_freq = d->inv_freq,
					    .norm_eps = 1e-5f,
					    .heads = OPS_HEADS,
					    .rope_dim = OPS_HEAD_DIM,
					    .layout = &d->layout,
					    .seqs = b->seqs,
					    .seq_count = b->seq_count};

	d->ops->rope_store(d->ctx, &r);
}

static void run_attention(struct ops_bench *d, const struct kernel_batch *b)
{
	const struct kernel_attention a = {.q = d->narrow,
					   .out = d->out,
					   .heads = OPS_HEADS,
					   .scale = 0.125f,
					   .layout = &d->layout,
					   .seqs = b->seqs,
					   .seq_count = b->seq_count};

	d->ops->attention(d->ctx, &a);
}

static void run_gather(struct ops_bench *d, const struct kernel_batch *b)
{
	d->ops->gather(d->ctx, d->x, b->sampled, b->sampled_count, OPS_HIDDEN, d->out);
}

static void run_sample(struct ops_bench *d, const struct kernel_batch *b)
{
	d->ops->sample(d->ctx, d->logits, b->sampled_count, OPS_VOCAB, b->params, b->out_tokens,
		       b->out_logprobs);
}

/* --- their work --------------------------------------------------------------------------------
 */

static double work_embed(const struct ops_bench *d)
{
	return (double)d->rows * OPS_HIDDEN * (2 + 4);
}

static double work_norm(const struct ops_bench *d)
{
	return (double)d->rows * OPS_HIDDEN * (4 + 2);
}

static double work_gemm(const struct ops_bench *d)
{
	return 2.0 * d->rows * OPS_QKV * OPS_HIDDEN;
}

static double work_swiglu(const struct ops_bench *d)
{
	return 2.0 * d->rows * 2 * OPS_FFN * OPS_HIDDEN;
}

static double work_limit(const struct ops_bench *d)
{
	return 2.0 * d->rows * OPS_SQUARE * OPS_SQUARE;
}

static double work_rope(const struct ops_bench *d)
{
	return (double)d->rows * OPS_QKV * (4 + 2);
}

/* Causal: half of a square of scores, and the same again for the values. */
static double work_attention(const struct ops_bench *d)
{
	return 2.0 * OPS_HEADS * OPS_HEAD_DIM * (double)d->rows * (d->rows + 1);
}

static double work_decode(const struct ops_bench *d)
{
	return 2.0 * OPS_KV_HEADS * OPS_HEAD_DIM * 2 * OPS_DEPTH;
}

static double work_gather(const struct ops_bench *d)
{
	return (double)OPS_SAMPLED * OPS_HIDDEN * (4 + 4);
}

static double work_sample(const struct ops_bench *d)
{
	return (double)OPS_SAMPLED * OPS_VOCAB * 4;
}

static const struct ops_case ops_limit = {.run = run_limit, .work = work_limit, .flop = true};
static const struct ops_case ops_cases[] = {
	{"embed", run_embed, work_embed, false, false, 0},
	{"rmsnorm", run_norm, work_norm, false, false, 0},
	{"gemm qkv", run_gemm, work_gemm, true, false, 0},
	{"gemm gate up, swiglu", run_swiglu, work_swiglu, true, false, 0},
	{"rope and store", run_rope, work_rope, false, false, 0},
	{"attention, prefill", run_attention, work_attention, true, false, 0},
	{"attention, decode", run_attention, work_decode, false, true, 0},
	{"gather", run_gather, work_gather, false, false, 0},
	{"sample, argmax", run_sample, work_sample, false, false, 0},
	{"sample, top-p", run_sample, work_sample, false, false, 0.9f},
};

/* --- time --------------------------------------------------------------------------------------
 */

/* One step in which the operation is queued `times`; its duration. */
static uint64_t step_ns(struct ops_bench *d, const struct ops_case *c, uint32_t times)
{
	const struct kernel_seq seq = {.rows = c->decodes ? 1 : d->rows,
				       .pos0 = c->decodes ? OPS_DEPTH - 1 : 0,
				       .pages = d->page};
	const struct kernel_batch in = {.tokens = d->tokens,
					.seqs = &seq,
					.sampled = d->sampled,
					.params = d->params,
					.out_tokens = d->drawn,
					.out_logprobs = d->logprobs,
					.rows = seq.rows,
					.seq_count = 1,
					.sampled_count = c->decodes ? 1 : OPS_SAMPLED};
	struct kernel_batch given;

	for (uint32_t i = 0; i < OPS_SAMPLED; i++)
		d->params[i] = (struct kernel_sample_params){.temperature = c->top_p > 0,
							     .top_p = c->top_p > 0 ? c->top_p : 1,
							     .uniform = 0.5f};
	uint64_t from_ns = units_now_ns();

	if (d->ops->step_begin(d->ctx, &in, &given) != KERNEL_STEP_RUN)
		return 0;
	for (uint32_t i = 0; i < times; i++)
		c->run(d, &given);
	d->ops->step_end(d->ctx);
	if (d->ops->step_wait(d->ctx) < 0)
		return 0;
	return units_now_ns() - from_ns;
}

/* Work a second; 0: the device has failed. */
static double rate_of(struct ops_bench *d, const struct ops_case *c)
{
	double seconds[OPS_SAMPLES_MAX];
	uint32_t samples = BITS_MIN(d->b->repeat ? d->b->repeat : 9, OPS_SAMPLES_MAX), times = 1;
	uint64_t ns = step_ns(d, c, 1);

	for (; ns && ns < OPS_ENOUGH_NS && times < OPS_TIMES_MAX; ns = step_ns(d, c, times))
		times *= 2;
	for (uint32_t i = 0; ns && i < samples; i++) {
		ns = step_ns(d, c, times);
		seconds[i] = (double)ns / 1e9 / times;
	}
	return ns ? c->work(d) / bench_median(seconds, samples) : 0;
}

static double copy_rate(struct ops_bench *d)
{
	double seconds[OPS_SAMPLES_MAX];
	uint32_t samples = BITS_MIN(d->b->repeat ? d->b->repeat : 9, OPS_SAMPLES_MAX);
	uint64_t at = (uintptr_t)d->out;

	for (uint32_t i = 0; i < samples; i++) {
		uint64_t from_ns = units_now_ns();

		d->ops->page_copy(d->ctx, at, at + OPS_COPY_BYTES, OPS_COPY_BYTES);
		seconds[i] = (double)(units_now_ns() - from_ns) / 1e9;
	}
	return 2.0 * OPS_COPY_BYTES / bench_median(seconds, samples);
}

static int emit(struct ops_bench *d, const char *name, double rate, bool flop, double limit)
{
	if (rate <= 0) {
		fprintf(stderr, "kvbench: ops: %s: %s\n", name, d->ops->failure(d->ctx));
		return 1;
	}
	bench_emit(d->b, &(struct bench_row){.bench = "ops",
					     .name = name,
					     .value = rate / 1e9,
					     .unit = flop ? "GFLOP/s" : "GB/s",
					     .limit = limit / 1e9,
					     .fraction = limit > 0 ? rate / limit : 0});
	return 0;
}

static int run_all(struct ops_bench *d)
{
	d->flops = rate_of(d, &ops_limit);
	d->bytes_per_s = copy_rate(d);
	int status = emit(d, "limit product", d->flops, true, 0);

	if (status == 0)
		status = emit(d, "limit page copy", d->bytes_per_s, false, 0);
	for (size_t i = 0; i < ARRAY_LEN(ops_cases) && status == 0; i++) {
		const struct ops_case *c = &ops_cases[i];

		if (bench_wanted(d->b, c->name))
			status = emit(d, c->name, rate_of(d, c), c->flop,
				      c->flop ? d->flops : d->bytes_per_s);
	}
	return status;
}

/* --- memory ------------------------------------------------------------------------------------
 */

/* Ordinary bf16 numbers: what arithmetic costs may depend on them. As f32 they are ordinary too. */
static void *filled(struct ops_bench *d, size_t bytes)
{
	void *memory = d->ops->memory_new(d->ops, bytes);
	kernel_bf16 *numbers = malloc(bytes);

	for (size_t i = 0; numbers && i < bytes / 2; i++)
		numbers[i] = (kernel_bf16)((i & 1 ? 0xbc00 : 0x3c00) + i * 7919 % 997);
	if (memory && (!numbers || d->ops->memory_write(d->ops, memory, numbers, bytes) < 0)) {
		d->ops->memory_free(d->ops, memory, bytes);
		memory = NULL;
	}
	free(numbers);
	return memory;
}

static bool weight(struct ops_bench *d, enum ops_kind kind, uint32_t n, uint32_t k)
{
	enum kernel_weight_kind how =
		kind == OPS_SWIGLU ? KERNEL_WEIGHT_GATE_UP : KERNEL_WEIGHT_PLAIN;
	size_t bytes = d->ops->weight_bytes(how, n, k);

	d->w[kind] = (struct kernel_weight){how, n, k, filled(d, bytes), bytes};
	return d->w[kind].data != NULL;
}

static bool make_pages(struct ops_bench *d)
{
	uint64_t bytes = kvd_layout_page_bytes(&d->layout);
	uint32_t count = (uint32_t)bits_div_ceil(d->keys, OPS_PAGE_TOKENS);

	d->pages = filled(d, count * bytes);
	d->page = calloc(count, sizeof(*d->page));
	for (uint32_t i = 0; d->page && i < count; i++)
		d->page[i] = (uintptr_t)d->pages + i * bytes;
	return d->pages && d->page;
}

static bool make_memory(struct ops_bench *d)
{
	size_t widest = BITS_MAX(OPS_SQUARE, OPS_QKV);

	d->x = filled(d, (size_t)d->rows * widest * 4);
	d->narrow = filled(d, (size_t)d->rows * widest * 2);
	d->out = filled(d, BITS_MAX((size_t)d->rows * widest * 4, 2 * OPS_COPY_BYTES));
	d->norm = filled(d, OPS_HIDDEN * 4);
	d->inv_freq = filled(d, OPS_HEAD_DIM * 2);
	d->logits = filled(d, (size_t)OPS_SAMPLED * OPS_VOCAB * 4);
	d->tokens = calloc(d->rows, sizeof(*d->tokens));
	for (uint32_t i = 0; d->tokens && i < d->rows; i++)
		d->tokens[i] = i % OPS_QKV;
	for (uint32_t i = 0; i < OPS_SAMPLED; i++)
		d->sampled[i] = i;
	return d->x && d->narrow && d->out && d->norm && d->inv_freq && d->logits && d->tokens &&
	       weight(d, OPS_GEMM, OPS_QKV, OPS_HIDDEN) &&
	       weight(d, OPS_SWIGLU, 2 * OPS_FFN, OPS_HIDDEN) &&
	       weight(d, OPS_LIMIT, OPS_SQUARE, OPS_SQUARE) && make_pages(d);
}

static int open_ctx(struct ops_bench *d)
{
	const struct kernels_limits limits = {
		.rows_max = d->rows,
		.k_max = OPS_SQUARE,
		.n_max = OPS_SQUARE,
		.heads_max = OPS_HEADS,
		.kv_heads = OPS_KV_HEADS,
		.head_dim_max = OPS_HEAD_DIM,
		.vocab = OPS_VOCAB,
		.sampled_max = OPS_SAMPLED,
		.sequences_max = 1,
		.pages_max = (uint32_t)bits_div_ceil(d->keys, OPS_PAGE_TOKENS),
		.page_tokens = OPS_PAGE_TOKENS,
		.page_bytes = kvd_layout_page_bytes(&d->layout),
	};

	return kernels_ctx_new(d->ops, &limits, d->b->threads, &d->ctx);
}

/* What a device's memory holds ends with the process; the host's is given back. */
static void close_all(struct ops_bench *d)
{
	kernels_ctx_free(d->ctx);
	free(d->page);
	free(d->tokens);
}

int bench_ops_run(const struct bench *b)
{
	struct ops_bench d = {.b = b,
			      .layout = {.layers = OPS_LAYERS,
					 .kv_heads = OPS_KV_HEADS,
					 .head_dim = OPS_HEAD_DIM,
					 .page_tokens = OPS_PAGE_TOKENS,
					 .element_bytes = 2}};
	int status = 1;

	d.ops = bench_kernels(b);
	if (!d.ops)
		return 1;
	d.rows = d.ops->asynchronous ? OPS_ROWS_DEVICE : OPS_ROWS_CPU;
	if (b->rows)
		d.rows = BITS_MAX(b->rows, OPS_SAMPLED);
	d.keys = BITS_MAX(d.rows, OPS_DEPTH);
	if (open_ctx(&d) < 0 || !make_memory(&d))
		fprintf(stderr, "kvbench: ops: not enough memory on %s\n", d.ops->name);
	else
		status = run_all(&d);
	close_all(&d);
	return status;
}
