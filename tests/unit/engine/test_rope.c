/* SPDX-License-Identifier: Apache-2.0 */
/* rope.c: each scaling that files ask for, and the refusal of the others. */
#include "engine/model/gguf.h"
#include "engine/model/rope.h"
#include "tests/model/gguf_writer.h"
#include "tests/test.h"

#include <errno.h>
#include <math.h>

static const struct model_hparams h = {
	.arch = "llama", .rope_dim = 32, .head_dim = 32, .rope_theta = 100000.0f};

static int fill(const struct gguf_writer *w, float *out, char *error)
{
	struct gguf *g;

	assert_int_equal(gguf_open_memory(w->data, w->bytes, &g, error, MODEL_ERROR_MAX), 0);
	int status = rope_fill(g, &h, out, error);
	gguf_close(g);
	free(w->data);
	return status;
}

static struct gguf_writer scaled(const char *type, float factor)
{
	struct gguf_writer w = {0};

	gguf_writer_header(&w, 0, 2);
	gguf_writer_string(&w, "llama.rope.scaling.type", type);
	gguf_writer_f32(&w, "llama.rope.scaling.factor", factor);
	return w;
}

static void plain_frequencies(void **state)
{
	struct gguf_writer w = {0};
	char error[MODEL_ERROR_MAX];
	float out[16];

	(void)state;
	gguf_writer_header(&w, 0, 0);
	assert_int_equal(fill(&w, out, error), 0);
	assert_true(out[0] == 1.0f);
	/* 100000^(-1/2) and 100000^(-15/16) */
	assert_float_equal(out[8], 0.0031622777f, 1e-9);
	assert_float_equal(out[15], 2.0535250e-5f, 1e-11);
}

static void linear_scaling_divides_all(void **state)
{
	char error[MODEL_ERROR_MAX];
	struct gguf_writer w = scaled("linear", 8.0f);
	float out[16];

	(void)state;
	assert_int_equal(fill(&w, out, error), 0);
	assert_true(out[0] == 0.125f);
	assert_float_equal(out[8], 0.0031622777f / 8, 1e-9);
}

static void a_tensor_of_divisors_divides_each(void **state)
{
	struct gguf_writer w = {0};
	char error[MODEL_ERROR_MAX];
	float out[16];

	(void)state;
	gguf_writer_header(&w, 1, 0);
	gguf_writer_tensor(&w, ROPE_TENSOR, 0, 16, 0, 0);
	gguf_writer_align(&w, 32);
	for (int i = 0; i < 16; i++) {
		float divisor = i < 8 ? 1.0f : 32.0f;

		gguf_writer_bytes(&w, &divisor, sizeof(divisor));
	}
	assert_int_equal(fill(&w, out, error), 0);
	assert_true(out[0] == 1.0f);
	assert_float_equal(out[8], 0.0031622777f / 32, 1e-10);
}

static void other_scalings_are_refused(void **state)
{
	static const struct {
		const char *type;
		float factor;
		int status;
		const char *words;
	} cases[] = {{"yarn", 4, -ENOTSUP, "\"yarn\""},
		     {"longrope", 4, -ENOTSUP, "\"longrope\""},
		     {"linear", 0, -EINVAL, "scaling.factor"},
		     {"linear", NAN, -EINVAL, "scaling.factor"}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct gguf_writer w = scaled(cases[i].type, cases[i].factor);
		char error[MODEL_ERROR_MAX] = "";
		float out[16];

		assert_int_equal(fill(&w, out, error), cases[i].status);
		assert_non_null(strstr(error, cases[i].words));
	}
}

static void wrong_divisors_are_refused(void **state)
{
	static const struct {
		uint32_t count;
		float value;
		const char *words;
	} cases[] = {{8, 1, "one row of 16"}, {16, 0, "no divisor"}, {16, NAN, "no divisor"}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct gguf_writer w = {0};
		char error[MODEL_ERROR_MAX] = "";
		float out[16];

		gguf_writer_header(&w, 1, 0);
		gguf_writer_tensor(&w, ROPE_TENSOR, 0, cases[i].count, 0, 0);
		gguf_writer_align(&w, 32);
		for (uint32_t j = 0; j < cases[i].count; j++)
			gguf_writer_bytes(&w, &cases[i].value, sizeof(float));
		assert_int_equal(fill(&w, out, error), -EINVAL);
		assert_non_null(strstr(error, cases[i].words));
	}
}

TEST_MAIN(rope, cmocka_unit_test(plain_frequencies), cmocka_unit_test(linear_scaling_divides_all),
	  cmocka_unit_test(a_tensor_of_divisors_divides_each),
	  cmocka_unit_test(other_scalings_are_refused),
	  cmocka_unit_test(wrong_divisors_are_refused))
