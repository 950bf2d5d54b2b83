/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every operation of a device's table at the shape of a small model, beside the limits measured in
 * the same run: arithmetic for products and attention of prompts, memory for the others. Inputs
 * and outputs walk through two large areas, K and V through the layers of a page, so that what is
 * timed is memory and no cache.
 */
#include "tools/kvbench/bench_device.h"

#include <base/bits.h>
#include <stdio.h>
#include <stdlib.h>

#define OPS_HIDDEN 576u
#define OPS_FFN 1536u
#define OPS_HEADS 9u
#define OPS_KV_HEADS 3u
#define OPS_HEAD_DIM 64u
#define OPS_QKV ((OPS_HEADS + 2 * OPS_KV_HEADS) * OPS_HEAD_DIM)
#define OPS_VOCAB 49152u
#define OPS_ROWS_CPU 512u
#define OPS_ROWS_DEVICE 4096u
#define OPS_DEPTH 2048u /* keys of a row that decodes */
#define OPS_SAMPLED_CPU 16u
#define OPS_SAMPLED_DEVICE 64u
#define OPS_SAMPLED_PART 4u /* of the rows, at most */
#define OPS_COPY_BYTES (8 * UNITS_MIB)

struct ops_bench {
	struct bench_device d;
	struct kvd_layout layout;
	uint32_t rows, sampled_count;
	double flops, bytes_per_s;
	struct kernel_weight table, qkv, qkv_fp16, gate_up;
	struct bench_ring tables; /* copies of the table */
	char *in, *out;		  /* areas of inputs and of outputs */
	size_t area_bytes;
	struct bench_ring in_ring, out_ring; /* over them, in the pieces of the current case */
	float *norm, *inv_freq;
	uint64_t *page;	  /* addresses */
	uint32_t *tokens; /* the host's, as all of a batch */
	uint32_t sampled[OPS_SAMPLED_DEVICE];
	struct kernel_sample_params params[OPS_SAMPLED_DEVICE];
	uint32_t drawn[OPS_SAMPLED_DEVICE];
	float logprobs[OPS_SAMPLED_DEVICE];
};

/* One launch: bytes that it reads of `in` and writes of `out`, and of other memory; or FLOP. */
struct ops_work {
	double in_bytes, out_bytes, other_bytes;
	double flop;
};

struct ops_case {
	const char *name;
	void (*run)(void *arg, const struct kernel_batch *given, uint32_t turn);
	struct ops_work (*work)(const struct ops_bench *o);
	bool decodes; /* one row behind OPS_DEPTH keys */
	float top_p;
};

/* --- the operations ----------------------------------------------------------------------------
 */

static void product(struct ops_bench *o, const struct kernel_weight *w, enum kernel_gemm_out out,
		    uint32_t turn)
{
	const struct kernel_gemm g = {
		.w = w,
		.x = bench_ring_at(&o->in_ring, turn),
		.y = bench_ring_at(&o->out_ring, turn),
		.m = o->rows,
		.ldx = w->k,
		.ldy = out == KERNEL_OUT_SWIGLU ? w->n / 2 : w->n,
		.out = out,
	};

	o->d.ops->gemm(o->d.ctx, &g);
}

static void run_embed(void *arg, const struct kernel_batch *given, uint32_t turn)
{
	struct ops_bench *o = arg;
	struct kernel_weight w = o->table;

	w.data = bench_ring_at(&o->tables, turn);
	o->d.ops->embed(o->d.ctx, &w, given->tokens, given->drawn,
			bench_ring_at(&o->out_ring, turn), o->rows);
}

static void run_norm(void *arg, const struct kernel_batch *given, uint32_t turn)
{
	struct ops_bench *o = arg;

	o->d.ops->rmsnorm(o->d.ctx, bench_ring_at(&o->in_ring, turn), o->norm, 1e-5f,
			  bench_ring_at(&o->out_ring, turn), o->rows, OPS_HIDDEN);
}

static void run_gemm(void *arg, const struct kernel_batch *given, uint32_t turn)
{
	struct ops_bench *o = arg;

	product(o, &o->qkv, KERNEL_OUT_F32, turn);
}

static void run_gemm_fp16(void *arg, const struct kernel_batch *given, uint32_t turn)
{
	struct ops_bench *o = arg;

	product(o, &o->qkv_fp16, KERNEL_OUT_F32, turn);
}

static void run_swiglu(void *arg, const struct kernel_batch *given, uint32_t turn)
{
	struct ops_bench *o = arg;

	product(o, &o->gate_up, KERNEL_OUT_SWIGLU, turn);
}

