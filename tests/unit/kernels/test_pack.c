/* SPDX-License-Identifier: Apache-2.0 */
/* Packing puts each weight where the twin looks for it, and zeroes what is missing. */
#include "kernels/cpu/pack.h"
#include "kernels/cpu/ref/ref.h"
#include "tests/unit/kernels/fixture.h"

static void check(enum kernel_weight_kind kind, uint32_t n, uint32_t k)
{
	uint64_t seed = 7;
	float *rows = fixture_floats(&seed, (size_t)n * k, 1);
	struct kernel_weight w = {.kind = kind, .n = n, .k = k, .bytes = pack_bytes(kind, n, k)};
	size_t nonzero = 0;

	w.data = fixture_alloc(w.bytes);
	memset(w.data, 0, w.bytes);
	pack_rows(&w, n / 2, n - n / 2, rows + (size_t)(n / 2) * k);
	pack_rows(&w, 0, n / 2, rows);
	for (uint32_t r = 0; r < n; r++)
		for (uint32_t i = 0; i < k; i++) {
			kernel_bf16 b = kernel_f32_to_bf16(rows[(size_t)r * k + i]);

			assert_true(ref_gemm_weight(&w, r, i) == (double)kernel_bf16_to_f32(b));
			nonzero += b << 1 != 0;
		}
	for (size_t i = 0; i < w.bytes / sizeof(kernel_bf16); i++)
		nonzero -= ((kernel_bf16 *)w.data)[i] << 1 != 0;
	assert_int_equal(nonzero, 0);
	free(w.data);
	free(rows);
}

static void every_weight_has_its_place(void **state)
{
	(void)state;
	check(KERNEL_WEIGHT_PLAIN, 64, 32);
	check(KERNEL_WEIGHT_PLAIN, 130, 33);
	check(KERNEL_WEIGHT_PLAIN, 1, 1);
	check(KERNEL_WEIGHT_GATE_UP, 128, 32);
	check(KERNEL_WEIGHT_GATE_UP, 2 * 45, 31);
}

static void bytes_count_the_padding(void **state)
{
	(void)state;
	assert_int_equal(pack_bytes(KERNEL_WEIGHT_PLAIN, 65, 3), 2 * 64 * 4 * 2);
	assert_int_equal(pack_bytes(KERNEL_WEIGHT_GATE_UP, 66, 4), 2 * 64 * 4 * 2);
}

TEST_MAIN(pack, cmocka_unit_test(every_weight_has_its_place),
	  cmocka_unit_test(bytes_count_the_padding))
