/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine with one io_uring. The ring is made by the loop's thread, which alone may use it. With
 * deferred task work a completion is only noted until that thread enters the kernel: a flag in the
 * ring says so, and peeking enters where it is set. A turn with nothing to do costs a few loads.
 *
 * The loop waits for an eventfd, because polling the ring itself does not wake for what is deferred
 * (Linux 6.18). The kernel writes it when a completion is noted and once more when it is put into
 * the queue, so it is read after the queue was emptied, and then the queue is looked at again. Such
 * a write may come even later, for what was taken already; the loop would find the eventfd readable
 * for nothing, turn after turn, so once in many empty turns it is read, too.
 *
 * Neither queue can overflow. Of the submission queue one half is for calls, which always fit, and
 * the other for cancelling: what finds no room there is not cancelled, which is no promise anyway.
 * The completion queue is four times as large; liburing sees to the overflow flag all the same.
 *
 * What is not O_DIRECT goes to the kernel's own workers from the start: page cache and file system
 * would hold up the thread that submits, for milliseconds.
 *
 * Older kernels refuse some flags; fewer are tried then. A ring that can be made but not entered is
 * no use: a call that does nothing is made to see it. user_data is the call, NULL for a cancel.
 */
#include "base/assert.h"
#include "base/bits.h"
#include "kvd/aio_engine.h"
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define AIO_URING_FILES_MAX 8u
#define AIO_URING_WORKERS_MAX 16u
#define AIO_URING_EMPTY_MAX 64u /* empty turns after which the eventfd is read */

struct aio_uring {
	struct io_uring ring;
	int fd;				/* eventfd */
	uint32_t taken;			/* since the eventfd was read */
	uint32_t empty;			/* turns, since then */
	int files[AIO_URING_FILES_MAX]; /* their index is the kernel's, too */
	uint32_t file_count;
	uint32_t depth;
};

static const unsigned uring_flags[] = {
	/* Linux 6.1 */
	IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
		IORING_SETUP_SUBMIT_ALL,
	/* 5.19 */
	IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL,
	/* 5.18 */
	IORING_SETUP_SUBMIT_ALL,
	0,
};

/* 0, or -errno. */
static int uring_make(struct io_uring *ring, uint32_t entries)
{
	int r = -EINVAL;

	for (size_t i = 0; r == -EINVAL && i < ARRAY_LEN(uring_flags); i++) {
		struct io_uring_params p = {.flags = uring_flags[i] | IORING_SETUP_CQSIZE,
					    .cq_entries = 4 * entries};

		r = io_uring_queue_init_params(entries, ring, &p);
	}
	return r;
}

/* One call that does nothing, there and back. 0, or -errno. */
static int uring_try(struct io_uring *ring)
{
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	int r;

	ASSERT(sqe);
	io_uring_prep_nop(sqe);
	do
		r = io_uring_submit_and_wait(ring, 1);
	while (r == -EINTR);
	if (r < 0)
		return r;
	r = io_uring_wait_cqe(ring, &cqe);
	if (r == 0)
		io_uring_cqe_seen(ring, cqe);
	return r;
}

