/* SPDX-License-Identifier: Apache-2.0 */
/* The DRAM tier's memory: there before it is used, cut into segments, refused with numbers. */
#include "base/log.h"
#include "base/units.h"
#include "kvd/dram.h"
#include "tests/test.h"
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

static struct work work;
static struct devmem devmem;
static char error[512];

/* --- a GPU that only pins ------------------------------------------------------------------------
 */

struct device {
	uint64_t pinned_bytes;
	uint32_t pins;
	int result;
};

static struct device gpu;

static int gpu_pin(struct device *dev, void *memory, size_t bytes)
{
	if (bytes > DEVMEM_PIN_BYTES || (uintptr_t)memory % (uintptr_t)sysconf(_SC_PAGESIZE))
		return -EINVAL;
	dev->pinned_bytes += bytes;
	dev->pins++;
	return dev->result;
}

static const char *gpu_failure(const struct device *dev)
{
	return "the driver says no";
}

static void gpu_close(struct device *dev)
{
}

static const struct device_ops gpu_ops = {
	.kind = KVD_SLAB_CUDA_IPC, .pin = gpu_pin, .failure = gpu_failure, .close = gpu_close};

static int setup(void **state)
{
	log_level_max = LOG_ERROR;
	gpu = (struct device){0};
	assert_int_equal(work_init(&work, 1), 0);
	return devmem_init(&devmem, "host", "", UNITS_NS_PER_S, &work, error, sizeof(error));
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

static void become_gpu(int result)
{
	gpu.result = result;
	devmem.ops = &gpu_ops;
	devmem.devices[0] =
		(struct devmem_device){.owner = &devmem, .dev = &gpu, .lane = work_lane_new(&work)};
	assert_int_equal(devmem.devices[0].lane, 0);
}

static void test_segments(void **state)
{
	static const uint64_t sizes[][2] = {
		{2 * UNITS_MIB, 2 * UNITS_MIB},	   {3 * UNITS_MIB, 2 * UNITS_MIB},
		{32 * UNITS_MIB, 4 * UNITS_MIB},   {33 * UNITS_MIB, 4 * UNITS_MIB},
		{511 * UNITS_MIB, 32 * UNITS_MIB}, {512 * UNITS_MIB, 64 * UNITS_MIB},
		{300 * UNITS_GIB, 64 * UNITS_MIB},
	};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		assert_int_equal(dram_segment_bytes(sizes[i][0]), sizes[i][1]);
}

static void test_memory_is_there(void **state)
{
	uint64_t bytes = 130 * UNITS_MIB;
	uint64_t os_pages = bytes / 4096;
	struct dram d;

	assert_int_equal(dram_init(&d, bytes + 4096, &devmem, error, sizeof(error)), 0);
	assert_int_equal(d.segment_bytes, 16 * UNITS_MIB);
	assert_int_equal(d.bytes, 128 * UNITS_MIB);
	unsigned char *in_core = calloc(1, os_pages);
	assert_int_equal(mincore(d.map, d.bytes, in_core), 0);
	for (uint64_t i = 0; i < d.bytes / 4096; i++)
		assert_true(in_core[i] & 1);
	free(in_core);
	d.map[d.bytes - 1] = 1;
	dram_fini(&d);
	assert_null(d.map);
	dram_fini(&d);
}

static void test_too_much(void **state)
{
	struct dram d;

	assert_int_equal(dram_init(&d, 1ull << 49, &devmem, error, sizeof(error)), -ENOMEM);
	assert_non_null(strstr(error, "--dram-bytes: 512.00 TiB"));
	assert_non_null(strstr(error, "are available"));
	dram_fini(&d);
}

static void test_pinned(void **state)
{
	struct dram d;

	become_gpu(0);
	assert_int_equal(dram_init(&d, 32 * UNITS_MIB, &devmem, error, sizeof(error)), 0);
	assert_int_equal(gpu.pinned_bytes, 32 * UNITS_MIB);
	assert_int_equal(gpu.pins, 1);
	dram_fini(&d);
}

static void test_cannot_be_pinned(void **state)
{
	struct dram d;

	become_gpu(-ENOMEM);
	assert_int_equal(dram_init(&d, 32 * UNITS_MIB, &devmem, error, sizeof(error)), -ENOMEM);
	assert_non_null(strstr(error, "the driver says no"));
	dram_fini(&d);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

TEST_MAIN(dram, WITH(test_segments), WITH(test_memory_is_there), WITH(test_too_much),
	  WITH(test_pinned), WITH(test_cannot_be_pinned))