static void run_rope(void *arg, const struct kernel_batch *given, uint32_t turn)
{
	struct ops_bench *o = arg;
	const struct kernel_rope_store r = {.qkv = bench_ring_at(&o->in_ring, turn),
					    .q = bench_ring_at(&o->out_ring, turn),
					    .inv_freq = o->inv_freq,
					    .norm_eps = 1e-5f,
					    .heads = OPS_HEADS,
					    .rope_dim = OPS_HEAD_DIM,
					    .layer = turn % o->layout.layers,
					    .layout = &o->layout,
					    .seqs = given->seqs,
					    .seq_count = given->seq_count};

	o->d.ops->rope_store(o->d.ctx, &r);
}

static void run_attention(void *arg, const struct kernel_batch *given, uint32_t turn)
{
	struct ops_bench *o = arg;
	const struct kernel_attention a = {.q = bench_ring_at(&o->in_ring, turn),
					   .out = bench_ring_at(&o->out_ring, turn),
					   .heads = OPS_HEADS,
					   .scale = 0.125f,
					   .layer = turn % o->layout.layers,
					   .layout = &o->layout,
					   .seqs = given->seqs,
					   .seq_count = given->seq_count};

	o->d.ops->attention(o->d.ctx, &a);
}

static void run_gather(void *arg, const struct kernel_batch *given, uint32_t turn)
{
	struct ops_bench *o = arg;

	o->d.ops->gather(o->d.ctx, bench_ring_at(&o->in_ring, turn), given->sampled,
			 given->sampled_count, OPS_HIDDEN, bench_ring_at(&o->out_ring, turn));
}

static void run_sample(void *arg, const struct kernel_batch *given, uint32_t turn)
{
	struct ops_bench *o = arg;

	o->d.ops->sample(o->d.ctx, bench_ring_at(&o->in_ring, turn), given->sampled_count,
			 OPS_VOCAB, given->params, given->out_tokens, given->out_logprobs);
}

/* Between steps, one at a time: it has ended when it returns. */
static void run_copy(void *arg, const struct kernel_batch *given, uint32_t turn)
{
	struct ops_bench *o = arg;

	o->d.ops->page_copy(o->d.ctx, (uintptr_t)bench_ring_at(&o->out_ring, turn),
			    (uintptr_t)bench_ring_at(&o->in_ring, turn), OPS_COPY_BYTES);
}

/* --- their work --------------------------------------------------------------------------------
 */

static struct ops_work work_embed(const struct ops_bench *o)
{
	double numbers = (double)o->rows * OPS_HIDDEN;

	return (struct ops_work){.out_bytes = 4 * numbers, .other_bytes = 2 * numbers};
}

static struct ops_work work_norm(const struct ops_bench *o)
{
	double numbers = (double)o->rows * OPS_HIDDEN;

	return (struct ops_work){.in_bytes = 4 * numbers, .out_bytes = 2 * numbers};
}

static struct ops_work work_product(const struct ops_bench *o, uint32_t n, uint32_t out_bytes)
{
	return (struct ops_work){.in_bytes = 2.0 * o->rows * OPS_HIDDEN,
				 .out_bytes = (double)o->rows * out_bytes,
				 .flop = 2.0 * o->rows * n * OPS_HIDDEN};
}

static struct ops_work work_gemm(const struct ops_bench *o)
{
	return work_product(o, OPS_QKV, 4 * OPS_QKV);
}

static struct ops_work work_swiglu(const struct ops_bench *o)
{
	return work_product(o, 2 * OPS_FFN, 2 * OPS_FFN);
}

static struct ops_work work_rope(const struct ops_bench *o)
{
	double rows = o->rows;

	return (struct ops_work){.in_bytes = 4 * rows * OPS_QKV,
				 .out_bytes = 2 * rows * OPS_HEADS * OPS_HEAD_DIM,
				 .other_bytes = 2 * rows * 2 * OPS_KV_HEADS * OPS_HEAD_DIM};
}

/* Causal: half of a square of scores, and the same again for the values. */
static struct ops_work work_attention(const struct ops_bench *o)
{
	double q_bytes = 2.0 * o->rows * OPS_HEADS * OPS_HEAD_DIM;

	return (struct ops_work){.in_bytes = q_bytes,
				 .out_bytes = q_bytes,
				 .flop = 2.0 * OPS_HEADS * OPS_HEAD_DIM * (double)o->rows *
					 (o->rows + 1)};
}

static struct ops_work work_decode(const struct ops_bench *o)
{
	double q_bytes = 2.0 * OPS_HEADS * OPS_HEAD_DIM;

