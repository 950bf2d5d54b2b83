/* SPDX-License-Identifier: Apache-2.0 */
/* Nobody can shrink what others map, and read only means it. */
#include "tests/test.h"
#include <errno.h>
#include <fcntl.h>
#include <ipc/shm.h>
#include <sys/mman.h>
#include <unistd.h>

static void shm_is_shared_and_sealed(void **state)
{
	struct shm shm;
	void *other;

	assert_int_equal(shm_create(&shm, "test", 5000, SHM_SEAL_SIZE), 0);
	assert_int_equal(shm.bytes, 8192);
	assert_int_equal(ftruncate(shm.fd, 4096), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(shm.fd, 16384), -1);
	assert_int_equal(fcntl(shm.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(shm_map(shm.fd, 8192, 1, &other), 0);
	((char *)other)[8191] = 'x';
	assert_int_equal(((char *)shm.map)[8191], 'x');
	shm_unmap(other, 8192);
	shm_fini(&shm);
	assert_int_equal(shm.fd, -1);
	shm_fini(&shm);
}

static void shm_read_only_cannot_be_written_by_others(void **state)
{
	struct shm shm;
	void *other;

	assert_int_equal(shm_create(&shm, "test", 4096, SHM_SEAL_READ_ONLY), 0);
	assert_int_equal(shm_map(shm.fd, 4096, 1, &other), -EPERM);
	assert_int_equal(shm_map(shm.fd, 4096, 0, &other), 0);
	assert_int_equal(mprotect(other, 4096, PROT_READ | PROT_WRITE), -1);
	((char *)shm.map)[7] = 'y';
	assert_int_equal(((char *)other)[7], 'y');
	assert_int_equal(write(shm.fd, "z", 1), -1);
	shm_unmap(other, 4096);
	shm_fini(&shm);
}

static void shm_map_refuses_what_can_shrink(void **state)
{
	struct shm shm;
	void *map;
	int fd = memfd_create("test", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	int pipe_fds[2];

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_int_equal(shm_map(fd, 4096, 1, &map), -EPROTO);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_int_equal(shm_map(fd, 4097, 1, &map), -EPROTO);
	assert_int_equal(shm_map(fd, 0, 1, &map), -EPROTO);
	assert_int_equal(shm_map(fd, 4096, 1, &map), 0);
	shm_unmap(map, 4096);
	close(fd);
	assert_int_equal(pipe(pipe_fds), 0);
	assert_int_equal(shm_map(pipe_fds[0], 4096, 0, &map), -EPROTO);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	assert_int_equal(shm_map(-1, 4096, 0, &map), -EBADF);
	assert_int_equal(shm_create(&shm, "test", 1, SHM_SEAL_SIZE), 0);
	shm_fini(&shm);
}

TEST_MAIN(shm, cmocka_unit_test(shm_is_shared_and_sealed),
	  cmocka_unit_test(shm_read_only_cannot_be_written_by_others),
	  cmocka_unit_test(shm_map_refuses_what_can_shrink))
