/* SPDX-License-Identifier: Apache-2.0 */
/* Finding a device by name: built in, as a module, and words for what is not there. */
#include "kernels/mem/device.h"
#include "tests/test.h"

static char error[512];

static void test_host_is_built_in(void **state)
{
	assert_ptr_equal(device_find("host", error, sizeof(error)), device_host());
}

static void test_unknown(void **state)
{
	setenv("KVD_MODULE_DIR", "/nowhere", 1);
	assert_null(device_find("cuda-none", error, sizeof(error)));
	assert_non_null(strstr(error, "/nowhere/libkvd-mem-cuda.so"));
	assert_non_null(strstr(error, "KVD_MODULE_DIR"));
}

static void test_names_that_are_paths(void **state)
{
	assert_null(device_find("../../tmp/x", error, sizeof(error)));
	assert_null(device_find("", error, sizeof(error)));
	assert_null(device_find("HOST", error, sizeof(error)));
}

static void test_a_module(void **state)
{
	setenv("KVD_MODULE_DIR", getenv("TEST_MODULE_DIR"), 1);
	const struct device_ops *ops = device_find("fake-one", error, sizeof(error));
	assert_non_null(ops);
	assert_string_equal(ops->name, "fake-one");
	assert_null(device_find("fake-two", error, sizeof(error)));
	assert_non_null(strstr(error, "does not know it"));
	assert_null(device_find("empty-one", error, sizeof(error)));
	assert_non_null(strstr(error, "is no module of ours"));
	assert_null(device_find("broken-one", error, sizeof(error)));
	assert_non_null(strstr(error, "cannot be loaded"));
}

TEST_MAIN(module, cmocka_unit_test(test_host_is_built_in), cmocka_unit_test(test_unknown),
	  cmocka_unit_test(test_names_that_are_paths), cmocka_unit_test(test_a_module))
