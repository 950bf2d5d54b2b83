/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both engines do the same, on real files: each test runs for io_uring and for threads. A read of
 * the pipe `stuck_fd` is a call that does not end before its time; the kernel knows no such
 * preadv(), so the one of the threads is wrapped (see meson.build).
 */
#include "base/bits.h"
#include "base/units.h"
#include "kvd/aio.h"
#include "tests/test.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define DEPTH 8u
#define BLOCK 4096u
#define BLOCKS 512u

struct task {
	struct aio_op op;
	int late;
	int done;
	int result;
};

static struct task tasks[BLOCKS];
static unsigned char *bytes; /* BLOCKS blocks, aligned */
static int stuck_fd = -1, stuck_write_fd = -1;
static sem_t stuck;
static uint64_t ahead_ns; /* the time that we say is so much ahead of the clock */

ssize_t __real_preadv64(int fd, const struct iovec *vecs, int count, off_t offset);
ssize_t __wrap_preadv64(int fd, const struct iovec *vecs, int count, off_t offset);

ssize_t __wrap_preadv64(int fd, const struct iovec *vecs, int count, off_t offset)
{
	if (fd != stuck_fd)
		return __real_preadv64(fd, vecs, count, offset);
	sem_post(&stuck);
	return readv(fd, vecs, count);
}

static void on_done(struct aio_op *op, int result)
{
	struct task *t = CONTAINER_OF(op, struct task, op);

	t->done++;
	t->result = result;
}

static void on_late(struct aio_op *op)
{
	struct task *t = CONTAINER_OF(op, struct task, op);

	assert_int_equal(t->done, 0);
	t->late++;
}

/* One vec at `at` of our bytes. */
static struct task *prepare(uint32_t i, int fd, bool write, uint64_t offset, size_t at, size_t size)
{
	tasks[i] = (struct task){.op = {.fd = fd,
					.write = write,
					.offset = offset,
					.vecs = {{bytes + at, size}},
					.vec_count = 1,
					.done = on_done,
					.late = on_late}};
	return &tasks[i];
}

/* Until so many are left. The descriptor must wake us, or a deadline. */
static void wait_until(struct aio *aio, uint32_t left)
{
	while (aio_turn(aio, units_now_ns() + ahead_ns), aio_pending(aio) > left) {
		struct pollfd p = {.fd = aio_fd(aio), .events = POLLIN};
		bool forever = aio_deadline_ns(aio) > units_now_ns() + ahead_ns + UNITS_NS_PER_S;
		int r = poll(&p, 1, forever ? 30000 : 10);
		assert_true(r == 1 || (r == 0 && !forever) || (r < 0 && errno == EINTR));
	}
}

static int run_one(struct aio *aio, struct task *t)
{
	aio_submit(aio, &t->op);
	wait_until(aio, 0);
	assert_int_equal(t->done, 1);
	assert_int_equal(t->late, 0);
	return t->result;
}

static struct aio *aio_or_skip(void **state)
{
	if (!*state)
		skip();
	return *state;
}

static int setup(void **state, enum aio_kind kind)
{
	char why[256];
	struct aio *aio;
	int ends[2];
	int r = aio_new(&aio, kind, DEPTH, why, sizeof(why));

	*state = NULL;
	if (r < 0) {
		print_message("SKIPPED: %s\n", why);
		return kind == AIO_URING && (r == -EPERM || r == -ENOSYS) ? 0 : -1;
	}
	bytes = mmap(NULL, BLOCKS * BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		     0);
	if (bytes == MAP_FAILED || pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	stuck_fd = ends[0];
	stuck_write_fd = ends[1];
	sem_init(&stuck, 0, 0);
	ahead_ns = 0;
	*state = aio;
	return 0;
}

static int setup_uring(void **state)
{
	return setup(state, AIO_URING);
}

static int setup_threads(void **state)
{
	return setup(state, AIO_THREADS);
}

static int teardown(void **state)
{
	if (!*state)
		return 0;
	aio_free(*state);
	close(stuck_fd);
	close(stuck_write_fd);
	sem_destroy(&stuck);
	return munmap(bytes, BLOCKS * BLOCK);
}

static bool has_threads(const struct aio *aio)
{
	return strcmp(aio_name(aio), "threads") == 0;
}

/* A file in a folder, without a name in it. */
static int open_in(const char *folder, int flags)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/test_aio.XXXXXX", folder);
	int fd = mkostemp(path, O_CLOEXEC | flags);
	int error = errno;
	if (fd >= 0)
		assert_int_equal(unlink(path), 0);
	return fd < 0 ? -error : fd;
}

