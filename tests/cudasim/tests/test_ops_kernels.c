/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each operation of the simulated GPU's table against its plain twin, over odd shapes. Attention
 * has a test of its own. Tolerances: sums of some hundred products in f32 are good to 2e-5 at these
 * magnitudes; a result that is rounded to bf16 may fall to the other neighbour, 2^-7 apart, or
 * 2^-10 in fp16, where the smallest numbers are 2^-24 apart.
 */
#include "kernels/cpu/ref/ref.h"
#include "tests/cudasim/tests/child.h"
#include "tests/cudasim/tests/ops_world.h"
#include "tests/test.h"

#include <base/bits.h>
#include <math.h>
#include <stdlib.h>

#define CLOSE_F32 2e-5
#define CLOSE_BF16 0x1p-7
#define CLOSE_FP16 0x1p-10
#define SMALL_FP16 0x1p-24
#define ROWS 130u
#define K_MAX 264u
#define N_MAX 320u
#define SEQS 4u
#define PAGES 70000u /* of one sequence: 1.1 million tokens */

static const struct kernel_ops *ops;
static struct kernels_ctx *ctx;
static struct ops_step step;
static enum kernel_type type; /* FP16=1 in the environment chooses the other */

static void start(void)
{
	type = getenv("FP16") ? KERNEL_FP16 : KERNEL_BF16;
	struct kernels_limits limits = {.rows_max = ROWS,
					.k_max = K_MAX,
					.n_max = N_MAX,
					.heads_max = 4,
					.kv_heads = 2,
					.head_dim_max = 64,
					.vocab = 49152,
					.sampled_max = 16,
					.sequences_max = SEQS,
					.pages_max = PAGES,
					.page_tokens = 16,
					.type = type};

	ops = ops_world_table();
	IS(kernels_ctx_new(ops, &limits, 1, &ctx), 0);
}

static void begin(const struct kernel_batch *b, struct kernel_batch *out)
{
	IS(ops->step_begin(ctx, b, out), KERNEL_STEP_RUN);
}

/* A step of one row of nobody's. */
static void begin_any(void)
{
	struct kernel_batch given;

	begin(&(struct kernel_batch){.tokens = step.tokens, .rows = 1}, &given);
}

static void end(void)
{
	ops->step_end(ctx);
	IS(ops->step_wait(ctx, 0), 0);
}

static bool near(double got, double want, double absolute, double relative)
{
	return fabs(got - want) <= absolute + relative * fabs(want);
}

static double close_half(void)
{
	return type == KERNEL_FP16 ? CLOSE_FP16 : CLOSE_BF16;
}

static double small_half(void)
{
	return type == KERNEL_FP16 ? SMALL_FP16 : 0;
}

static double half(kernel_half x)
{
	return kernel_half_to_f32(x, type);
}

static kernel_half *to_half(const float *x, size_t count)
{
	kernel_half *out = malloc(count * sizeof(*out));

	CHECK(out);
	for (size_t i = 0; i < count; i++)
		out[i] = kernel_f32_to_half(x[i], type);
	return out;
}

/* The same weight for the twins, who read the processors' packing. */
static struct kernel_weight twin_weight(uint64_t seed, enum kernel_weight_kind kind, uint32_t n,
					uint32_t k)
{
	return ops_world_weight(kernels_cpu("portable"), seed, kind, n, k, type);
}

static void drop(const struct kernel_ops *table, struct kernel_weight *w)
{
	table->memory_free(table, w->data, w->bytes);
}

/* --- products ----------------------------------------------------------------------------------
 */

struct product {
	uint32_t n, k;
	enum kernel_gemm_out out;
	bool bias;
};

struct product_data {
	struct kernel_weight w, twin;
	kernel_half *x, *x_device;
	float *bias, *bias_device;
	float *y, *y_device; /* room for f32; the start is the same for both */
	size_t y_bytes;
	uint32_t ldx, ldy, columns;
};

static size_t element_bytes(const struct product *p)
{
	return p->out == KERNEL_OUT_F32 || p->out == KERNEL_OUT_ADD ? 4 : 2;
}

