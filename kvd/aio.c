/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the engines share: who waits, who is under way, who is late, who is done.
 *
 *   queue[reads], queue[writes] -> a call (aio_call.c) -> engine -> finished -> done()
 *          ^                                                 |
 *          +---------- rest of short I/O, another try -------+
 *
 * An operation is in exactly one of these, and `pending` counts them all. A call that failed for
 * several operations is no answer for any of them: each is tried alone. A late operation is never
 * begun again, but as long as the engine has its call it stays there, whatever the deadline says:
 * its buffers are the kernel's. done() and late() are called only where all lists are whole, so
 * they may submit.
 *
 * Deadlines are looked at seldom: `deadline_ns` is never later than the earliest of them, and only
 * when it has passed are all operations walked and the earliest found anew. With timeouts that are
 * much longer than I/O that is about once in a timeout.
 *
 * A process that is stopped, by a debugger or a freezer, finds all deadlines over when it goes on.
 * That says nothing about the disk: once, each operation gets the time that the loop was away.
 *
 * Loop's thread only. What an operation is embedded in stays the submitter's.
 */
#include "kvd/aio.h"
#include "base/assert.h"
#include "base/bits.h"
#include "base/units.h"
#include "kvd/aio_call.h"
#include <errno.h>
#include <poll.h>

/* The kernel was short of something: so long nothing is begun. */
#define AIO_AGAIN_NS UNITS_NS_PER_MS
/* What does not end although it was cancelled is cancelled again: the kernel misses some. */
#define AIO_CANCEL_NS (100 * UNITS_NS_PER_MS)
/* A loop that looks so long after a deadline was stopped itself. */
#define AIO_STOPPED_NS (100 * UNITS_NS_PER_MS)
#define AIO_TRIES_MAX 1000u /* of -EAGAIN and -EINTR for one operation */

struct aio {
	const struct aio_engine *engine_ops;
	void *engine;
	struct list_link queue[2]; /* reads, writes */
	struct list_link busy;	   /* calls that the engine has */
	struct list_link idle;	   /* calls */
	struct list_link finished; /* operations whose done() is due */
	uint32_t pending;
	uint64_t deadline_ns;
	uint64_t again_ns; /* 0, or before it nothing is begun */
	bool draining;
	bool in_turn;
	struct aio_call calls[];
};

int aio_new_with(struct aio **out, const struct aio_engine *engine, uint32_t depth, char *why,
		 size_t size)
{
	if (depth == 0 || depth > AIO_DEPTH_MAX) {
		snprintf(why, size, "the depth is %u, not 1 to %u", depth, AIO_DEPTH_MAX);
		return -EINVAL;
	}
	struct aio *aio = calloc(1, sizeof(*aio) + depth * sizeof(aio->calls[0]));
	if (!aio) {
		snprintf(why, size, "no memory");
		return -ENOMEM;
	}
	snprintf(why, size, "%s", engine->name);
	int r = engine->open(&aio->engine, depth, why, size);
	if (r < 0) {
		free(aio);
		return r;
	}
	aio->engine_ops = engine;
	list_init(&aio->queue[0]);
	list_init(&aio->queue[1]);
	list_init(&aio->busy);
	list_init(&aio->idle);
	list_init(&aio->finished);
	for (uint32_t i = 0; i < depth; i++)
		list_push_back(&aio->idle, &aio->calls[i].link);
	aio->deadline_ns = UINT64_MAX;
	*out = aio;
	return 0;
}

int aio_new(struct aio **out, enum aio_kind wanted, uint32_t depth, char *why, size_t size)
{
	char refusal[160];

	if (wanted == AIO_THREADS)
		return aio_new_with(out, &aio_threads_engine, depth, why, size);
	int r = aio_new_with(out, &aio_uring_engine, depth, why, size);
	if (r == 0 || wanted == AIO_URING)
		return r;
	snprintf(refusal, sizeof(refusal), "%s", why);
	r = aio_new_with(out, &aio_threads_engine, depth, why, size);
	if (r == 0)
		snprintf(why, size, "%s: %s", aio_threads_engine.name, refusal);
	return r;
}

void aio_free(struct aio *aio)
{
	if (!aio)
		return;
	ASSERT(aio->pending == 0);
	aio->engine_ops->close(aio->engine);
	free(aio);
}

const char *aio_name(const struct aio *aio)
{
	return aio->engine_ops->name;
}

int aio_fd(const struct aio *aio)
{
	return aio->engine_ops->fd(aio->engine);
}

int aio_register(struct aio *aio, const int *fds, uint32_t count)
{
	if (!aio->engine_ops->adopt)
		return -EOPNOTSUPP;
	return aio->engine_ops->adopt(aio->engine, fds, count);
}

uint32_t aio_pending(const struct aio *aio)
{
	return aio->pending;
}

/* A time that is not before now, however long it is. */
static uint64_t time_after(uint64_t now_ns, uint64_t ns)
{
	return ns > UINT64_MAX - now_ns ? UINT64_MAX : now_ns + ns;
}

