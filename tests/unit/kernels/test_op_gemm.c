/* SPDX-License-Identifier: Apache-2.0 */
/* GEMM against its twin over odd shapes, and the promise that a row's bits depend on it alone. */
#include "kernels/cpu/ref/ref.h"
#include "tests/unit/kernels/fixture.h"

struct gemm_case {
	uint32_t m, n, k;
	enum kernel_gemm_out out;
	bool bias;
};

struct gemm_data {
	struct kernel_weight w;
	kernel_bf16 *x;
	float *bias;
	float *y0; /* what y holds before */
	uint32_t ldx, ldy;
	size_t y_bytes;
};

static const struct gemm_case cases[] = {
	{1, 64, 64, KERNEL_OUT_F32, false},	    {7, 96, 128, KERNEL_OUT_F32, true},
	{63, 576, 576, KERNEL_OUT_F32, false},	    {64, 200, 96, KERNEL_OUT_ADD, true},
	{65, 64, 1536, KERNEL_OUT_ADD, false},	    {5, 65, 33, KERNEL_OUT_HALF, true},
	{97, 130, 80, KERNEL_OUT_HALF, false},	    {6, 2 * 40, 64, KERNEL_OUT_SWIGLU, false},
	{33, 2 * 160, 96, KERNEL_OUT_SWIGLU, true}, {129, 2 * 65, 47, KERNEL_OUT_SWIGLU, true},
	{300, 192, 640, KERNEL_OUT_F32, false},	    {17, 72, 4096, KERNEL_OUT_F32, false},
};

static struct gemm_data data_new(const struct kernel_ops *ops, const struct gemm_case *c)
{
	enum kernel_weight_kind kind =
		c->out == KERNEL_OUT_SWIGLU ? KERNEL_WEIGHT_GATE_UP : KERNEL_WEIGHT_PLAIN;
	uint64_t seed = c->m * 1000003ull + c->n * 1009ull + c->k;
	struct gemm_data d = {.ldx = c->k + c->m % 3, .ldy = c->n + 5};

	d.w = fixture_weight(ops, &seed, kind, c->n, c->k);
	d.x = fixture_bf16(&seed, (size_t)c->m * d.ldx, 1);
	d.bias = fixture_floats(&seed, c->n, 1);
	d.y0 = fixture_floats(&seed, (size_t)c->m * d.ldy, 1);
	d.y_bytes = (size_t)c->m * d.ldy * sizeof(float);
	return d;
}

static void data_free(struct gemm_data *d)
{
	free(d->w.data);
	free(d->x);
	free(d->bias);
	free(d->y0);
}

static struct kernel_gemm gemm_of(const struct gemm_case *c, const struct gemm_data *d, void *y)
{
	return (struct kernel_gemm){.w = &d->w,
				    .x = d->x,
				    .y = y,
				    .bias = c->bias ? d->bias : NULL,
				    .m = c->m,
				    .ldx = d->ldx,
				    .ldy = d->ldy,
				    .out = c->out};
}

static float *y_new(const struct gemm_data *d)
{
	return memcpy(fixture_alloc(d->y_bytes), d->y0, d->y_bytes);
}

static void check_twin(const struct kernel_ops *ops, const struct gemm_case *c)
{
	struct gemm_data d = data_new(ops, c);
	struct kernels_ctx *ctx = fixture_ctx(ops, 2);
	float *got = y_new(&d);
	float *want = y_new(&d);
	struct kernel_gemm g = gemm_of(c, &d, got);
	struct kernel_gemm r = gemm_of(c, &d, want);
	size_t n = (size_t)c->m * d.ldy;

	ops->gemm(ctx, &g);
	ref_gemm(&r);
	if (c->out == KERNEL_OUT_F32 || c->out == KERNEL_OUT_ADD)
		fixture_close_f32(got, want, n, 1e-4, 1e-4);
	else
		fixture_close_bf16((kernel_bf16 *)got, (kernel_bf16 *)want, n, 1e-3, 0.01);
	kernels_ctx_free(ctx);
	free(got);
	free(want);
	data_free(&d);
}

static void results_match_the_twin(void **state)
{
	(void)state;
	FIXTURE_EACH_TABLE(ops)
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		check_twin(ops, &cases[i]);
}

/* Rows in pieces of `step`, each as its own GEMM, have the bits of the whole. */
static void check_rows_alone(const struct kernel_ops *ops, const struct gemm_case *c,
			     uint32_t threads, uint32_t step)
{
	struct gemm_data d = data_new(ops, c);
	struct kernels_ctx *one = fixture_ctx(ops, 1);
	struct kernels_ctx *ctx = fixture_ctx(ops, threads);
	float *whole = y_new(&d);
	float *pieces = y_new(&d);
	struct kernel_gemm g = gemm_of(c, &d, whole);
	bool f32 = c->out == KERNEL_OUT_F32 || c->out == KERNEL_OUT_ADD;

	ops->gemm(one, &g);
	for (uint32_t r = 0; r < c->m; r += step) {
		struct kernel_gemm part = gemm_of(c, &d, pieces);

		part.m = BITS_MIN(step, c->m - r);
		part.x += (size_t)r * d.ldx;
		part.y = (char *)pieces + (size_t)r * d.ldy * (f32 ? 4 : 2);
		ops->gemm(ctx, &part);
	}
	assert_memory_equal(whole, pieces, d.y_bytes);
	kernels_ctx_free(one);
	kernels_ctx_free(ctx);
	free(whole);
	free(pieces);
	data_free(&d);
}

static void bits_depend_on_the_row_alone(void **state)
{
	static const uint32_t steps[] = {1, 5, 16, 33, 1000};

	(void)state;
	FIXTURE_EACH_TABLE(ops)
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		for (size_t s = 0; s < ARRAY_LEN(steps); s++)
			check_rows_alone(ops, &cases[i], 1 + (i + s) % FIXTURE_THREADS_MAX,
					 steps[s]);
}

/* A NaN or an infinity stays in its row; denormals do not disturb. */
static void a_bad_row_harms_only_itself(void **state)
{
	struct gemm_case c = {40, 130, 96, KERNEL_OUT_F32, true};

	(void)state;
	FIXTURE_EACH_TABLE(ops)
	{
		struct gemm_data d = data_new(ops, &c);
		struct kernels_ctx *ctx = fixture_ctx(ops, 2);
		float *clean = y_new(&d);
		float *y = y_new(&d);
		struct kernel_gemm g = gemm_of(&c, &d, clean);

		ops->gemm(ctx, &g);
		g.y = y;
		d.x[3 * d.ldx + 5] = 0x7fc0;
		d.x[9 * d.ldx + 7] = 0x7f80;
		d.x[11 * d.ldx + 1] = 0x0001;
		ops->gemm(ctx, &g);
		for (uint32_t r = 0; r < c.m; r++) {
			float *row = y + (size_t)r * d.ldy;

			if (r == 3 || r == 9)
				assert_false(isfinite(row[0]));
			else if (r == 11)
				assert_true(isfinite(row[0]));
			else
				assert_memory_equal(row, clean + (size_t)r * d.ldy, d.ldy * 4);
		}
		kernels_ctx_free(ctx);
		free(clean);
		free(y);
		data_free(&d);
	}
}

TEST_MAIN(op_gemm, cmocka_unit_test(results_match_the_twin),
	  cmocka_unit_test(bits_depend_on_the_row_alone),
	  cmocka_unit_test(a_bad_row_harms_only_itself))
