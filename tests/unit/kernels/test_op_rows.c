/* SPDX-License-Identifier: Apache-2.0 */
/* Embedding, norm, gather, page copy; and the exponential they all share. */
#include "kernels/cpu/expf.h"
#include "kernels/cpu/ref/ref.h"
#include "tests/unit/kernels/fixture.h"

static void embed_is_exact(void **state)
{
	static const uint32_t ks[] = {64, 576, 33};
	uint32_t tokens[20], drawn[20];

	(void)state;
	FIXTURE_EACH_TABLE(ops)
	for (size_t i = 0; i < ARRAY_LEN(ks); i++) {
		uint64_t seed = i;
		struct kernels_ctx *ctx = fixture_ctx(ops, 3);
		struct kernel_weight w =
			fixture_weight(ops, &seed, KERNEL_WEIGHT_PLAIN, 333, ks[i]);
		float *got = fixture_alloc(20 * ks[i] * sizeof(float));
		float *want = fixture_alloc(20 * ks[i] * sizeof(float));

		for (int t = 0; t < 20; t++)
			tokens[t] = (uint32_t)(test_random(&seed) % 333);
		ref_embed(&w, tokens, NULL, want, 20);
		ops->embed(ctx, &w, tokens, NULL, got, 20);
		assert_memory_equal(got, want, 20 * ks[i] * sizeof(float));
		/* The same, some of them from what was drawn before. */
		for (uint32_t t = 0; t < 20; t++) {
			drawn[19 - t] = tokens[t];
			if (t % 3)
				tokens[t] = KERNEL_TOKEN_DRAWN | (19 - t);
		}
		memset(got, 0xff, 20 * ks[i] * sizeof(float));
		ops->embed(ctx, &w, tokens, drawn, got, 20);
		assert_memory_equal(got, want, 20 * ks[i] * sizeof(float));
		ref_embed(&w, tokens, drawn, got, 20);
		assert_memory_equal(got, want, 20 * ks[i] * sizeof(float));
		free(got);
		free(want);
		free(w.data);
		kernels_ctx_free(ctx);
	}
}

static void check_norm(const struct kernel_ops *ops, uint32_t m, uint32_t d)
{
	uint64_t seed = m + d;
	float *x = fixture_floats(&seed, (size_t)m * d, 3);
	float *weight = fixture_floats(&seed, d, 1);
	kernel_bf16 *got = fixture_alloc((size_t)m * d * 2);
	kernel_bf16 *want = fixture_alloc((size_t)m * d * 2);
	struct kernels_ctx *ctx = fixture_ctx(ops, 2);

	ops->rmsnorm(ctx, x, weight, 1e-5f, got, m, d);
	ref_norm(x, weight, 1e-5f, want, m, d, KERNEL_BF16);
	fixture_close_bf16(got, want, (size_t)m * d, 0, 0.008);
	for (uint32_t r = 0; r < m; r++) {
		ops->rmsnorm(ctx, x + (size_t)r * d, weight, 1e-5f, want, 1, d);
		assert_memory_equal(got + (size_t)r * d, want, d * 2);
	}
	kernels_ctx_free(ctx);
	free(x);
	free(weight);
	free(got);
	free(want);
}

static void norm_matches_the_twin(void **state)
{
	static const uint32_t ms[] = {1, 7, 63, 64, 65};
	static const uint32_t ds[] = {576, 640, 100, 7, 2048};

	(void)state;
	FIXTURE_EACH_TABLE(ops)
	for (size_t i = 0; i < ARRAY_LEN(ms); i++)
		for (size_t j = 0; j < ARRAY_LEN(ds); j++)
			check_norm(ops, ms[i], ds[j]);
}

static void norm_keeps_nan_in_its_row(void **state)
{
	(void)state;
	FIXTURE_EACH_TABLE(ops)
	{
		struct kernels_ctx *ctx = fixture_ctx(ops, 1);
		float x[2][20] = {{NAN}, {0}};
		float weight[20] = {1, 1};
		kernel_bf16 out[2][20];

		x[1][1] = 1e-40f;
		ops->rmsnorm(ctx, &x[0][0], weight, 1e-5f, &out[0][0], 2, 20);
		assert_true(isnan(kernel_bf16_to_f32(out[0][1])));
		assert_true(isfinite(kernel_bf16_to_f32(out[1][1])));
		kernels_ctx_free(ctx);
	}
}

static void copies_are_exact(void **state)
{
	uint64_t seed = 1;
	float *x = fixture_floats(&seed, 300 * 1000, 1);
	float *got = fixture_alloc(300 * 1000 * sizeof(float));
	float *want = fixture_alloc(300 * 1000 * sizeof(float));
	uint32_t rows[50];

	(void)state;
	for (int i = 0; i < 50; i++)
		rows[i] = (uint32_t)(test_random(&seed) % 300);
	ref_copy_rows(x, rows, 50, 1000, want);
	FIXTURE_EACH_TABLE(ops)
	{
		struct kernels_ctx *ctx = fixture_ctx(ops, 3);

		ops->gather(ctx, x, rows, 50, 1000, got);
		assert_memory_equal(got, want, 50 * 1000 * sizeof(float));
		for (uint64_t bytes = 1; bytes < 1200000; bytes = bytes * 3 + 1) {
			memset(got, 0, 1200000);
			ops->page_copy(ctx, (uintptr_t)got, (uintptr_t)x, bytes);
			assert_memory_equal(got, x, bytes);
			assert_int_equal(((char *)got)[bytes], 0);
		}
		kernels_ctx_free(ctx);
	}
	free(x);
	free(got);
	free(want);
}

static void exp_is_close_to_libm(void **state)
{
	(void)state;
	for (float x = -80; x < 80; x += 0.0137f)
		assert_true(fabs(expf_exp(x) / exp((double)x) - 1) < 6e-6);
	for (float x = -1; x < 1; x += 0.00137f)
		assert_true(fabs(expf_exp2(x) / exp2((double)x) - 1) < 3e-7);
	assert_true(expf_exp2(0) == 1);
	assert_true(expf_exp2(-INFINITY) == 0);
	assert_true(expf_exp2(-1000) == 0);
	assert_true(isfinite(expf_exp2(1000)));
	assert_true(isnan(expf_exp2(NAN)));
}

TEST_MAIN(op_rows, cmocka_unit_test(embed_is_exact), cmocka_unit_test(norm_matches_the_twin),
	  cmocka_unit_test(norm_keeps_nan_in_its_row), cmocka_unit_test(copies_are_exact),
	  cmocka_unit_test(exp_is_close_to_libm))