	return (struct ops_work){.in_bytes = q_bytes,
				 .out_bytes = q_bytes,
				 .other_bytes = 2.0 * OPS_KV_HEADS * OPS_HEAD_DIM * 2 * OPS_DEPTH};
}

static struct ops_work work_gather(const struct ops_bench *o)
{
	double bytes = 4.0 * o->sampled_count * OPS_HIDDEN;

	return (struct ops_work){.in_bytes = bytes, .out_bytes = bytes};
}

static struct ops_work work_sample(const struct ops_bench *o)
{
	return (struct ops_work){.in_bytes = 4.0 * o->sampled_count * OPS_VOCAB};
}

static struct ops_work work_copy(const struct ops_bench *o)
{
	return (struct ops_work){.in_bytes = OPS_COPY_BYTES, .out_bytes = OPS_COPY_BYTES};
}

static const struct ops_case ops_cases[] = {
	{"embed", run_embed, work_embed, false, 0},
	{"rmsnorm", run_norm, work_norm, false, 0},
	{"gemm qkv", run_gemm, work_gemm, false, 0},
	{"gemm qkv, fp16", run_gemm_fp16, work_gemm, false, 0},
	{"gemm gate up, swiglu", run_swiglu, work_swiglu, false, 0},
	{"rope and store", run_rope, work_rope, false, 0},
	{"attention, prefill", run_attention, work_attention, false, 0},
	{"attention, decode", run_attention, work_decode, true, 0},
	{"gather", run_gather, work_gather, false, 0},
	{"sample, argmax", run_sample, work_sample, false, 0},
	{"sample, top-p", run_sample, work_sample, false, 0.9f},
	{"page copy", run_copy, work_copy, false, 0},
};

/* --- their time --------------------------------------------------------------------------------
 */

static struct bench_ring pieces(const struct ops_bench *o, char *area, double piece_bytes)
{
	return bench_device_ring(area, o->area_bytes,
				 (size_t)BITS_MAX(piece_bytes, BENCH_DEVICE_ALIGN));
}

static double seconds_of(struct ops_bench *o, const struct ops_case *c)
{
	const struct kernel_seq seq = {.rows = c->decodes ? 1 : o->rows,
				       .pos0 = c->decodes ? OPS_DEPTH - 1 : 0,
				       .pages = o->page};
	const struct kernel_batch batch = {.tokens = o->tokens,
					   .seqs = &seq,
					   .sampled = o->sampled,
					   .params = o->params,
					   .out_tokens = o->drawn,
					   .out_logprobs = o->logprobs,
					   .rows = seq.rows,
					   .seq_count = 1,
					   .sampled_count = c->decodes ? 1 : o->sampled_count};
	const struct bench_load load = {c->run, o, c->run == run_copy ? NULL : &batch};

	for (uint32_t i = 0; i < o->sampled_count; i++)
		o->params[i] = (struct kernel_sample_params){.temperature = c->top_p > 0,
							     .top_p = c->top_p > 0 ? c->top_p : 1,
							     .uniform = 0.5f};
	return bench_device_seconds(&o->d, &load);
}

static int case_run(struct ops_bench *o, const struct ops_case *c)
{
	struct ops_work w = c->work(o);
	double bytes = w.in_bytes + w.out_bytes + w.other_bytes;

	if (!bench_wanted(o->d.b, c->name) || (c->run == run_gemm_fp16 && !o->d.ops->fp16))
		return 0;
	o->in_ring = pieces(o, o->in, w.in_bytes);
	o->out_ring = pieces(o, o->out, w.out_bytes);
	if (w.flop > 0)
		return bench_device_emit(&o->d, c->name, w.flop, seconds_of(o, c), true, o->flops);
	return bench_device_emit(&o->d, c->name, bytes, seconds_of(o, c), false, o->bytes_per_s);
}

static int run_all(struct ops_bench *o)
{
	uint32_t threads = kernels_ctx_threads(o->d.ctx);
	int status;

	o->flops = bench_device_limits_flops(o->d.b, o->d.ops, threads);
	o->bytes_per_s = bench_device_limits_bytes_per_s(o->d.b, o->d.ops, threads);
	status = bench_device_limit_rows(&o->d, o->flops, o->bytes_per_s);
	for (size_t i = 0; i < ARRAY_LEN(ops_cases) && status == 0; i++)
		status = case_run(o, &ops_cases[i]);
	return status;
}

/* --- memory ------------------------------------------------------------------------------------
 */

