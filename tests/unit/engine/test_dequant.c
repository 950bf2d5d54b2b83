/* SPDX-License-Identifier: Apache-2.0 */
/* dequant.c against vectors made by an independent implementation: tests/golden/make_dequant.py. */
#include "engine/model/dequant.h"
#include "tests/test.h"

#include <base/bits.h>

static uint8_t *golden;
static size_t golden_bytes;

static int setup(void **state)
{
	FILE *f = fopen(GOLDEN_DIR "/dequant.bin", "rb");

	(void)state;
	if (!f)
		return -1;
	golden = malloc(1 << 20);
	golden_bytes = golden ? fread(golden, 1, 1 << 20, f) : 0;
	fclose(f);
	return golden_bytes ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	free(golden);
	return 0;
}

/* Equal to the last bit: both sides round after each operation, in one order. */
static void every_type_matches_the_reference(void **state)
{
	uint32_t seen = 0;

	(void)state;
	for (size_t at = 0; at < golden_bytes; seen++) {
		uint32_t head[3];
		float out[3 * DEQUANT_BLOCK_MAX], want[3 * DEQUANT_BLOCK_MAX];

		memcpy(head, golden + at, sizeof(head));
		const struct dequant_type *type = dequant_find(head[0]);
		assert_non_null(type);
		uint32_t blocks = head[2] / type->block_elements;
		assert_int_equal(blocks * type->block_bytes, head[1]);
		assert_in_range(head[2], 1, ARRAY_LEN(out));
		type->row(golden + at + sizeof(head), blocks, out);
		memcpy(want, golden + at + sizeof(head) + head[1], head[2] * sizeof(float));
		for (uint32_t i = 0; i < head[2]; i++) {
			if (memcmp(&out[i], &want[i], sizeof(float)) != 0)
				fail_msg("%s: element %u is %.9g, not %.9g", type->name, i,
					 (double)out[i], (double)want[i]);
		}
		at += sizeof(head) + head[1] + head[2] * sizeof(float);
	}
	assert_int_equal(seen, 11);
}

static void unknown_types_are_not_found(void **state)
{
	(void)state;
	assert_null(dequant_find(4));
	assert_null(dequant_find(15));
	assert_null(dequant_find(UINT32_MAX));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_type_matches_the_reference),
		cmocka_unit_test(unknown_types_are_not_found),
	};

	return cmocka_run_group_tests_name("dequant", tests, setup, teardown);
}