/* The value of the sysctl that forbids io_uring: '0', '1' or '2'; '0' where there is none. */
static char uring_sysctl(void)
{
	char value = '0';
	int fd = open("/proc/sys/kernel/io_uring_disabled", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return '0';
	if (read(fd, &value, 1) != 1)
		value = '0';
	close(fd);
	return value;
}

static void uring_explain(int error, char *why, size_t size)
{
	char sysctl = error == EPERM ? uring_sysctl() : '0';

	if (error == EPERM && sysctl != '0')
		snprintf(why, size, "no io_uring: the sysctl kernel.io_uring_disabled is %c",
			 sysctl);
	else if (error == EPERM || error == EACCES)
		snprintf(why, size,
			 "no io_uring: a seccomp filter or a security module forbids "
			 "it, as containers do by default");
	else if (error == ENOSYS)
		snprintf(why, size, "no io_uring: this kernel has none");
	else if (error == ENOMEM)
		snprintf(why, size,
			 "no io_uring: RLIMIT_MEMLOCK or the memory cgroup is too "
			 "small for its ring");
	else
		snprintf(why, size, "no io_uring: %s", strerror(error));
}

static int uring_open(void **out, uint32_t depth, char *why, size_t size)
{
	struct aio_uring *u = calloc(1, sizeof(*u));
	unsigned workers[2] = {AIO_URING_WORKERS_MAX, 0};
	int r = u ? uring_make(&u->ring, (uint32_t)bits_pow2_up(2ull * depth)) : -ENOMEM;

	if (r < 0)
		goto fail_free;
	r = uring_try(&u->ring);
	if (r < 0)
		goto fail_ring;
	u->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = u->fd < 0 ? -errno : io_uring_register_eventfd(&u->ring, u->fd);
	if (r < 0)
		goto fail_fd;
	/* Where it is refused there are as many as the kernel thinks fit. */
	(void)io_uring_register_iowq_max_workers(&u->ring, workers);
	u->depth = depth;
	*out = u;
	return 0;
fail_fd:
	if (u->fd >= 0)
		close(u->fd);
fail_ring:
	io_uring_queue_exit(&u->ring);
fail_free:
	free(u);
	uring_explain(-r, why, size);
	return r;
}

static void uring_close(void *engine)
{
	struct aio_uring *u = engine;

	io_uring_queue_exit(&u->ring);
	close(u->fd);
	free(u);
}

static int uring_fd(const void *engine)
{
	return ((const struct aio_uring *)engine)->fd;
}

static int uring_adopt(void *engine, const int *fds, uint32_t count)
{
	struct aio_uring *u = engine;

	if (u->file_count)
		return -EBUSY;
	if (count == 0 || count > AIO_URING_FILES_MAX)
		return -EINVAL;
	int r = io_uring_register_files(&u->ring, fds, count);
	if (r < 0)
		return r;
	memcpy(u->files, fds, count * sizeof(fds[0]));
	u->file_count = count;
	return 0;
}

static void uring_begin(void *engine, struct aio_io *io)
{
	struct aio_uring *u = engine;
	struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
	int flags = fcntl(io->fd, F_GETFL);

	ASSERT(sqe);
	if (io->write)
		io_uring_prep_writev(sqe, io->fd, io->vecs, io->vec_count, io->offset);
	else
		io_uring_prep_readv(sqe, io->fd, io->vecs, io->vec_count, io->offset);
	if (flags >= 0 && !(flags & O_DIRECT))
		sqe->flags |= IOSQE_ASYNC;
	for (uint32_t i = 0; i < u->file_count; i++) {
		if (u->files[i] != io->fd)
			continue;
		sqe->fd = (int)i;
		sqe->flags |= IOSQE_FIXED_FILE;
		break;
	}
	io_uring_sqe_set_data(sqe, io);
}

static int uring_flush(void *engine)
{
	struct aio_uring *u = engine;

	if (io_uring_sq_ready(&u->ring) == 0)
		return 0;
	int r = io_uring_submit(&u->ring);
	if (r < 0)
		return r;
	return io_uring_sq_ready(&u->ring) ? -EAGAIN : 0;
}

static void uring_cancel(void *engine, struct aio_io *io)
{
	struct aio_uring *u = engine;

	if (io_uring_sq_space_left(&u->ring) <= u->depth)
		return;
	struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
	ASSERT(sqe);
	io_uring_prep_cancel(sqe, io, 0);
	io_uring_sqe_set_data(sqe, NULL);
	/* What does not go out now does with the next flush. */
	(void)uring_flush(u);
}

/* The next call that came back, or NULL. */
static struct aio_io *uring_take(struct aio_uring *u)
{
	struct io_uring_cqe *cqe;

	while (io_uring_peek_cqe(&u->ring, &cqe) == 0) {
		struct aio_io *io = io_uring_cqe_get_data(cqe);
		if (io)
			io->result = cqe->res;
		io_uring_cqe_seen(&u->ring, cqe);
		u->taken++;
		if (io)
			return io;
	}
	return NULL;
}

static struct aio_io *uring_reap(void *engine)
{
	struct aio_uring *u = engine;
	struct aio_io *io = uring_take(u);
	uint64_t count;

	if (io)
		return io;
	if (!u->taken && ++u->empty < AIO_URING_EMPTY_MAX)
		return NULL;
	(void)!read(u->fd, &count, sizeof(count));
	u->taken = 0;
	u->empty = 0;
	return uring_take(u);
}

const struct aio_engine aio_uring_engine = {
	.name = "io_uring",
	.open = uring_open,
	.close = uring_close,
	.fd = uring_fd,
	.adopt = uring_adopt,
	.begin = uring_begin,
	.flush = uring_flush,
	.cancel = uring_cancel,
	.reap = uring_reap,
};
