/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slabs by order: made, exported, destroyed, and what cannot be made comes back as a result. Memory
 * that cannot be taken from under a map is destroyed when nobody maps it any more: here the host's,
 * without its punch.
 */
#include "base/log.h"
#include "base/units.h"
#include "kvd/devmem.h"
#include "tests/test.h"
#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/stat.h>

static struct work work;
static struct devmem devmem;

static int setup(void **state)
{
	char error[128];

	log_level_max = LOG_ERROR;
	return work_init(&work, 2) == 0 ? devmem_init(&devmem, "host", "", UNITS_NS_PER_S, &work,
						      error, sizeof(error))
					: -1;
}

static int teardown(void **state)
{
	work_stop_threads(&work);
	devmem_stop(&devmem);
	assert_int_equal(work_stop(&work), 0);
	while (work_take(&work))
		continue;
	devmem_fini(&devmem);
	work_fini(&work);
	return 0;
}

static struct core_order order_of(enum core_order_kind kind, uint32_t slab)
{
	return (struct core_order){.kind = kind,
				   .slab = slab,
				   .first_page = slab * 16,
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
	struct devmem_result r;
	assert_true(devmem_done(&devmem, job, &r));
	return r;
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

static bool idle(void)
{
	struct pollfd p = {.fd = work.fd, .events = POLLIN};

	return poll(&p, 1, 50) == 0;
}

static struct devmem_result take(void)
{
	struct pollfd p = {.fd = work.fd, .events = POLLIN};

	assert_int_equal(poll(&p, 1, 30000), 1);
	struct work_job *job = work_take(&work);
	assert_non_null(job);
	struct devmem_result r;
	assert_true(devmem_done(&devmem, job, &r));
	return r;
}

/* What makes the last importer leave: its word, a clean end, or death. */
enum leaving { SAYS_GONE, SAYS_BYE, DIES, DIES_LATER };

static void leave(enum leaving how)
{
	if (how == SAYS_GONE)
		devmem_unmapped(&devmem, 9, 4);
	if (how == SAYS_BYE)
		devmem_session_end(&devmem, 4, true);
	if (how == DIES_LATER)
		devmem_session_end(&devmem, 4, false);
	if (how == DIES || how == DIES_LATER)
		devmem_process_end(&devmem, 77);
}

static void test_destroyed_when_nobody_maps_it(void **state)
{
	static struct device_ops no_punch;
	struct core_order make = order_of(CORE_ORDER_SLAB_MAKE, 9);
	struct core_order destroy = order_of(CORE_ORDER_SLAB_DESTROY, 9);
	struct kvd_slab_wire wire = {.slab = 9};
	int fd;

	no_punch = *device_host();
	no_punch.slab_punch = NULL;
	devmem.ops = &no_punch;
	for (enum leaving how = SAYS_GONE; how <= DIES_LATER; how++) {
		assert_int_equal(carry_out(&make).result, 0);
		assert_int_equal(devmem_imported(&devmem, 9, 3, 66), 0);
		assert_int_equal(devmem_imported(&devmem, 9, 3, 66), 0);
		assert_int_equal(devmem_imported(&devmem, 9, 4, 77), 0);
		destroy.forced = how == DIES;
		devmem_order(&devmem, &destroy);
		devmem_session_end(&devmem, 3, true);
		devmem_session_end(&devmem, 5, true);
		devmem_process_end(&devmem, 66);
		assert_true(idle());
		assert_int_equal(devmem_export(&devmem, &wire, &fd), -ENOENT);
		leave(how);
		assert_int_equal(take().kind, CORE_ORDER_SLAB_DESTROY);
	}
}

/* The number of a broken session means another afterwards; its process still has the map. */
static void test_a_number_used_again(void **state)
{
	static struct device_ops no_punch;
	struct core_order make = order_of(CORE_ORDER_SLAB_MAKE, 9);
	struct core_order destroy = order_of(CORE_ORDER_SLAB_DESTROY, 9);

	no_punch = *device_host();
	no_punch.slab_punch = NULL;
	devmem.ops = &no_punch;
	assert_int_equal(carry_out(&make).result, 0);
	assert_int_equal(devmem_imported(&devmem, 9, 4, 77), 0);
	devmem_session_end(&devmem, 4, false);
	assert_int_equal(devmem_imported(&devmem, 9, 4, 88), 0);
	devmem_order(&devmem, &destroy);
	devmem_unmapped(&devmem, 9, 4);
	assert_true(idle());
	devmem_process_end(&devmem, 77);
	assert_int_equal(take().result, 0);
}

static void test_host_needs_no_importers(void **state)
{
	struct core_order make = order_of(CORE_ORDER_SLAB_MAKE, 9);
	struct core_order destroy = order_of(CORE_ORDER_SLAB_DESTROY, 9);

	assert_int_equal(carry_out(&make).result, 0);
	assert_int_equal(devmem_imported(&devmem, 9, 4, 77), 0);
	destroy.forced = 1;
	assert_int_equal(carry_out(&destroy).result, 0);
}

static sem_t asked, may_answer;
static int freed;

static int alloc_slowly(struct device *dev, uint64_t bytes, struct device_slab *out)
{
	sem_post(&asked);
	sem_wait(&may_answer);
	return device_host()->slab_alloc(dev, bytes, out);
}

static void free_counted(struct device *dev, struct device_slab *slab)
{
	freed++;
	device_host()->slab_free(dev, slab);
}

static void assert_late(void)
{
	struct pollfd p = {.fd = work.fd, .events = POLLIN};
	struct devmem_result r;

	assert_int_equal(poll(&p, 1, 30000), 1);
	assert_false(devmem_done(&devmem, work_take(&work), &r));
}

/* Given up, refused meanwhile, and usable again when the driver answers; what it made is freed. */
static void test_a_gpu_that_answers_late(void **state)
{
	static struct device_ops slow;
	struct core_order make = order_of(CORE_ORDER_SLAB_MAKE, 2);
	struct core_order destroy = order_of(CORE_ORDER_SLAB_DESTROY, 2);
	struct devmem_result r;

	sem_init(&asked, 0, 0);
	sem_init(&may_answer, 0, 0);
	slow = *device_host();
	slow.slab_alloc = alloc_slowly;
	slow.slab_free = free_counted;
	devmem.ops = &slow;
	devmem.devices[0].lane = work_lane_new(&work);
	uint64_t now_ns = units_now_ns();
	devmem_order(&devmem, &make);
	sem_wait(&asked);
	assert_false(devmem_overdue(&devmem, now_ns, &r));
	assert_true(devmem_deadline_ns(&devmem) >= now_ns + UNITS_NS_PER_S);
	now_ns += 2 * UNITS_NS_PER_S;
	assert_true(devmem_overdue(&devmem, now_ns, &r));
	assert_true(r.slab == 2 && r.result == -ETIMEDOUT);
	assert_false(devmem_overdue(&devmem, now_ns, &r));
	assert_int_equal(devmem_deadline_ns(&devmem), UINT64_MAX);
	assert_int_equal(carry_out(&make).result, -EIO);
	sem_post(&may_answer);
	assert_late();
	assert_late();
	assert_int_equal(freed, 1);
	sem_post(&may_answer);
	assert_int_equal(carry_out(&make).result, 0);
	assert_int_equal(devmem_deadline_ns(&devmem), UINT64_MAX);
	assert_int_equal(carry_out(&destroy).result, 0);
}

static void test_list(void **state)
{
	struct kvd_device list[KVD_DEVICES_MAX];

	assert_int_equal(devmem_list(&devmem, list), 1);
	assert_int_equal(list[0].kind, KVD_SLAB_HOST);
	assert_int_equal(list[0].index, 0);
	assert_string_equal(list[0].name, "host");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
TEST_MAIN(devmem, TEST(test_make_export_destroy), TEST(test_what_cannot_be_made),
	  TEST(test_unknown_slab), TEST(test_destroyed_when_nobody_maps_it),
	  TEST(test_a_number_used_again), TEST(test_host_needs_no_importers), TEST(test_list),
	  TEST(test_a_gpu_that_answers_late))