static struct aio_op *op_of(struct list_link *link)
{
	return CONTAINER_OF(link, struct aio_op, link);
}

static struct list_link *queue_of(struct aio *aio, const struct aio_op *op)
{
	return &aio->queue[op->write ? 1 : 0];
}

static bool nothing_waits(const struct aio *aio)
{
	return list_empty(&aio->queue[0]) && list_empty(&aio->queue[1]);
}

void aio_submit(struct aio *aio, struct aio_op *op)
{
	ASSERT(op->vec_count >= 1 && op->vec_count <= AIO_VECS_MAX && op->done);
	op->left_bytes = aio_call_op_bytes(op);
	ASSERT(op->left_bytes >= 1 && op->left_bytes <= INT64_MAX &&
	       op->offset <= INT64_MAX - op->left_bytes);
	op->state = 0;
	op->tries = 0;
	op->result = 0;
	op->deadline_ns = UINT64_MAX;
	if (op->timeout_ns)
		op->deadline_ns = time_after(units_now_ns(), op->timeout_ns);
	aio->deadline_ns = BITS_MIN(aio->deadline_ns, op->deadline_ns);
	list_push_back(queue_of(aio, op), &op->link);
	aio->pending++;
}

/* It is in no list, or first in one that is walked with care. */
static void finish(struct aio *aio, struct aio_op *op, int result)
{
	list_remove(&op->link);
	op->result = result;
	list_push_back(&aio->finished, &op->link);
}

/* Back into the queue, before all others; or to its end, if it may not be begun again. */
static void again(struct aio *aio, struct aio_op *op)
{
	if (op->state & AIO_OP_LATE) {
		finish(aio, op, -ETIMEDOUT);
	} else if (aio->draining) {
		finish(aio, op, -ECANCELED);
	} else {
		list_remove(&op->link);
		list_push_front(queue_of(aio, op), &op->link);
	}
}

/* The last first, so that they come into the queue in their order. */
static void again_all(struct aio *aio, struct aio_call *c)
{
	while (!list_empty(&c->ops))
		again(aio, op_of(c->ops.prev));
}

/* The call failed, or moved nothing, and was for one operation. */
static void fail(struct aio *aio, struct aio_op *op, int result)
{
	if (result == 0) {
		finish(aio, op, op->write ? -EIO : -ENODATA);
	} else if (result == -ECANCELED && op->state & AIO_OP_LATE) {
		finish(aio, op, -ETIMEDOUT);
	} else {
		finish(aio, op, result);
	}
}

/* Counts the try. Whether it was the last. */
static bool tried_enough(struct aio_call *c)
{
	bool enough = false;

	LIST_FOR_EACH (l, &c->ops)
		enough = ++op_of(l)->tries >= AIO_TRIES_MAX || enough;
	return enough;
}

/* A call is back: sees to each of its operations. */
static void settle(struct aio *aio, struct aio_call *c, uint64_t now_ns)
{
	int result = c->io.result;

	if (result > 0) {
		aio_call_credit(c, (uint64_t)result, &aio->finished);
		again_all(aio, c);
	} else if ((result == -EAGAIN || result == -EINTR) && !tried_enough(c)) {
		if (result == -EAGAIN)
			aio->again_ns = time_after(now_ns, AIO_AGAIN_NS);
		again_all(aio, c);
	} else if (c->op_count > 1) {
		LIST_FOR_EACH (l, &c->ops)
			op_of(l)->state |= AIO_OP_ALONE;
		again_all(aio, c);
	} else {
		fail(aio, op_of(c->ops.next), result);
	}
	list_remove(&c->link);
	list_push_front(&aio->idle, &c->link);
}

static void take_back(struct aio *aio, uint64_t now_ns)
{
	for (struct aio_io *io; (io = aio->engine_ops->reap(aio->engine));)
		settle(aio, CONTAINER_OF(io, struct aio_call, io), now_ns);
}

/* A cancel is missed, for instance, by a call on its way from one queue of the kernel to another.
 */
static void cancel(struct aio *aio, struct aio_call *c, uint64_t now_ns)
{
	if (now_ns < c->cancel_ns)
		return;
	c->cancel_ns = time_after(now_ns, AIO_CANCEL_NS);
	aio->engine_ops->cancel(aio->engine, &c->io);
}

/* The number of late() calls. */
static uint32_t expire_call(struct aio *aio, struct aio_call *c, uint64_t now_ns)
{
	uint32_t calls = 0;

	LIST_FOR_EACH (l, &c->ops) {
		struct aio_op *op = op_of(l);
		if (op->deadline_ns > now_ns) {
			aio->deadline_ns = BITS_MIN(aio->deadline_ns, op->deadline_ns);
			continue;
		}
		bool known = op->state & AIO_OP_LATE;
		op->state |= AIO_OP_LATE;
		cancel(aio, c, now_ns);
		aio->deadline_ns = BITS_MIN(aio->deadline_ns, c->cancel_ns);
		if (!known && op->late) {
			op->late(op);
			calls++;
		}
	}
	return calls;
}