static bool make_weights(struct ops_bench *o)
{
	o->table = (struct kernel_weight){
		.kind = KERNEL_WEIGHT_PLAIN, .n = OPS_VOCAB, .k = OPS_HIDDEN};
	o->qkv = (struct kernel_weight){.kind = KERNEL_WEIGHT_PLAIN, .n = OPS_QKV, .k = OPS_HIDDEN};
	o->qkv_fp16 = o->qkv;
	o->qkv_fp16.type = KERNEL_FP16;
	o->gate_up = (struct kernel_weight){
		.kind = KERNEL_WEIGHT_GATE_UP, .n = 2 * OPS_FFN, .k = OPS_HIDDEN};
	return bench_device_weights(&o->d, &o->table, BENCH_DEVICE_RING_BYTES, &o->tables) &&
	       bench_device_weights(&o->d, &o->qkv, 0, NULL) &&
	       bench_device_weights(&o->d, &o->gate_up, 0, NULL) &&
	       (!o->d.ops->fp16 || bench_device_weights(&o->d, &o->qkv_fp16, 0, NULL));
}

static bool make_pages(struct ops_bench *o)
{
	uint64_t bytes = kvd_layout_page_bytes(&o->layout);
	uint32_t count =
		(uint32_t)bits_div_ceil(BITS_MAX(o->rows, OPS_DEPTH), BENCH_DEVICE_PAGE_TOKENS);
	char *pages = bench_device_memory(&o->d, count * bytes);

	o->page = calloc(count, sizeof(*o->page));
	for (uint32_t i = 0; o->page && i < count; i++)
		o->page[i] = (uintptr_t)pages + i * bytes;
	return pages && o->page;
}

static bool make_memory(struct ops_bench *o)
{
	o->area_bytes = BITS_MAX(BENCH_DEVICE_RING_BYTES,
				 (size_t)o->rows * OPS_QKV * sizeof(float) + BENCH_DEVICE_ALIGN);
	o->in = bench_device_memory(&o->d, o->area_bytes);
	o->out = o->in ? bench_device_memory(&o->d, o->area_bytes) : NULL;
	o->norm = o->out ? bench_device_memory(&o->d, OPS_HIDDEN * sizeof(float)) : NULL;
	o->inv_freq = o->norm ? bench_device_memory(&o->d, OPS_HEAD_DIM / 2 * sizeof(float)) : NULL;
	o->tokens = calloc(o->rows, sizeof(*o->tokens));
	for (uint32_t i = 0; o->tokens && i < o->rows; i++)
		o->tokens[i] = i * 7919 % OPS_VOCAB;
	for (uint32_t i = 0; i < o->sampled_count; i++)
		o->sampled[i] = i;
	return o->inv_freq && o->tokens && make_weights(o) && make_pages(o);
}

static int open_ctx(struct ops_bench *o)
{
	const struct kernels_limits limits = {
		.rows_max = o->rows,
		.k_max = OPS_HIDDEN,
		.n_max = 2 * OPS_FFN,
		.heads_max = OPS_HEADS,
		.kv_heads = OPS_KV_HEADS,
		.head_dim_max = OPS_HEAD_DIM,
		.vocab = OPS_VOCAB,
		.sampled_max = o->sampled_count,
		.sequences_max = 1,
		.pages_max = (uint32_t)bits_div_ceil(BITS_MAX(o->rows, OPS_DEPTH),
						     BENCH_DEVICE_PAGE_TOKENS),
		.page_tokens = BENCH_DEVICE_PAGE_TOKENS,
	};

	return bench_device_ctx(&o->d, &limits);
}

int bench_ops_run(const struct bench *b)
{
	struct ops_bench o = {
		.layout = {.layers = bench_device_layers(OPS_DEPTH, OPS_KV_HEADS, OPS_HEAD_DIM),
			   .kv_heads = OPS_KV_HEADS,
			   .head_dim = OPS_HEAD_DIM,
			   .page_tokens = BENCH_DEVICE_PAGE_TOKENS,
			   .element_bytes = sizeof(kernel_bf16)}};
	int status = 1;

	if (bench_device_open(&o.d, b, "ops") < 0)
		return 1;
	bool device = o.d.ops->asynchronous;
	o.rows = BITS_MAX(b->rows  ? b->rows
			  : device ? OPS_ROWS_DEVICE
				   : OPS_ROWS_CPU,
			  OPS_SAMPLED_PART);
	o.sampled_count =
		BITS_MIN(device ? OPS_SAMPLED_DEVICE : OPS_SAMPLED_CPU, o.rows / OPS_SAMPLED_PART);
	if (open_ctx(&o) == 0 && make_memory(&o))
		status = run_all(&o);
	bench_device_close(&o.d);
	free(o.page);
	free(o.tokens);
	return status;
}