/* The product of m rows from `row` on; both matrices begin where their memory does. */
static void product_run(const struct product *p, const struct product_data *d, uint32_t row,
			uint32_t m)
{
	const struct kernel_gemm g = {.w = &d->w,
				      .x = d->x_device,
				      .y = d->y_device,
				      .bias = d->bias_device,
				      .m = m,
				      .ldx = d->ldx,
				      .ldy = d->ldy,
				      .out = p->out};
	size_t row_bytes = d->ldy * element_bytes(p);

	IS(ops->memory_write(ops, d->x_device, d->x + (size_t)row * d->ldx,
			     (size_t)m * d->ldx * sizeof(*d->x)),
	   0);
	IS(ops->memory_write(ops, d->y_device, (char *)d->y + row * row_bytes, m * row_bytes), 0);
	begin_any();
	ops->gemm(ctx, &g);
	end();
}

static void product_close(const struct product *p, const struct product_data *d, const void *got,
			  const void *want)
{
	bool f32 = p->out == KERNEL_OUT_F32 || p->out == KERNEL_OUT_ADD;

	for (uint32_t r = 0; r < ROWS; r++)
		for (uint32_t c = 0; c < d->ldy; c++) {
			size_t i = (size_t)r * d->ldy + c;
			double g =
				f32 ? ((const float *)got)[i] : half(((const kernel_half *)got)[i]);
			double w = f32 ? ((const float *)want)[i]
				       : half(((const kernel_half *)want)[i]);

			/* What lies between the rows stays as it was. */
			CHECK(c < d->columns ? near(g, w, CLOSE_F32, f32 ? 0 : close_half())
					     : memcmp(&g, &w, sizeof(g)) == 0);
		}
}

/* Rows alone, and with others than before, have the bits that they have among all. */
static void product_rows(const struct product *p, const struct product_data *d, const uint8_t *all)
{
	size_t row_bytes = d->ldy * element_bytes(p);
	uint8_t *part = malloc(d->y_bytes);

	for (uint32_t row = 0, m = 1; row + m <= ROWS; row += 17, m = m % 64 + 5) {
		product_run(p, d, row, m);
		child_read(part, d->y_device, m * row_bytes);
		CHECK(memcmp(part, all + row * row_bytes, m * row_bytes) == 0);
	}
	free(part);
}

static void product_check(const struct product *p)
{
	enum kernel_weight_kind kind =
		p->out == KERNEL_OUT_SWIGLU ? KERNEL_WEIGHT_GATE_UP : KERNEL_WEIGHT_PLAIN;
	struct product_data d = {.ldx = p->k + (p->k % 8 ? 0 : 8),
				 .columns = p->out == KERNEL_OUT_SWIGLU ? p->n / 2 : p->n};
	float *x, *got;
	struct kernel_gemm twin;

	d.ldy = d.columns + 3;
	d.y_bytes = (size_t)ROWS * d.ldy * sizeof(float);
	d.w = ops_world_weight(ops, p->n, kind, p->n, p->k, type);
	d.twin = twin_weight(p->n, kind, p->n, p->k);
	x = ops_world_floats(1, (size_t)ROWS * d.ldx, 2);
	d.x = to_half(x, (size_t)ROWS * d.ldx);
	d.x_device = ops_world_put(ops, d.x, (size_t)ROWS * d.ldx * sizeof(*d.x));
	d.y = ops_world_floats(2, (size_t)ROWS * d.ldy, 1);
	d.y_device = ops_world_put(ops, d.y, d.y_bytes);
	d.bias = p->bias ? ops_world_floats(3, p->n, 1) : NULL;
	d.bias_device = p->bias ? ops_world_put(ops, d.bias, p->n * sizeof(float)) : NULL;

	product_run(p, &d, 0, ROWS);
	CHECK(got = malloc(d.y_bytes));
	child_read(got, d.y_device, d.y_bytes);
	product_rows(p, &d, (const uint8_t *)got);
	twin = (struct kernel_gemm){&d.twin, d.x, d.y, d.bias, ROWS, d.ldx, d.ldy, p->out};
	ref_gemm(&twin);
	product_close(p, &d, got, d.y);

	ops->memory_free(ops, d.x_device, 0);
	ops->memory_free(ops, d.y_device, 0);
	ops->memory_free(ops, d.bias_device, 0);
	drop(ops, &d.w);
	drop(kernels_cpu("portable"), &d.twin);
	free(x);
	free(got);
	free(d.x);
	free(d.y);
	free(d.bias);
}

