/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots read and written, straight from and to where the block lies. --file-throttle makes a file
 * as slow as a test wants it: an operation pushes the time at which the next may begin by what its
 * bytes would take; who comes before that time waits here, reads before writes.
 */
#include "base/bits.h"
#include "base/units.h"
#include "kvd/crash.h"
#include "kvd/mover_inside.h"

static bool mover_file_writes(const struct mover_transfer *t)
{
	return t->steps[t->at] == MOVER_WRITE;
}

static const struct core_slot *mover_file_slot(const struct mover_transfer *t)
{
	return mover_file_writes(t) ? &t->what.slot : mover_plan_source(t);
}

static struct mover_area *mover_file_area(const struct mover_transfer *t)
{
	return &t->mover->areas[mover_file_slot(t)->area];
}

static void mover_file_done(struct aio_op *op, int result)
{
	struct mover_transfer *t = CONTAINER_OF(op, struct mover_transfer, op);

	/* Of what was late the area has heard. */
	if (t->file_late)
		mover_area_late_done(mover_file_area(t));
	else
		mover_area_result(mover_file_area(t), op->write, result);
	t->file_late = false;
	if (op->write)
		CRASH_POINT(slot_written);
	mover_next(t, result);
}

static void mover_file_late(struct aio_op *op)
{
	struct mover_transfer *t = CONTAINER_OF(op, struct mover_transfer, op);

	if (t->file_late)
		return;
	t->file_late = true;
	mover_area_late(mover_file_area(t), op->write);
	mover_late(t);
}

/* What lies side by side is one piece. */
static void mover_file_vec(struct aio_op *op, void *base, uint64_t bytes)
{
	struct iovec *last = op->vec_count ? &op->vecs[op->vec_count - 1] : NULL;

	if (last && (uint8_t *)last->iov_base + last->iov_len == base)
		last->iov_len += bytes;
	else
		op->vecs[op->vec_count++] = (struct iovec){base, bytes};
}

static uint64_t mover_file_bytes(const struct mover_transfer *t)
{
	uint64_t bytes = FILE_HEADER_BYTES;

	for (uint32_t i = 0; i < t->what.part_count; i++)
		bytes += t->what.part_bytes[i];
	return bytes;
}

static void mover_file_submit(struct mover_transfer *t, uint64_t now_ns)
{
	const struct mover_config *c = &t->mover->config;
	struct mover_area *a = mover_file_area(t);
	bool write = mover_file_writes(t);

	t->op = (struct aio_op){
		.fd = a->file->fd,
		.write = write,
		.offset = file_slot_offset(a->file, mover_file_slot(t)),
		.timeout_ns = c->file_timeout_ns,
		.done = mover_file_done,
		.late = mover_file_late,
	};
	list_init(&t->op.link);
	mover_file_vec(&t->op, write ? t->header : t->found, FILE_HEADER_BYTES);
	for (uint32_t i = 0; i < t->what.part_count; i++)
		mover_file_vec(&t->op, t->parts[i], t->what.part_bytes[i]);
	if (c->throttle_bytes_per_s)
		a->free_ns = BITS_MAX(a->free_ns, now_ns) +
			     (uint64_t)((double)mover_file_bytes(t) * (double)UNITS_NS_PER_S /
					(double)c->throttle_bytes_per_s);
	if (write)
		CRASH_POINT(slot_filled);
	aio_submit(c->aios[mover_file_slot(t)->area], &t->op);
}

static struct list_link *mover_file_first(struct mover_area *a)
{
	return !list_empty(&a->reads) ? a->reads.next : a->writes.next;
}

static bool mover_file_waiting(const struct mover_area *a)
{
	return !list_empty(&a->reads) || !list_empty(&a->writes);
}

void mover_file_begin(struct mover_transfer *t)
{
	struct mover_area *a = mover_file_area(t);
	uint64_t now_ns = units_now_ns();

	if (mover_file_waiting(a) || now_ns < a->free_ns)
		list_push_back(mover_file_writes(t) ? &a->writes : &a->reads, &t->link);
	else
		mover_file_submit(t, now_ns);
}

void mover_file_turn(struct mover_area *a, uint64_t now_ns)
{
	while (mover_file_waiting(a) && a->free_ns <= now_ns) {
		struct mover_transfer *t =
			CONTAINER_OF(mover_file_first(a), struct mover_transfer, link);
		list_remove(&t->link);
		mover_file_submit(t, now_ns);
	}
}

uint64_t mover_file_deadline_ns(const struct mover_area *a)
{
	return mover_file_waiting(a) ? a->free_ns : UINT64_MAX;
}
