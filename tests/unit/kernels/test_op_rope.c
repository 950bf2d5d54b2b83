/* SPDX-License-Identifier: Apache-2.0 */
/* Rotation and store against the twin: q, every byte of the pages, norms, partial rotation. */
#include "kernels/cpu/ref/ref.h"
#include "kernels/cpu/sincos.h"
#include "tests/unit/kernels/fixture.h"

struct rope_case {
	uint32_t pos0, rows, heads, kv_heads, head_dim, rope_dim, page_tokens;
	bool norm;
};

static const struct rope_case cases[] = {
	{0, 100, 9, 3, 64, 64, 32, false},     {37, 70, 4, 1, 256, 256, 64, true},
	{5, 1, 2, 2, 80, 80, 16, false},       {31, 2, 3, 1, 96, 48, 128, true},
	{1000, 65, 2, 1, 128, 128, 16, false},
};

struct rope_data {
	struct fixture_pages pages;
	float *qkv;
	float *inv_freq;
	float *norm;
	kernel_bf16 *q;
	struct kernel_seq seq;
	struct kernel_rope_store r;
};

static void data_init(struct rope_data *d, const struct rope_case *c)
{
	struct kvd_layout layout = {2, c->kv_heads, c->head_dim, c->page_tokens, 2};
	uint64_t seed = c->pos0 + 5;
	size_t q_bytes = (size_t)c->rows * c->heads * c->head_dim * 2;

	fixture_pages_init(&d->pages, &layout, c->pos0 + c->rows);
	d->qkv = fixture_floats(&seed, (size_t)c->rows * (c->heads + 2 * c->kv_heads) * c->head_dim,
				2);
	d->norm = fixture_floats(&seed, c->head_dim, 1);
	d->inv_freq = fixture_alloc(c->rope_dim * sizeof(float));
	for (uint32_t i = 0; i < c->rope_dim / 2; i++)
		d->inv_freq[i] = powf(1e5f, -2.0f * (float)i / (float)c->rope_dim);
	d->q = memset(fixture_alloc(q_bytes), 0xff, q_bytes);
	d->seq = (struct kernel_seq){.rows = c->rows, .pos0 = c->pos0, .pages = d->pages.page};
	d->r = (struct kernel_rope_store){.qkv = d->qkv,
					  .q = d->q,
					  .inv_freq = d->inv_freq,
					  .q_norm = c->norm ? d->norm : NULL,
					  .k_norm = c->norm ? d->norm : NULL,
					  .norm_eps = 1e-6f,
					  .heads = c->heads,
					  .rope_dim = c->rope_dim,
					  .layer = 1,
					  .layout = &d->pages.layout,
					  .seqs = &d->seq,
					  .seq_count = 1};
}

static void data_fini(struct rope_data *d)
{
	fixture_pages_fini(&d->pages);
	free(d->qkv);
	free(d->inv_freq);
	free(d->norm);
	free(d->q);
}

static void results_match_the_twin(void **state)
{
	(void)state;
	FIXTURE_EACH_TABLE(ops)
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		for (uint32_t threads = 1; threads <= FIXTURE_THREADS_MAX; threads++) {
			struct kernels_ctx *ctx = fixture_ctx(ops, threads);
			struct rope_data got, want;

			data_init(&got, &cases[i]);
			data_init(&want, &cases[i]);
			ops->rope_store(ctx, &got.r);
			ref_rope(&want.r);
			fixture_close_bf16(got.q, want.q,
					   (size_t)cases[i].rows * cases[i].heads *
						   cases[i].head_dim,
					   1e-5, 0.008);
			fixture_close_bf16((kernel_bf16 *)got.pages.memory,
					   (kernel_bf16 *)want.pages.memory, got.pages.bytes / 2,
					   1e-5, 0.008);
			data_fini(&got);
			data_fini(&want);
			kernels_ctx_free(ctx);
		}
}

static void query_only_rows_store_nothing(void **state)
{
	(void)state;
	FIXTURE_EACH_TABLE(ops)
	{
		struct kernels_ctx *ctx = fixture_ctx(ops, 2);
		struct rope_data d;

		data_init(&d, &cases[0]);
		d.seq.query_only = 1;
		ops->rope_store(ctx, &d.r);
		for (uint64_t i = 0; i < d.pages.bytes; i++)
			assert_int_equal((unsigned char)d.pages.memory[i], 0xff);
		assert_false(isnan(kernel_bf16_to_f32(d.q[0])));
		data_fini(&d);
		kernels_ctx_free(ctx);
	}
}

static void angles_are_those_of_libm(void **state)
{
	uint64_t seed = 3;

	(void)state;
	for (int i = 0; i < 200000; i++) {
		double angle = test_uniform(&seed) * (i % 2 ? 10 : 1 << 20);
		float c, s;

		sincos_angle(angle, &c, &s);
		assert_true(fabs(c - cos(angle)) < 1e-7);
		assert_true(fabs(s - sin(angle)) < 1e-7);
	}
}

TEST_MAIN(op_rope, cmocka_unit_test(results_match_the_twin),
	  cmocka_unit_test(query_only_rows_store_nothing),
	  cmocka_unit_test(angles_are_those_of_libm))