static void role_gemm(void)
{
	static const struct product products[] = {
		{96, 256, KERNEL_OUT_F32, false},    {301, 100, KERNEL_OUT_F32, true},
		{7, 33, KERNEL_OUT_F32, false},	     {1, 1, KERNEL_OUT_F32, true},
		{96, 264, KERNEL_OUT_ADD, false},    {65, 40, KERNEL_OUT_ADD, true},
		{128, 64, KERNEL_OUT_HALF, false},   {33, 72, KERNEL_OUT_HALF, true},
		{272, 96, KERNEL_OUT_SWIGLU, false}, {70, 37, KERNEL_OUT_SWIGLU, true},
	};

	start();
	for (size_t i = 0; i < ARRAY_LEN(products); i++)
		product_check(&products[i]);
	kernels_ctx_free(ctx);
}

static void test_products(void **state)
{
	assert_int_equal(child_run("gemm", NULL), 0);
	assert_int_equal(child_run("gemm", (const char *[]){"FP16=1", NULL}), 0);
}

/* --- rows ---------------------------------------------------------------------------------------
 */

static void check_norm(uint32_t d, float range)
{
	uint32_t m = 5;
	float *x = ops_world_floats(d, m * d, range), *weight = ops_world_floats(9, d, 2);
	float *x_device = ops_world_put(ops, x, m * d * sizeof(*x));
	float *weight_device = ops_world_put(ops, weight, d * sizeof(*weight));
	kernel_bf16 *out = ops->memory_new(ops, m * d * sizeof(*out));
	kernel_bf16 *got = malloc(2 * m * d * sizeof(*got)), *want = got + m * d;

	begin_any();
	ops->rmsnorm(ctx, x_device, weight_device, 1e-5f, out, m, d);
	end();
	child_read(got, out, m * d * sizeof(*got));
	ref_norm(x, weight, 1e-5f, want, m, d, type);
	for (uint32_t i = 0; i < m * d; i++)
		CHECK(near(half(got[i]), half(want[i]), small_half(), close_half()));
	/* The third row alone. */
	begin_any();
	ops->rmsnorm(ctx, x_device + 2 * d, weight_device, 1e-5f, out, 1, d);
	end();
	child_read(want, out, d * sizeof(*want));
	CHECK(memcmp(got + 2 * d, want, d * sizeof(*want)) == 0);
	ops->memory_free(ops, x_device, 0);
	ops->memory_free(ops, weight_device, 0);
	ops->memory_free(ops, out, 0);
	free(x);
	free(weight);
	free(got);
}

static void check_embed(uint32_t v, uint32_t d)
{
	struct kernel_weight w = ops_world_weight(ops, d, KERNEL_WEIGHT_PLAIN, v, d, type);
	struct kernel_weight twin = twin_weight(d, KERNEL_WEIGHT_PLAIN, v, d);
	uint32_t tokens[] = {v - 1, KERNEL_TOKEN_DRAWN | 2, v / 2, 0, KERNEL_TOKEN_DRAWN};
	const uint32_t drawn[] = {v / 3, v + 1, 1}, m = ARRAY_LEN(tokens);
	uint32_t sampled[] = {1, 2, 4};
	struct kernel_batch given;
	float *x = ops->memory_new(ops, 2 * m * d * sizeof(*x));
	float *got = malloc(2 * m * d * sizeof(*got)), *want = got + m * d;

	begin(&(struct kernel_batch){.tokens = tokens,
				     .rows = m,
				     .sampled = sampled,
				     .sampled_count = ARRAY_LEN(sampled)},
	      &given);
	CHECK(!given.params);
	IS(ops->memory_write(ops, (void *)(uintptr_t)given.drawn, drawn, sizeof(drawn)), 0);
	ops->embed(ctx, &w, given.tokens, given.drawn, x, given.rows);
	ops->gather(ctx, x, given.sampled, given.sampled_count, d, x + m * d);
	end();
	child_read(got, x, m * d * sizeof(*got));
	ref_embed(&twin, tokens, drawn, want, m);
	CHECK(memcmp(got, want, m * d * sizeof(*got)) == 0);
	child_read(want, x + m * d, ARRAY_LEN(sampled) * d * sizeof(*got));
	for (uint32_t i = 0; i < ARRAY_LEN(sampled); i++)
		CHECK(memcmp(want + i * d, got + sampled[i] * d, d * sizeof(*got)) == 0);
	ops->memory_free(ops, x, 0);
	drop(ops, &w);
	drop(kernels_cpu("portable"), &twin);
	free(got);
}

