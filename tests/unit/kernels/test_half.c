/* SPDX-License-Identifier: Apache-2.0 */
/* The two half types: every value there and back, and between two neighbours to the nearer one. */
#include "kernels/kernels.h"
#include "tests/test.h"
#include <math.h>

static bool is_nan(float v)
{
	return v != v;
}

static void fp16_goes_there_and_back(void **state)
{
	assert_true(kernel_fp16_to_f32(0x3c00) == 1 && kernel_fp16_to_f32(0xc000) == -2);
	assert_true(kernel_fp16_to_f32(0x7bff) == 65504 && kernel_fp16_to_f32(1) == 0x1p-24f);
	assert_true(kernel_fp16_to_f32(0x0400) == 0x1p-14f && isinf(kernel_fp16_to_f32(0x7c00)));
	for (uint32_t bits = 0; bits < 0x10000; bits++) {
		float v = kernel_fp16_to_f32((uint16_t)bits);

		if (is_nan(v))
			assert_true(is_nan(kernel_fp16_to_f32(kernel_f32_to_fp16(v))));
		else if (!isinf(v))
			assert_int_equal(kernel_f32_to_fp16(v), bits);
	}
}

static void fp16_rounds_to_the_nearer(void **state)
{
	for (uint16_t bits = 0; bits < 0x7bff; bits++) {
		float lo = kernel_fp16_to_f32(bits), hi = kernel_fp16_to_f32(bits + 1);
		float middle = (lo + hi) / 2;

		assert_int_equal(kernel_f32_to_fp16(nextafterf(middle, lo)), bits);
		assert_int_equal(kernel_f32_to_fp16(nextafterf(middle, hi)), bits + 1);
		assert_int_equal(kernel_f32_to_fp16(middle), bits + bits % 2);
		assert_int_equal(kernel_f32_to_fp16(-middle), 0x8000 | (bits + bits % 2));
	}
}

static void fp16_stays_in_range(void **state)
{
	assert_int_equal(kernel_f32_to_fp16(65519), 0x7bff);
	assert_int_equal(kernel_f32_to_fp16(65520), 0x7bff);
	assert_int_equal(kernel_f32_to_fp16(1e30f), 0x7bff);
	assert_int_equal(kernel_f32_to_fp16(-INFINITY), 0xfbff);
	assert_int_equal(kernel_f32_to_fp16(1e-30f), 0);
	assert_int_equal(kernel_f32_to_fp16(-0.0f), 0x8000);
}

static void a_type_says_which(void **state)
{
	assert_int_equal(kernel_f32_to_half(1, KERNEL_FP16), 0x3c00);
	assert_int_equal(kernel_f32_to_half(1, KERNEL_BF16), 0x3f80);
	assert_true(kernel_half_to_f32(0x3c00, KERNEL_FP16) == 1);
	assert_true(kernel_half_to_f32(0x3f80, KERNEL_BF16) == 1);
}

TEST_MAIN(half, cmocka_unit_test(fp16_goes_there_and_back),
	  cmocka_unit_test(fp16_rounds_to_the_nearer), cmocka_unit_test(fp16_stays_in_range),
	  cmocka_unit_test(a_type_says_which))
