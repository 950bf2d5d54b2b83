/* SPDX-License-Identifier: Apache-2.0 */
/* Placement: nothing that lives at the same time overlaps, and what does not, shares. */
#include "engine/plan.h"
#include "tests/test.h"
#include <stdbool.h>

static void assert_disjoint(const struct plan_buffer *b, uint32_t count, size_t total)
{
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(b[i].out_offset % PLAN_ALIGN, 0);
		assert_true(b[i].out_offset + b[i].bytes <= total);
		for (uint32_t j = 0; j < i; j++) {
			bool together = b[i].first <= b[j].last && b[j].first <= b[i].last;
			bool overlap = b[i].out_offset < b[j].out_offset + b[j].bytes &&
				       b[j].out_offset < b[i].out_offset + b[i].bytes;

			assert_false(together && overlap && b[i].bytes && b[j].bytes);
		}
	}
}

static void shares_what_never_meets(void **state)
{
	struct plan_buffer b[] = {{"a", 1000, 0, 1, 0}, {"b", 1000, 2, 3, 0}, {"c", 64, 1, 2, 0}};
	size_t total = plan_place(b, 3);

	assert_disjoint(b, 3, total);
	assert_int_equal(b[0].out_offset, b[1].out_offset);
	assert_true(total < 2000);
}

static void random_lifetimes(void **state)
{
	uint64_t seed = 7;

	for (int round = 0; round < 2000; round++) {
		struct plan_buffer b[12];
		size_t sum = 0;

		for (uint32_t i = 0; i < 12; i++) {
			uint32_t first = (uint32_t)(test_random(&seed) % 10);

			b[i] = (struct plan_buffer){"x", test_random(&seed) % 5000, first,
						    first + (uint32_t)(test_random(&seed) % 5), 0};
			sum += b[i].bytes + PLAN_ALIGN;
		}
		size_t total = plan_place(b, 12);

		assert_disjoint(b, 12, total);
		assert_true(total <= sum);
	}
}

TEST_MAIN(plan, cmocka_unit_test(shares_what_never_meets), cmocka_unit_test(random_lifetimes))