static void role_rows(void)
{
	static const uint32_t widths[] = {1, 7, 96, 255, 256, 257, 1000};

	start();
	for (size_t i = 0; i < ARRAY_LEN(widths); i++) {
		check_norm(widths[i], 3);
		check_norm(widths[i], 1e-4f);
		check_embed(11, widths[i]);
	}
	kernels_ctx_free(ctx);
}

/* Each way to a half: beyond the range comes its end, and nothing is infinite. */
static void role_range(void)
{
	const float large[] = {1e9f, -1e9f, 65504, 65519, 65520, -70000, 1, 0};
	const float one[8] = {1}, back[] = {1, 1, 1, 1, 1, 1, 1, 1};
	uint32_t n = ARRAY_LEN(large);
	struct kernel_weight w = {.n = n, .k = 1, .type = KERNEL_FP16};
	float *weights = ops_world_put(ops_world_table(), large, sizeof(large));
	float *x = ops_world_put(ops_world_table(), back, sizeof(back));
	kernel_half got[8], *out = ops_world_table()->memory_new(ops_world_table(), sizeof(got));
	kernel_half *in;

	start();
	begin_any();
	ops->rmsnorm(ctx, x, weights, 0, out, 1, n);
	end();
	child_read(got, out, sizeof(got));
	for (uint32_t i = 0; i < n; i++)
		CHECK(got[i] == kernel_f32_to_fp16(large[i]) && fabs(half(got[i])) <= 65504);
	/* A product whose bias is beyond. */
	w.bytes = ops->weight_bytes(KERNEL_WEIGHT_PLAIN, n, 1);
	w.data = ops->memory_new(ops, w.bytes);
	ops->weight_pack(&w, 0, n, one);
	in = to_half(back, n);
	const struct kernel_gemm g = {.w = &w,
				      .x = ops_world_put(ops, in, 8 * sizeof(*in)),
				      .y = out,
				      .bias = weights,
				      .m = 1,
				      .ldx = 8,
				      .ldy = n,
				      .out = KERNEL_OUT_HALF};

	begin_any();
	ops->gemm(ctx, &g);
	end();
	child_read(got, out, sizeof(got));
	CHECK(half(got[0]) == 65504 && half(got[1]) == -65504 && half(got[5]) == -65504);
	CHECK(half(got[6]) == 1 && half(got[7]) == 0);
	free(in);
	kernels_ctx_free(ctx);
}

static void test_rows(void **state)
{
	assert_int_equal(child_run("rows", NULL), 0);
	assert_int_equal(child_run("rows", (const char *[]){"FP16=1", NULL}), 0);
	assert_int_equal(child_run("range", (const char *[]){"FP16=1", NULL}), 0);
}

/* --- rope and store ------------------------------------------------------------------------------
 */

struct rope_shape {
	uint32_t heads, kv_heads, head_dim, rope_dim;
	bool norm;
};

#define ROPE_ROWS 24u
#define ROPE_PAGES 4u /* that are there, of those that are named */

/* Rows 0..9 cross a page's end, 10..12 begin, 13 only asks, 14..23 are far out. */
static const struct kernel_seq rope_seqs[SEQS] = {
	{.row0 = 0, .rows = 10, .pos0 = 39},
	{.row0 = 10, .rows = 3, .pos0 = 0},
	{.row0 = 13, .rows = 1, .pos0 = 31, .query_only = 1},
	{.row0 = 14, .rows = 10, .pos0 = 16 * (PAGES - 1)},
};

static void rope_pages(struct kernel_seq *seqs, uint8_t *pool, uint64_t page_bytes,
		       uint64_t *pages[SEQS])
{
	for (uint32_t s = 0; s < SEQS; s++) {
		uint32_t last = (rope_seqs[s].pos0 + rope_seqs[s].rows - 1) / 16;

		pages[s] = calloc(PAGES, sizeof(*pages[s]));
		for (uint32_t i = 0; i < ROPE_PAGES; i++)
			if (i <= last)
				pages[s][last - i] =
					(uint64_t)(uintptr_t)pool + (i * SEQS + s) * page_bytes;
		seqs[s] = rope_seqs[s];
		seqs[s].pages = pages[s];
	}
}

