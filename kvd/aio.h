/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File I/O that never blocks the loop: one interface, two engines. io_uring where the kernel allows
 * it, else threads with preadv and pwritev. Both run the same tests.
 *
 * The loop submits operations, calls aio_turn() in each of its turns and when aio_fd() is readable,
 * and gets each operation back, once, by done(), from within aio_turn(). Loop's thread only.
 */
#ifndef KVD_AIO_H
#define KVD_AIO_H

#include "base/list.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define AIO_VECS_MAX 18u
#define AIO_DEPTH_MAX 1024u

enum aio_kind { AIO_AUTO, AIO_URING, AIO_THREADS };

/* Embedded in what it is about. Between submit and done() it belongs to aio. */
struct aio_op {
	int fd;
	bool write;
	uint64_t offset; /* may be changed by aio, like vecs: what is left to do */
	struct iovec vecs[AIO_VECS_MAX];
	uint32_t vec_count;
	uint64_t timeout_ns; /* from submit on; 0: for ever */
	/*
	 * 0: all bytes; or -errno (-ENODATA: the file ends before; -ETIMEDOUT: the time was over
	 * before they were done; -ECANCELED: by aio_drain()). Short I/O is resumed before. It may
	 * submit, this operation too, and free the operation.
	 */
	void (*done)(struct aio_op *op, int result);
	/*
	 * The time is over and cancelling was tried: the kernel may still use the buffers, which
	 * stay until done(). Called once at most, and not for what had not yet been begun: that is
	 * done() at once. It may submit others. NULL: nobody cares.
	 */
	void (*late)(struct aio_op *op);
	/* aio's own */
	struct list_link link;
	uint64_t deadline_ns;
	uint64_t left_bytes;
	uint32_t state;
	uint32_t tries;
	int result;
};

struct aio;

/*
 * depth: system calls under way at once, at most AIO_DEPTH_MAX. What waits goes out in order, reads
 * before writes; neighbours in the file may go out as one call. Two operations under way have no
 * order. `why` (of size bytes) says in words which engine it is and, where AIO_AUTO took threads,
 * why. 0, or -errno: what was wanted cannot be had. To be called by the loop's thread, too.
 */
int aio_new(struct aio **out, enum aio_kind wanted, uint32_t depth, char *why, size_t size);
/*
 * No operation may be under way: see aio_drain(). Where that gave up, this must not be called: the
 * kernel may still write into what would be freed. NULL is fine.
 */
void aio_free(struct aio *aio);
/* "io_uring" or "threads". */
const char *aio_name(const struct aio *aio);
/* For epoll: readable when aio_turn() has something to do. */
int aio_fd(const struct aio *aio);
/*
 * Files that are used often; an engine may do something about it, once. They stay open until
 * aio_free(). 0, or -errno: not so, which harms nothing.
 */
int aio_register(struct aio *aio, const int *fds, uint32_t count);
void aio_submit(struct aio *aio, struct aio_op *op);
/* Hands out what waits, takes back what is done. The number of done() and late() calls. */
uint32_t aio_turn(struct aio *aio, uint64_t now_ns);
/*
 * When aio_turn() must be called for a deadline or to try something again; it may be early.
 * UINT64_MAX: no need.
 */
uint64_t aio_deadline_ns(const struct aio *aio);
/* Operations that have not come back. */
uint32_t aio_pending(const struct aio *aio);
/*
 * Cancels and waits until all are back, at most timeout_ns; done() is called from within.
 * 0, -ETIMEDOUT: some never came.
 */
int aio_drain(struct aio *aio, uint64_t timeout_ns);

#endif
