/* SPDX-License-Identifier: Apache-2.0 */
/* Slabs by order: made, exported, destroyed, and what cannot be made comes back as a result. */
#include "base/log.h"
#include "base/units.h"
#include "kvd/devmem.h"
#include "tests/test.h"
#include <errno.h>
#include <poll.h>
#include <sys/stat.h>

static struct work work;
static struct devmem devmem;

static int setup(void **state)
{
	char error[128];

	log_level_max = LOG_ERROR;
	return work_init(&work, 2) == 0 ? devmem_init(&devmem, "host", "", &work, error, sizeof(error))
					: -1;
}

static int teardown(void **state)
{
	work_stop(&work);
	for (struct work_job *job; (job = work_take(&work));)
		(void)devmem_done(&devmem, job);
	devmem_fini(&devmem);
	work_fini(&work);
	return 0;
}

static struct core_order order_of(enum core_order_kind kind, uint32_t slab)
{
	return (struct core_order){.kind = kind,
				   .slab = slab,
				   .page_count = 16,
				   .stride_bytes = 128 * UNITS_KIB,
				   .slab_bytes = 2 * UNITS_MIB};
}

static struct devmem_result carry_out(const struct core_order *order)
{
	struct pollfd p = {.fd = work.fd, .events = POLLIN};

	devmem_order(&devmem, order);
	assert_int_equal(poll(&p, 1, 30000), 1);
	struct work_job *job = work_take(&work);
	assert_non_null(job);
	return devmem_done(&devmem, job);
}

static void test_make_export_destroy(void **state)
{
	struct core_order make = order_of(CORE_ORDER_SLAB_MAKE, 7);
	struct core_order destroy = order_of(CORE_ORDER_SLAB_DESTROY, 7);
	struct kvd_slab_wire wire = {.slab = 7};
	struct stat st;
	int fd = -1;

	for (int round = 0; round < 3; round++) {
		assert_int_equal(devmem_export(&devmem, &wire, &fd), -ENOENT);
		struct devmem_result r = carry_out(&make);
		assert_int_equal(r.result, 0);
		assert_int_equal(r.slab, 7);
		assert_int_equal(devmem_export(&devmem, &wire, &fd), 0);
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(st.st_size, 2 * UNITS_MIB);
		destroy.forced = (uint32_t)round & 1;
		r = carry_out(&destroy);
		assert_int_equal(r.result, 0);
		assert_int_equal(r.kind, CORE_ORDER_SLAB_DESTROY);
	}
}

static void test_what_cannot_be_made(void **state)
{
	struct core_order order = order_of(CORE_ORDER_SLAB_MAKE, 3);
	struct kvd_slab_wire wire = {.slab = 3};
	int fd;

	order.slab_bytes = 1ull << 55;
	assert_true(carry_out(&order).result < 0);
	assert_int_equal(devmem_export(&devmem, &wire, &fd), -ENOENT);
	order = order_of(CORE_ORDER_SLAB_MAKE, 3);
	order.device = 1;
	assert_int_equal(carry_out(&order).result, -ENODEV);
	order.device = 0;
	assert_int_equal(carry_out(&order).result, 0);
}

static void test_unknown_slab(void **state)
{
	struct kvd_slab_wire wire = {.slab = UINT32_MAX};
	int fd;

	assert_int_equal(devmem_export(&devmem, &wire, &fd), -ENOENT);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
TEST_MAIN(devmem, TEST(test_make_export_destroy), TEST(test_what_cannot_be_made),
	  TEST(test_unknown_slab))
