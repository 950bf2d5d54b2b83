/* SPDX-License-Identifier: Apache-2.0 */
/* The status file: rights, sequence lock, and that it goes away. */
#include "base/atomic.h"
#include "kvd/status_file.h"
#include "tests/test.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64];
static char path[128];

static int setup(void **state)
{
	strcpy(dir, "/tmp/test_status_XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/kvd.status", dir);
	return 0;
}

static int teardown(void **state)
{
	return rmdir(dir);
}

static void test_file(void **state)
{
	struct status_file s;
	struct stat st;

	assert_int_equal(status_file_init(&s, path, NULL), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(st.st_size, sizeof(struct kvd_status));
	assert_int_equal(s.map->magic, KVD_STATUS_MAGIC);
	assert_int_equal(s.map->pid, getpid());
	assert_true(s.map->pid_start_ticks > 0);
	status_file_fini(&s);
	assert_int_equal(access(path, F_OK), -1);
	status_file_fini(&s);
}

static void test_replaces_a_dead_ones(void **state)
{
	struct status_file a, b;

	assert_int_equal(status_file_init(&a, path, NULL), 0);
	struct kvd_status *old = a.map;
	assert_int_equal(status_file_init(&b, path, NULL), 0);
	assert_ptr_not_equal(old, b.map);
	munmap(old, sizeof(*old));
	status_file_fini(&b);
}

static void test_for_a_group(void **state)
{
	struct status_file s;
	struct stat st;
	gid_t gid = getegid();

	assert_int_equal(status_file_init(&s, path, &gid), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
	status_file_fini(&s);
}

static int writing = 1;

static void *writer(void *arg)
{
	static struct kvd_status now;

	for (uint64_t i = 1; atomic_load_relaxed(&writing); i++) {
		now.nonce = i;
		now.spaces[KVD_STATUS_SPACES - 1].bytes = i;
		status_file_write(arg, &now);
	}
	return NULL;
}

/* A reader that keeps to the lock never sees half of an update. */
static void test_sequence_lock(void **state)
{
	struct status_file s;
	pthread_t thread;
	int whole = 0;

	assert_int_equal(status_file_init(&s, path, NULL), 0);
	const struct kvd_status *map = s.map;
	assert_int_equal(pthread_create(&thread, NULL, writer, &s), 0);
	while (whole < 1000) {
		uint32_t seq = atomic_load_acquire(&map->seq);
		uint64_t first = atomic_load_relaxed(&map->nonce);
		uint64_t last = atomic_load_relaxed(&map->spaces[KVD_STATUS_SPACES - 1].bytes);
		atomic_fence_seq_cst();
		if (seq & 1 || atomic_load_relaxed(&map->seq) != seq)
			continue;
		assert_int_equal(first, last);
		whole++;
	}
	atomic_store_relaxed(&writing, 0);
	pthread_join(thread, NULL);
	status_file_fini(&s);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
TEST_MAIN(status_file, TEST(test_file), TEST(test_replaces_a_dead_ones), TEST(test_for_a_group),
	  TEST(test_sequence_lock))
