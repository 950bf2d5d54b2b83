/* SPDX-License-Identifier: Apache-2.0 */
/* The default size of the pool. */
#include "base/units.h"
#include "kvd/hostmem.h"
#include "tests/test.h"

static void test_the_smaller_one_holds(void **state)
{
	assert_int_equal(hostmem_pool_from(16 * UNITS_GIB, UINT64_MAX), 4 * UNITS_GIB);
	assert_int_equal(hostmem_pool_from(16 * UNITS_GIB, 2 * UNITS_GIB), UNITS_GIB);
	assert_int_equal(hostmem_pool_from(8 * UNITS_GIB + 12345, UINT64_MAX), 2 * UNITS_GIB);
	assert_int_equal(hostmem_pool_from(0, 0), 64 * UNITS_MIB);
}

static void test_meminfo(void **state)
{
	const char *text = "MemTotal: 100 kB\nMemAvailable:   42 kB\n";

	assert_int_equal(hostmem_meminfo(text, "MemAvailable:"), 42 * UNITS_KIB);
	assert_int_equal(hostmem_meminfo(text, "Nothing:"), 0);
	assert_int_equal(hostmem_meminfo("", "MemAvailable:"), 0);
}

static void test_of_this_host(void **state)
{
	uint64_t pool = hostmem_pool_default();

	assert_true(pool >= 64 * UNITS_MIB);
	assert_int_equal(pool % (2 * UNITS_MIB), 0);
}

TEST_MAIN(hostmem, cmocka_unit_test(test_the_smaller_one_holds), cmocka_unit_test(test_meminfo),
	  cmocka_unit_test(test_of_this_host))
