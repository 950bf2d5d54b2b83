/* SPDX-License-Identifier: Apache-2.0 */
/* The loop: who is ready is called; who was removed in the same batch is not. */
#include "base/bits.h"
#include "kvd/loop.h"
#include "tests/test.h"
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct loop loop;

struct bell {
	struct loop_source source;
	struct loop_source *other; /* removed when this one is called */
	int called;
};

static void ready(struct loop_source *source, uint32_t events)
{
	struct bell *b = CONTAINER_OF(source, struct bell, source);

	assert_true(events & EPOLLIN);
	b->called++;
	if (b->other)
		loop_remove(&loop, b->other);
}

static int turn(uint64_t timeout_ns)
{
	int n = loop_wait(&loop, timeout_ns);

	loop_dispatch(&loop);
	return n;
}

static int ringing(void)
{
	int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);

	assert_true(fd >= 0);
	return fd;
}

static void test_ready_and_changed(void **state)
{
	struct bell b = {0};
	int fd = ringing();

	assert_int_equal(loop_init(&loop), 0);
	assert_int_equal(loop_add(&loop, &b.source, fd, EPOLLIN, ready), 0);
	assert_int_equal(turn(UINT64_MAX), 1);
	loop_change(&loop, &b.source, 0);
	assert_int_equal(turn(0), 0);
	loop_change(&loop, &b.source, EPOLLIN);
	assert_int_equal(turn(0), 1);
	assert_int_equal(b.called, 2);
	loop_remove(&loop, &b.source);
	assert_int_equal(turn(1000), 0);
	close(fd);
	loop_fini(&loop);
}

static void test_removed_in_the_batch(void **state)
{
	struct bell a = {0}, b = {0};
	int fa = ringing(), fb = ringing();

	assert_int_equal(loop_init(&loop), 0);
	assert_int_equal(loop_add(&loop, &a.source, fa, EPOLLIN, ready), 0);
	assert_int_equal(loop_add(&loop, &b.source, fb, EPOLLIN, ready), 0);
	a.other = &b.source;
	b.other = &a.source;
	assert_int_equal(turn(0), 2);
	assert_int_equal(a.called + b.called, 1);
	close(fa);
	close(fb);
	loop_fini(&loop);
}

static void test_bad_descriptor(void **state)
{
	struct bell b = {0};

	assert_int_equal(loop_init(&loop), 0);
	assert_int_equal(loop_add(&loop, &b.source, -1, EPOLLIN, ready), -EBADF);
	loop_remove(&loop, &b.source);
	loop_fini(&loop);
}

TEST_MAIN(loop, cmocka_unit_test(test_ready_and_changed),
	  cmocka_unit_test(test_removed_in_the_batch), cmocka_unit_test(test_bad_descriptor))
