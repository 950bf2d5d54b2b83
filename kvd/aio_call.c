/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations that wait one behind the other, in the queue and in the file, go out as one call: the
 * parts of blocks are small, and a device likes large requests better. The bounds keep a joined
 * call from holding up everybody behind it. The bytes of a call are the bytes of its operations in
 * order, so that a count of bytes says who is done.
 *
 * An operation is in the queue or in a call, by the same link. Loop's thread only.
 */
#include "kvd/aio_call.h"
#include "base/assert.h"
#include "base/bits.h"

uint64_t aio_call_op_bytes(const struct aio_op *op)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < op->vec_count; i++)
		bytes += op->vecs[i].iov_len;
	return bytes;
}

static bool call_can_join(const struct aio_call *c, const struct aio_op *op)
{
	const struct aio_op *first = CONTAINER_OF(c->ops.next, struct aio_op, link);

	return !((first->state | op->state) & AIO_OP_ALONE) && op->fd == c->io.fd &&
	       op->offset == c->io.offset + c->bytes &&
	       op->vec_count <= AIO_CALL_VECS_MAX - c->io.vec_count &&
	       op->left_bytes <= AIO_CALL_BYTES_MAX - BITS_MIN(c->bytes, AIO_CALL_BYTES_MAX);
}

static void call_join(struct aio_call *c, struct aio_op *op)
{
	list_remove(&op->link);
	list_push_back(&c->ops, &op->link);
	c->op_count++;
	c->bytes += op->left_bytes;
	for (uint32_t i = 0; i < op->vec_count; i++)
		c->vecs[c->io.vec_count++] = op->vecs[i];
}

void aio_call_fill(struct aio_call *c, struct list_link *queue)
{
	ASSERT(!list_empty(queue));
	struct aio_op *op = CONTAINER_OF(queue->next, struct aio_op, link);

	list_init(&c->ops);
	c->op_count = 0;
	c->bytes = 0;
	c->cancel_ns = 0;
	c->io = (struct aio_io){
		.fd = op->fd, .write = op->write, .offset = op->offset, .vecs = c->vecs};
	list_init(&c->io.link);
	call_join(c, op);
	while (!list_empty(queue)) {
		op = CONTAINER_OF(queue->next, struct aio_op, link);
		if (!call_can_join(c, op))
			break;
		call_join(c, op);
	}
}

/* The first bytes of the operation, not all, are done. */
static void call_advance(struct aio_op *op, uint64_t bytes)
{
	uint32_t gone = 0;

	ASSERT(bytes < op->left_bytes);
	op->offset += bytes;
	op->left_bytes -= bytes;
	for (; bytes >= op->vecs[gone].iov_len; gone++)
		bytes -= op->vecs[gone].iov_len;
	op->vec_count -= gone;
	for (uint32_t i = 0; i < op->vec_count; i++)
		op->vecs[i] = op->vecs[gone + i];
	op->vecs[0].iov_base = (char *)op->vecs[0].iov_base + bytes;
	op->vecs[0].iov_len -= bytes;
}

void aio_call_credit(struct aio_call *c, uint64_t bytes, struct list_link *done)
{
	ASSERT(bytes <= c->bytes);
	c->bytes -= bytes;
	while (bytes) {
		struct aio_op *op = CONTAINER_OF(c->ops.next, struct aio_op, link);
		if (bytes < op->left_bytes) {
			call_advance(op, bytes);
			return;
		}
		bytes -= op->left_bytes;
		op->left_bytes = 0;
		list_remove(&op->link);
		list_push_back(done, &op->link);
	}
}