static int open_shm(void)
{
	int fd = open_in("/dev/shm", 0);

	assert_true(fd >= 0);
	return fd;
}

/* Every block is written, every second alone, and read by calls of two blocks. */
static void round_trip(struct aio *aio, int fd)
{
	uint64_t seed = 1;
	uint32_t n = 0;

	for (size_t i = 0; i < BLOCKS * BLOCK; i += 8)
		*(uint64_t *)(bytes + i) = test_random(&seed);
	for (uint32_t i = 0; i < BLOCKS; i += 2)
		aio_submit(aio, &prepare(n++, fd, true, i * BLOCK, i * BLOCK, BLOCK)->op);
	for (uint32_t i = 1; i < BLOCKS; i += 2)
		aio_submit(aio, &prepare(n++, fd, true, i * BLOCK, i * BLOCK, BLOCK)->op);
	wait_until(aio, 0);
	for (uint32_t i = 0; i < n; i++)
		assert_true(tasks[i].done == 1 && tasks[i].result == 0);
	memset(bytes, 0, BLOCKS * BLOCK);
	for (n = 0; n < BLOCKS / 2; n++)
		aio_submit(aio,
			   &prepare(n, fd, false, n * 2 * BLOCK, n * 2 * BLOCK, 2 * BLOCK)->op);
	wait_until(aio, 0);
	for (uint32_t i = 0; i < n; i++)
		assert_true(tasks[i].done == 1 && tasks[i].result == 0);
	seed = 1;
	for (size_t i = 0; i < BLOCKS * BLOCK; i += 8)
		assert_int_equal(*(uint64_t *)(bytes + i), test_random(&seed));
	close(fd);
}

static void test_round_trip_buffered(void **state)
{
	round_trip(aio_or_skip(state), open_shm());
}

static void test_round_trip_direct(void **state)
{
	struct aio *aio = aio_or_skip(state);
	const char *folder = getenv("TEST_AIO_DIR");
	int fd = open_in(folder ? folder : ".", O_DIRECT);

	if (fd == -EINVAL) {
		print_message("SKIPPED: no O_DIRECT on the build folder's file system\n");
		skip();
	}
	assert_true(fd >= 0);
	assert_int_equal(posix_fallocate(fd, 0, BLOCKS * BLOCK), 0);
	round_trip(aio, fd);
}

static void test_a_registered_file(void **state)
{
	struct aio *aio = aio_or_skip(state);
	int fds[] = {open_shm(), open_shm()};
	int want = has_threads(aio) ? -EOPNOTSUPP : 0;
	char there[4] = "";

	assert_int_equal(aio_register(aio, fds, 2), want);
	assert_int_equal(aio_register(aio, fds, 2), want ? want : -EBUSY);
	memcpy(bytes, "kvd", 4);
	assert_int_equal(run_one(aio, prepare(0, fds[1], true, 5, 0, 4)), 0);
	assert_int_equal(pread(fds[1], there, 4, 5), 4);
	assert_string_equal(there, "kvd");
	assert_int_equal(lseek(fds[0], 0, SEEK_END), 0);
	/* And one that is not. */
	round_trip(aio, open_shm());
	close(fds[0]);
	close(fds[1]);
}