static void rope_compare(const struct kvd_layout *l, const uint8_t *got, const uint8_t *want)
{
	uint64_t page_bytes = kvd_layout_page_bytes(l);

	for (uint32_t p = 0; p < SEQS * ROPE_PAGES; p++, got += page_bytes, want += page_bytes)
		for (uint32_t h = 0; h < l->kv_heads; h++)
			for (uint32_t t = 0; t < l->page_tokens; t++)
				for (uint32_t d = 0; d < l->head_dim; d++) {
					uint64_t at = kvd_layout_token_index(l, t, d);
					kernel_bf16 k =
						((const kernel_bf16 *)(got +
								       kvd_layout_k(l, 1, h)))[at];
					kernel_bf16 v =
						((const kernel_bf16 *)(got +
								       kvd_layout_v(l, 1, h)))[at];
					kernel_bf16 wk = ((
						const kernel_bf16 *)(want + kvd_layout_k(l, 1, h)))
						[kvd_layout_k16_index(l, t, d)];
					kernel_bf16 wv = ((
						const kernel_bf16 *)(want + kvd_layout_v(l, 1, h)))
						[kvd_layout_v2_index(l, t, d)];

					CHECK(near(kernel_bf16_to_f32(k), kernel_bf16_to_f32(wk),
						   1e-5, CLOSE_BF16));
					IS(v, wv);
				}
}

static void check_bf16(const kernel_bf16 *got, const kernel_bf16 *want, size_t count)
{
	for (size_t i = 0; i < count; i++)
		CHECK(near(kernel_bf16_to_f32(got[i]), kernel_bf16_to_f32(want[i]), 1e-5,
			   CLOSE_BF16));
}

/* Pages are moved as a whole: the second half of `device`, which holds `was`, over the first. */
static void check_page_copy(uint8_t *device, const uint8_t *was, uint8_t *buffer, size_t bytes)
{
	ops->page_copy(ctx, (uint64_t)(uintptr_t)device, (uint64_t)(uintptr_t)device + bytes,
		       bytes);
	child_read(buffer, device, 2 * bytes);
	CHECK(memcmp(buffer, was + bytes, bytes) == 0);
	CHECK(memcmp(buffer + bytes, was + bytes, bytes) == 0);
}

static void check_rope(const struct rope_shape *s)
{
	struct kvd_layout l = {.layers = 2,
			       .kv_heads = s->kv_heads,
			       .head_dim = s->head_dim,
			       .page_tokens = 16,
			       .element_bytes = 2};
	size_t pool_bytes = SEQS * ROPE_PAGES * kvd_layout_page_bytes(&l);
	size_t q_count = (size_t)ROPE_ROWS * s->heads * s->head_dim;
	float *qkv = ops_world_floats(1, ROPE_ROWS * (s->heads + 2 * s->kv_heads) * s->head_dim, 3);
	float *inv_freq = ops_world_floats(2, s->rope_dim / 2, 1);
	float *norm = ops_world_floats(3, s->head_dim, 2);
	struct kernel_rope_store twin = {.qkv = qkv,
					 .q = malloc(q_count * 2),
					 .inv_freq = inv_freq,
					 .q_norm = s->norm ? norm : NULL,
					 .k_norm = s->norm ? norm + 1 : NULL,
					 .norm_eps = 1e-6f,
					 .heads = s->heads,
					 .rope_dim = s->rope_dim,
					 .layer = 1,
					 .layout = &l,
					 .seq_count = SEQS};
	struct kernel_rope_store r = twin;
	struct kernel_seq seqs[SEQS], twin_seqs[SEQS];
	uint8_t *pool = calloc(1, pool_bytes), *got = malloc(pool_bytes);
	uint8_t *device = ops->memory_new(ops, pool_bytes);
	kernel_bf16 *q = malloc(q_count * 2);
	uint64_t *pages[SEQS], *twin_pages[SEQS];
	struct kernel_batch given;

	/* A head more of weights: k's begin one further. */
	norm = realloc(norm, (s->head_dim + 1) * sizeof(*norm));
	norm[s->head_dim] = 0.5f;
	twin.q_norm = s->norm ? norm : NULL;
	twin.k_norm = s->norm ? norm + 1 : NULL;
	rope_pages(seqs, device, kvd_layout_page_bytes(&l), pages);
	rope_pages(twin_seqs, pool, kvd_layout_page_bytes(&l), twin_pages);
	twin.seqs = twin_seqs;
	ref_rope(&twin);

	r.qkv = ops_world_put(ops, qkv, ROPE_ROWS * (s->heads + 2 * s->kv_heads) * s->head_dim * 4);
	r.q = ops->memory_new(ops, q_count * 2);
	r.inv_freq = ops_world_put(ops, inv_freq, s->rope_dim / 2 * sizeof(*inv_freq));
	float *norm_device = ops_world_put(ops, norm, (s->head_dim + 1) * sizeof(*norm));
	r.q_norm = s->norm ? norm_device : NULL;
	r.k_norm = s->norm ? norm_device + 1 : NULL;
	begin(
		&(struct kernel_batch){
			.tokens = step.tokens, .rows = ROPE_ROWS, .seqs = seqs, .seq_count = SEQS},
		&given);
	r.seqs = given.seqs;
	ops->rope_store(ctx, &r);
	end();
	child_read(q, r.q, q_count * 2);
	check_bf16(q, twin.q, q_count);
	child_read(got, device, pool_bytes);
	rope_compare(&l, got, pool);

	check_page_copy(device, got, pool, pool_bytes / 2);

	for (uint32_t i = 0; i < SEQS; i++) {
		free(pages[i]);
		free(twin_pages[i]);
	}
	void *const on_device[] = {(void *)r.qkv, r.q, (void *)r.inv_freq, norm_device, device};
	void *const on_host[] = {qkv, inv_freq, norm, twin.q, q, pool, got};

	for (size_t i = 0; i < ARRAY_LEN(on_device); i++)
		ops->memory_free(ops, on_device[i], 0);
	for (size_t i = 0; i < ARRAY_LEN(on_host); i++)
		free(on_host[i]);
}

