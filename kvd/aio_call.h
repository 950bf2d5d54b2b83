/* SPDX-License-Identifier: Apache-2.0 */
/* A system call under way, and the operations that it is for. */
#ifndef KVD_AIO_CALL_H
#define KVD_AIO_CALL_H

#include "kvd/aio_engine.h"

#define AIO_CALL_VECS_MAX 64u
#define AIO_CALL_BYTES_MAX (2ull << 20) /* of a joined call; one operation may be larger */

/* Of an operation: what `state` holds. */
enum aio_op_state {
	AIO_OP_ALONE = 1,   /* it was in a joined call that failed: not joined again */
	AIO_OP_LATE = 2,    /* its time is over: not begun again */
	AIO_OP_EXCUSED = 4, /* it got the time that the loop was stopped */
};

struct aio_call {
	struct aio_io io;
	struct list_link link; /* aio.c's */
	struct list_link ops;  /* in the order of the file, without gaps */
	uint32_t op_count;
	uint64_t bytes;
	uint64_t cancel_ns; /* before it is not cancelled, or not again */
	struct iovec vecs[AIO_CALL_VECS_MAX];
};

/* Takes the first operation of the queue, which has one, and those after it that can be joined. */
void aio_call_fill(struct aio_call *c, struct list_link *queue);
/*
 * The call moved so many bytes: whoever has all of theirs goes to the end of `done`. The others
 * stay and have less left.
 */
void aio_call_credit(struct aio_call *c, uint64_t bytes, struct list_link *done);
/* What the operation has to move, all in all. */
uint64_t aio_call_op_bytes(const struct aio_op *op);

#endif