static void test_18_vecs(void **state)
{
	struct aio *aio = aio_or_skip(state);
	struct task *t = prepare(0, open_shm(), true, 3, 0, 1);
	unsigned char there[AIO_VECS_MAX * 10];
	int fd = t->op.fd;

	t->op.vec_count = AIO_VECS_MAX;
	for (unsigned i = 0; i < AIO_VECS_MAX; i++) {
		memset(bytes + i * BLOCK, (int)(i + 1), 10);
		t->op.vecs[i] = (struct iovec){bytes + i * BLOCK, 10};
	}
	assert_int_equal(run_one(aio, t), 0);
	assert_int_equal(pread(fd, there, sizeof(there), 3), sizeof(there));
	for (unsigned i = 0; i < sizeof(there); i++)
		assert_int_equal(there[i], i / 10 + 1);
	close(fd);
}

static void test_the_file_ends(void **state)
{
	struct aio *aio = aio_or_skip(state);
	int fd = open_shm();

	assert_int_equal(ftruncate(fd, 100), 0);
	memset(bytes, 1, 200);
	assert_int_equal(run_one(aio, prepare(0, fd, false, 0, 0, 200)), -ENODATA);
	assert_true(bytes[99] == 0 && bytes[100] == 1);
	assert_int_equal(run_one(aio, prepare(0, fd, false, 100, 0, 1)), -ENODATA);
	assert_int_equal(run_one(aio, prepare(0, fd, false, 99, 0, 1)), 0);
	/* Joined: the first is whole, the second is not, the third has nothing. */
	for (uint32_t i = 0; i < 3; i++)
		aio_submit(aio, &prepare(i, fd, false, i * 60ull, i * 60, 60)->op);
	wait_until(aio, 0);
	assert_int_equal(tasks[0].result, 0);
	assert_int_equal(tasks[1].result, -ENODATA);
	assert_int_equal(tasks[2].result, -ENODATA);
	close(fd);
}

static void test_errors_come_back(void **state)
{
	struct aio *aio = aio_or_skip(state);
	int full = open("/dev/full", O_RDWR | O_CLOEXEC);
	int reader = open("/dev/null", O_RDONLY | O_CLOEXEC);

	assert_int_equal(run_one(aio, prepare(0, -1, false, 0, 0, 1)), -EBADF);
	assert_int_equal(run_one(aio, prepare(0, 999, true, 0, 0, 1)), -EBADF);
	assert_int_equal(run_one(aio, prepare(0, reader, true, 0, 0, 1)), -EBADF);
	assert_int_equal(run_one(aio, prepare(0, full, true, 0, 0, 1)), -ENOSPC);
	close(full);
	close(reader);
}