static void role_rope(void)
{
	static const struct rope_shape shapes[] = {
		{9, 3, 64, 64, false}, {4, 1, 256, 256, true}, {16, 8, 128, 128, true},
		{2, 2, 64, 32, true},  {3, 1, 128, 6, false},
	};

	start();
	for (size_t i = 0; i < ARRAY_LEN(shapes); i++)
		check_rope(&shapes[i]);
	kernels_ctx_free(ctx);
}

static void test_rope_store_and_page_copy(void **state)
{
	assert_int_equal(child_run("rope", NULL), 0);
}

/* --- sampling ------------------------------------------------------------------------------------
 */

static const struct kernel_sample_params sampling[] = {
	{0, 1, 0, 0, 0.50123f},	   {1, 1, 0, 0, 0.31237f},	 {0.7f, 0.9f, 0, 0, 0.98917f},
	{1.5f, 1, 0, 40, 0.7111f}, {1, 1, 0.05f, 0, 0.2039f},	 {0.8f, 0.95f, 0.01f, 50, 0.5511f},
	{2, 0.5f, 0, 3, 0},	   {1, 0.0001f, 0, 0, 0.90371f}, {1, 1, 1, 0, 0.90371f},
	{0.01f, 1, 0, 0, 0.999f},  {1, 1, 0, 1, 0.9999f},	 {1, 0.99f, 0, 1000000, 0.41713f},
};
#define DRAWS ARRAY_LEN(sampling)

static void draw(const float *logits, uint32_t m, uint32_t v,
		 const struct kernel_sample_params *params, uint32_t *tokens, float *logprobs)
{
	float *device = ops_world_put(ops, logits, (size_t)m * v * sizeof(*logits));
	struct kernel_batch given;

	begin(&(struct kernel_batch){.tokens = step.tokens,
				     .rows = 1,
				     .sampled = step.tokens,
				     .params = params,
				     .sampled_count = m,
				     .out_tokens = tokens,
				     .out_logprobs = logprobs},
	      &given);
	ops->sample(ctx, device, m, v, given.params, given.out_tokens, given.out_logprobs);
	end();
	ops->memory_free(ops, device, 0);
}

