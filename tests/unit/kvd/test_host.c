/* SPDX-License-Identifier: Apache-2.0 */
/* The host device: memory is there at once, shared, safe from importers, and given back. */
#include "base/bits.h"
#include "base/units.h"
#include "kernels/mem/device.h"
#include "tests/test.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct device_ops *ops;
static struct device *dev;

static int setup(void **state)
{
	char error[128];

	ops = device_host();
	return ops->open(0, &dev, error, sizeof(error));
}

static int teardown(void **state)
{
	ops->close(dev);
	return 0;
}

static struct device_slab slab_of(uint64_t bytes)
{
	struct device_slab slab;

	assert_int_equal(ops->slab_alloc(dev, bytes, &slab), 0);
	assert_int_equal(slab.bytes, bytes);
	return slab;
}

static struct device_view view_of(const struct device_slab *slab)
{
	struct kvd_slab_wire wire = {0};
	struct device_view view;
	int fd;

	assert_int_equal(ops->slab_export(dev, slab, &wire, &fd), 0);
	assert_int_equal(wire.kind, KVD_SLAB_HOST);
	assert_int_equal(ops->slab_import(dev, &wire, fd, &view), 0);
	return view;
}

static void test_backed_at_once(void **state)
{
	static const uint64_t sizes[] = {64 * UNITS_KIB, 2 * UNITS_MIB, 66 * UNITS_MIB};
	struct stat st;

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		struct device_slab slab = slab_of(sizes[i]);
		assert_int_equal(fstat(slab.fd, &st), 0);
		assert_true((uint64_t)st.st_blocks * 512 >= sizes[i]);
		ops->slab_free(dev, &slab);
	}
}

static void test_two_views_of_one_memory(void **state)
{
	struct device_slab slab = slab_of(2 * UNITS_MIB);
	struct device_view view = view_of(&slab);
	uint8_t *write = (uint8_t *)(uintptr_t)view.write;
	const uint8_t *read = (const uint8_t *)(uintptr_t)view.read;
	const uint8_t *own = (const uint8_t *)(uintptr_t)slab.address;

	write[12345] = 77;
	assert_int_equal(read[12345], 77);
	assert_int_equal(own[12345], 77);
	ops->slab_unmap(dev, &view);
	ops->slab_free(dev, &slab);
}

/* A child writes through the read view: it must die by that. The maps are not inherited, so it
 * makes its own. */
static void test_the_read_view_cannot_be_written(void **state)
{
	struct device_slab slab = slab_of(2 * UNITS_MIB);
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		struct device_view view = view_of(&slab);
		signal(SIGSEGV, SIG_DFL);
		*(volatile uint8_t *)(uintptr_t)view.read = 1;
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSEGV);
	ops->slab_free(dev, &slab);
}

static void test_importers_cannot_shrink_it(void **state)
{
	struct device_slab slab = slab_of(2 * UNITS_MIB);

	assert_int_equal(ftruncate(slab.fd, 0), -1);
	assert_int_equal(ftruncate(slab.fd, 4 * UNITS_MIB), -1);
	ops->slab_free(dev, &slab);
}

static void test_punched_reads_zeros(void **state)
{
	struct device_slab slab = slab_of(2 * UNITS_MIB);
	struct device_view view = view_of(&slab);
	struct stat st;

	memset((void *)(uintptr_t)view.write, 1, view.bytes);
	assert_int_equal(ops->slab_punch(dev, &slab), 0);
	assert_int_equal(fstat(slab.fd, &st), 0);
	assert_int_equal(st.st_blocks, 0);
	ops->slab_free(dev, &slab);
	assert_int_equal(*(uint8_t *)(uintptr_t)view.read, 0);
	ops->slab_unmap(dev, &view);
}

static void test_foreign_files_are_refused(void **state)
{
	struct kvd_slab_wire wire = {.slab_bytes = 2 * UNITS_MIB};
	struct device_view view;
	int fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(ftruncate(fd, 2 * UNITS_MIB), 0);
	assert_int_equal(ops->slab_import(dev, &wire, fd, &view), -EPROTO);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_int_equal(ops->slab_import(dev, &wire, fd, &view), 0);
	ops->slab_unmap(dev, &view);
	wire.slab_bytes += 1;
	assert_int_equal(ops->slab_import(dev, &wire, fd, &view), -EPROTO);
	wire.slab_bytes = 0;
	assert_int_equal(ops->slab_import(dev, &wire, fd, &view), -EPROTO);
	close(fd);
}

static void test_bad_arguments(void **state)
{
	struct device_slab slab;
	struct device *other;
	char error[128] = "";

	assert_int_equal(ops->slab_alloc(dev, 0, &slab), -EINVAL);
	assert_int_equal(ops->slab_alloc(dev, UINT64_MAX, &slab), -EINVAL);
	assert_true(ops->slab_alloc(dev, 1ull << 55, &slab) < 0);
	assert_int_equal(ops->open(1, &other, error, sizeof(error)), -ENODEV);
	assert_true(error[0]);
}

static void test_copy(void **state)
{
	struct device_slab slab = slab_of(2 * UNITS_MIB);
	uint64_t ticket;

	memset((void *)(uintptr_t)slab.address, 5, 4096);
	assert_int_equal(ops->copy_start(dev, slab.address + 4096, slab.address, 4096, &ticket), 0);
	assert_int_equal(ops->copy_poll(dev, ticket), 1);
	assert_int_equal(((uint8_t *)(uintptr_t)slab.address)[8191], 5);
	ops->slab_free(dev, &slab);
	ops->slab_free(dev, &slab);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
TEST_MAIN(host, TEST(test_backed_at_once), TEST(test_two_views_of_one_memory),
	  TEST(test_the_read_view_cannot_be_written), TEST(test_importers_cannot_shrink_it),
	  TEST(test_punched_reads_zeros), TEST(test_foreign_files_are_refused),
	  TEST(test_bad_arguments), TEST(test_copy))