/* Half of it fits: the half is written, and then the kernel says why not more. */
static void test_a_file_may_grow_no_more(void **state)
{
	struct aio *aio = aio_or_skip(state);
	int fd = open_shm();
	struct rlimit before, limit;
	int result;

	assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit = (struct rlimit){.rlim_cur = BLOCK, .rlim_max = before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	result = run_one(aio, prepare(0, fd, true, 0, 0, 2 * BLOCK));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(result, -EFBIG);
	assert_int_equal(lseek(fd, 0, SEEK_END), BLOCK);
	close(fd);
}

/* It is in the kernel when this returns. */
static struct task *submit_stuck(struct aio *aio, uint32_t i)
{
	struct task *t = prepare(i, stuck_fd, false, 0, (size_t)i * BLOCK, 4);

	t->op.timeout_ns = 3600 * UNITS_NS_PER_S;
	aio_submit(aio, &t->op);
	(void)aio_turn(aio, units_now_ns());
	if (has_threads(aio))
		sem_wait(&stuck);
	return t;
}

static void others_go_on(struct aio *aio)
{
	int fd = open_shm();

	for (uint32_t i = 1; i <= 100; i++)
		aio_submit(aio, &prepare(i, fd, true, i * 2 * BLOCK, i * BLOCK, BLOCK)->op);
	wait_until(aio, 1);
	for (uint32_t i = 1; i <= 100; i++)
		assert_true(tasks[i].done == 1 && tasks[i].result == 0);
	close(fd);
}

/* io_uring lets go of a pipe, a thread does not; the operation comes back in the end by both. */
static void test_a_stuck_call_is_late_and_holds_up_nobody(void **state)
{
	struct aio *aio = aio_or_skip(state);
	struct task *t = submit_stuck(aio, 0);
	uint64_t deadline_ns = aio_deadline_ns(aio);

	assert_true(deadline_ns > units_now_ns());
	others_go_on(aio);
	assert_int_equal(aio_turn(aio, deadline_ns - 1), 0);
	assert_int_equal(t->late, 0);
	assert_true(aio_turn(aio, deadline_ns) >= 1);
	assert_int_equal(t->late, 1);
	ahead_ns = t->op.timeout_ns;
	if (has_threads(aio)) {
		assert_int_equal(aio_turn(aio, deadline_ns + UNITS_NS_PER_S), 0);
		assert_int_equal(aio_pending(aio), 1);
		others_go_on(aio);
		assert_int_equal(write(stuck_write_fd, "late", 4), 4);
	}
	wait_until(aio, 0);
	assert_true(t->late == 1 && t->done == 1);
	assert_int_equal(t->result, has_threads(aio) ? 0 : -ETIMEDOUT);
	assert_int_equal(aio_deadline_ns(aio), UINT64_MAX);
}

static void test_a_slow_call_ends(void **state)
{
	struct aio *aio = aio_or_skip(state);
	struct task *t = submit_stuck(aio, 0);

	assert_int_equal(write(stuck_write_fd, "kvd", 4), 4);
	wait_until(aio, 0);
	assert_true(t->late == 0 && t->done == 1 && t->result == 0);
	assert_string_equal((char *)bytes, "kvd");
}

static void test_drain_cancels(void **state)
{
	struct aio *aio = aio_or_skip(state);
	uint32_t n;

	for (n = 0; n < DEPTH; n++)
		submit_stuck(aio, n);
	/* These wait: all calls that may be under way are stuck. */
	for (; n < 2 * DEPTH; n++)
		aio_submit(aio, &prepare(n, stuck_fd, false, 0, 0, 4)->op);
	(void)aio_turn(aio, units_now_ns());
	assert_int_equal(aio_pending(aio), 2 * DEPTH);
	if (has_threads(aio)) {
		assert_int_equal(aio_drain(aio, UNITS_NS_PER_MS), -ETIMEDOUT);
		assert_int_equal(aio_pending(aio), DEPTH);
		for (n = 0; n < DEPTH; n++)
			assert_int_equal(write(stuck_write_fd, "kvd", 4), 4);
	}
	assert_int_equal(aio_drain(aio, 60 * UNITS_NS_PER_S), 0);
	for (n = 0; n < 2 * DEPTH; n++) {
		assert_true(tasks[n].done == 1 && tasks[n].late == 0);
		assert_int_equal(tasks[n].result, has_threads(aio) && n < DEPTH ? 0 : -ECANCELED);
	}
	/* It can be used again. */
	round_trip(aio, open_shm());
}

static void test_depth_is_checked(void **state)
{
	char why[256];
	struct aio *aio;

	assert_int_equal(aio_new(&aio, AIO_AUTO, 0, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "depth"));
	assert_int_equal(aio_new(&aio, AIO_AUTO, AIO_DEPTH_MAX + 1, why, sizeof(why)), -EINVAL);
	assert_int_equal(aio_new(&aio, AIO_AUTO, AIO_DEPTH_MAX, why, sizeof(why)), 0);
	assert_non_null(strstr(why, aio_name(aio)));
	aio_free(aio);
	aio_free(NULL);
}

#define BOTH(name)                                                                                 \
	{#name " (io_uring)", name, setup_uring, teardown, NULL},                                  \
	{                                                                                          \
#name " (threads)", name, setup_threads, teardown, NULL                            \
	}

TEST_MAIN(aio, BOTH(test_round_trip_buffered), BOTH(test_round_trip_direct),
	  BOTH(test_a_registered_file), BOTH(test_18_vecs), BOTH(test_the_file_ends),
	  BOTH(test_errors_come_back), BOTH(test_a_file_may_grow_no_more),
	  BOTH(test_a_stuck_call_is_late_and_holds_up_nobody), BOTH(test_a_slow_call_ends),
	  BOTH(test_drain_cancels), cmocka_unit_test(test_depth_is_checked))
