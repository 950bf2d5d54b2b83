/* SPDX-License-Identifier: Apache-2.0 */
/* A second's lines, then silence, then the count of what is missing. */
#include "base/units.h"
#include "kvd/ration.h"
#include "tests/test.h"

static void test_ration(void **state)
{
	struct ration r = {0};
	uint32_t dropped = 99;

	for (uint32_t i = 0; i < RATION_PER_SECOND; i++) {
		assert_true(ration_take(&r, UNITS_NS_PER_S, &dropped));
		assert_int_equal(dropped, 0);
	}
	assert_false(ration_take(&r, UNITS_NS_PER_S, &dropped));
	assert_false(ration_take(&r, 2 * UNITS_NS_PER_S - 1, &dropped));
	assert_true(ration_take(&r, 2 * UNITS_NS_PER_S, &dropped));
	assert_int_equal(dropped, 2);
	assert_true(ration_take(&r, 2 * UNITS_NS_PER_S, &dropped));
	assert_int_equal(dropped, 0);
}

TEST_MAIN(ration, cmocka_unit_test(test_ration))