static void expire_queue(struct aio *aio, struct list_link *queue, uint64_t now_ns)
{
	LIST_FOR_EACH_SAFE (l, next, queue) {
		struct aio_op *op = op_of(l);
		if (op->deadline_ns <= now_ns)
			finish(aio, op, -ETIMEDOUT);
		else
			aio->deadline_ns = BITS_MIN(aio->deadline_ns, op->deadline_ns);
	}
}

static void excuse_op(struct aio_op *op, uint64_t now_ns, uint64_t over_ns)
{
	if (op->deadline_ns > now_ns || op->state & (AIO_OP_LATE | AIO_OP_EXCUSED))
		return;
	op->state |= AIO_OP_EXCUSED;
	op->deadline_ns = time_after(now_ns, BITS_MIN(over_ns, op->timeout_ns));
}

static void excuse(struct aio *aio, uint64_t now_ns)
{
	uint64_t over_ns = now_ns - aio->deadline_ns;

	if (over_ns <= AIO_STOPPED_NS)
		return;
	for (int i = 0; i < 2; i++)
		LIST_FOR_EACH (l, &aio->queue[i])
			excuse_op(op_of(l), now_ns, over_ns);
	LIST_FOR_EACH (c, &aio->busy)
		LIST_FOR_EACH (l, &CONTAINER_OF(c, struct aio_call, link)->ops)
			excuse_op(op_of(l), now_ns, over_ns);
}

/* The number of late() calls. */
static uint32_t expire(struct aio *aio, uint64_t now_ns)
{
	uint32_t calls = 0;

	if (now_ns < aio->deadline_ns)
		return 0;
	excuse(aio, now_ns);
	aio->deadline_ns = UINT64_MAX;
	expire_queue(aio, &aio->queue[0], now_ns);
	expire_queue(aio, &aio->queue[1], now_ns);
	LIST_FOR_EACH (l, &aio->busy)
		calls += expire_call(aio, CONTAINER_OF(l, struct aio_call, link), now_ns);
	return calls;
}

static void cancel_all(struct aio *aio, uint64_t now_ns)
{
	for (int i = 0; i < 2; i++)
		while (!list_empty(&aio->queue[i]))
			finish(aio, op_of(aio->queue[i].next), -ECANCELED);
	LIST_FOR_EACH (l, &aio->busy)
		cancel(aio, CONTAINER_OF(l, struct aio_call, link), now_ns);
}

/* The number of done() calls. An operation may be gone when its done() returns. */
static uint32_t give_back(struct aio *aio)
{
	uint32_t calls = 0;

	for (; !list_empty(&aio->finished); calls++) {
		struct aio_op *op = op_of(aio->finished.next);
		list_remove(&op->link);
		if (--aio->pending == 0)
			aio->deadline_ns = UINT64_MAX;
		op->done(op, op->result);
	}
	return calls;
}

static void begin(struct aio *aio, uint64_t now_ns)
{
	if (now_ns < aio->again_ns)
		return;
	aio->again_ns = 0;
	while (!nothing_waits(aio) && !list_empty(&aio->idle)) {
		struct aio_call *c = CONTAINER_OF(aio->idle.next, struct aio_call, link);
		aio_call_fill(c, &aio->queue[list_empty(&aio->queue[0]) ? 1 : 0]);
		list_remove(&c->link);
		list_push_back(&aio->busy, &c->link);
		aio->engine_ops->begin(aio->engine, &c->io);
	}
}

uint32_t aio_turn(struct aio *aio, uint64_t now_ns)
{
	uint32_t calls;

	ASSERT(!aio->in_turn);
	aio->in_turn = true;
	take_back(aio, now_ns);
	calls = expire(aio, now_ns);
	if (aio->draining)
		cancel_all(aio, now_ns);
	calls += give_back(aio);
	if (!aio->draining)
		begin(aio, now_ns);
	if (aio->engine_ops->flush(aio->engine) < 0)
		aio->again_ns = time_after(now_ns, AIO_AGAIN_NS);
	aio->in_turn = false;
	return calls;
}

uint64_t aio_deadline_ns(const struct aio *aio)
{
	if (aio->again_ns == 0 || aio->pending == 0)
		return aio->deadline_ns;
	return BITS_MIN(aio->deadline_ns, aio->again_ns);
}

int aio_drain(struct aio *aio, uint64_t timeout_ns)
{
	uint64_t now_ns = units_now_ns();
	uint64_t end_ns = time_after(now_ns, timeout_ns);

	aio->draining = true;
	for (;; now_ns = units_now_ns()) {
		struct pollfd p = {.fd = aio_fd(aio), .events = POLLIN};

		(void)aio_turn(aio, now_ns);
		if (aio->pending == 0 || now_ns >= end_ns)
			break;
		/* A millisecond at most: a late() may be due, and a flush may have failed. */
		if (nothing_waits(aio))
			(void)poll(&p, 1, 1);
	}
	aio->draining = false;
	return aio->pending ? -ETIMEDOUT : 0;
}