/* A draw on the edge between two tokens may fall to either. */
static bool on_an_edge(const float *logits, uint32_t v, const struct kernel_sample_params *p)
{
	struct kernel_sample_params near_by = *p;
	uint32_t low, high;
	float ignored;

	near_by.uniform = p->uniform * (1 - 2e-6f);
	ref_sample(logits, v, &near_by, &low, &ignored);
	near_by.uniform = BITS_MIN(p->uniform * (1 + 2e-6f), 0.9999999f);
	ref_sample(logits, v, &near_by, &high, &ignored);
	return low != high;
}

static void check_draws(uint32_t v, double range, bool ban)
{
	struct kernel_sample_params params[DRAWS];
	float *logits = ops_world_floats(v, DRAWS * (size_t)v, range);
	uint32_t got[DRAWS], want, compared = 0;
	float logprobs[DRAWS], logprob;

	memcpy(params, sampling, sizeof(params));
	if (ban) {
		draw(logits, DRAWS, v, params, got, logprobs);
		for (uint32_t i = 0; i < DRAWS; i++) {
			params[i].banned_count = 2;
			params[i].banned[0] = got[i];
			params[i].banned[1] = (got[i] + 1) % v;
		}
	}
	draw(logits, DRAWS, v, params, got, logprobs);
	for (uint32_t i = 0; i < DRAWS; i++) {
		const float *row = logits + (size_t)i * v;

		CHECK(!ban || (got[i] != params[i].banned[0] && got[i] != params[i].banned[1]));
		if (on_an_edge(row, v, &params[i]))
			continue;
		ref_sample(row, v, &params[i], &want, &logprob);
		IS(got[i], want);
		CHECK(near(logprobs[i], logprob, 1e-4, 1e-5));
		compared++;
	}
	CHECK(compared >= DRAWS / 2);
	free(logits);
}

static void check_odd(const float *logits, uint32_t v, float temperature, uint32_t want)
{
	struct kernel_sample_params p = {temperature, 0.9f, 0, 0, 0.1f};
	uint32_t token;
	float logprob;

	draw(logits, 1, v, &p, &token, &logprob);
	IS(token, want);
	CHECK(logprob <= 0);
}

static void check_frequencies(void)
{
	const float logits[4] = {0, logf(2), logf(3), logf(4)};
	uint32_t hits[4] = {0};

	for (uint32_t i = 0; i < 100; i++) {
		struct kernel_sample_params p = {1, 1, 0, 0, ((float)i + 0.5f) / 100};
		uint32_t token;
		float logprob;

		draw(logits, 1, 4, &p, &token, &logprob);
		hits[token]++;
	}
	for (uint32_t i = 0; i < 4; i++)
		CHECK(hits[i] + 1 >= 10 * (i + 1) && hits[i] <= 10 * (i + 1) + 1);
}

static void role_sample(void)
{
	static const uint32_t vocabs[] = {1, 2, 17, 1000, 1024, 1025, 49152};
	float equal[100] = {[17] = 2, [40] = 2, [99] = 2};

	start();
	for (size_t i = 0; i < ARRAY_LEN(vocabs); i++) {
		check_draws(vocabs[i], 6, false);
		check_draws(vocabs[i], 0, false);
		if (vocabs[i] > 2)
			check_draws(vocabs[i], 4, true);
	}
	check_odd(equal, 100, 0, 17);
	for (int hot = 0; hot < 2; hot++) {
		float t = (float)hot;

		check_odd((float[]){NAN, 1, 0}, 3, t, 1);
		check_odd((float[]){0, INFINITY, -5}, 3, t, 1);
		check_odd((float[]){NAN, NAN}, 2, t, 0);
		check_odd((float[]){-INFINITY, -INFINITY, -INFINITY}, 3, t, 0);
		check_odd((float[]){-INFINITY, 3, NAN, -INFINITY}, 4, t, 1);
		check_odd((float[]){1, 2, 3}, 3, 1e-40f, 2);
	}
	check_frequencies();
	kernels_ctx_free(ctx);
}

static void test_sampling(void **state)
{
	assert_int_equal(child_run_seeds("sample", NULL), 0);
}

static const struct child_role roles[] = {
	{"gemm", role_gemm},	 {"rows", role_rows},	{"rope", role_rope},
	{"sample", role_sample}, {"range", role_range}, {NULL, NULL},
};

CHILD_MAIN(ops_kernels, roles, cmocka_unit_test(test_products), cmocka_unit_test(test_rows),
	   cmocka_unit_test(test_rope_store_and_page_copy), cmocka_unit_test(test_sampling))
