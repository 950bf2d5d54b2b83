/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever decides a KV bit changes the identity, and nothing else does. */
#include "engine/identity.h"
#include "tests/test.h"

static struct kernel_ops ops;
static struct model model;

static int setup(void **state)
{
	ops = (struct kernel_ops){.name = "x", .numerics_id = "cpu-x-r1", .layout = "layout"};
	model = (struct model){.ops = &ops, .h = {.layers = 2, .kv_heads = 3, .head_dim = 64}};
	memcpy(model.digest, "0123456789abcdef", 16);
	return 0;
}

static uint64_t first_word(uint32_t page_tokens)
{
	uint8_t digest[16];
	uint64_t word;

	identity_digest(&model, page_tokens, digest);
	memcpy(&word, digest, sizeof(word));
	return word;
}

static void ingredients_change_it(void **state)
{
	uint64_t base = first_word(64);

	assert_int_equal(first_word(64), base);
	assert_int_not_equal(first_word(32), base);
	model.digest[15] ^= 1;
	assert_int_not_equal(first_word(64), base);
	model.digest[15] ^= 1;
	ops.numerics_id = "cpu-y-r1";
	assert_int_not_equal(first_word(64), base);
	ops.numerics_id = "cpu-x-r1";
	ops.layout = "other";
	assert_int_not_equal(first_word(64), base);
	ops.layout = "layout";
	model.type = KERNEL_FP16;
	assert_int_not_equal(first_word(64), base);
}

static void names_do_not(void **state)
{
	uint64_t base = first_word(64);

	strcpy(model.h.name, "a model by another name");
	model.h.context = 77;
	ops.name = "y";
	assert_int_equal(first_word(64), base);
}

static void description_fits_and_says_it(void **state)
{
	char text[1024], small[20];

	strcpy(model.h.name, "my model");
	identity_describe(&model, 64, text, sizeof(text));
	assert_non_null(strstr(text, "my model"));
	assert_non_null(strstr(text, "page_tokens 64"));
	identity_describe(&model, 64, small, sizeof(small));
	assert_true(strlen(small) < sizeof(small));
}

TEST_MAIN(identity, cmocka_unit_test_setup(ingredients_change_it, setup),
	  cmocka_unit_test_setup(names_do_not, setup),
	  cmocka_unit_test_setup(description_fits_and_says_it, setup))
