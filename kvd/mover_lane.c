/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between host memory and the pages of GPUs. A GPU is spoken to on its lane alone, where its
 * slabs are made too: so all copies of one GPU are one job, which starts what it can, looks after
 * what it has started, and comes back when something has ended or a slice of time is over. Then the
 * loop hands it in again, behind whatever else waits for the lane.
 *
 * While the job is out, `active` and `ended` are the lane's, and `waiting` is the loop's. Copies of
 * a device end in order, so only the oldest is asked for. A copy that has begun is waited for, also
 * when the next one of its transfer could not be: nobody may have the memory before that.
 *
 * A driver that hangs keeps the job. What the lane has is late then, and more is refused until the
 * job comes back: else all transfers that there can be would wait for this one GPU.
 *
 * The parts of a block may lie on several GPUs: the transfer visits them one after the other.
 */
#include "base/bits.h"
#include "base/units.h"
#include "kvd/mover_inside.h"
#include <errno.h>
#include <unistd.h>

#define MOVER_LANE_SLICE_NS UNITS_NS_PER_MS
#define MOVER_LANE_LOOK_US 20u

/* --- on the lane --------------------------------------------------------------------------------
 */

/* The parts that this lane is to copy and has not begun. */
static uint32_t mover_lane_todo(const struct mover_lane *l, const struct mover_transfer *t)
{
	uint32_t todo = 0;

	for (uint32_t i = 0; i < t->what.part_count; i++)
		if (t->devices[i] == l->device)
			todo |= 1u << i;
	return todo & t->copies_left & ~t->copies_begun;
}

/* False: the device takes no more copies for now. */
static bool mover_lane_start(struct mover_lane *l, struct mover_transfer *t)
{
	const struct devmem *d = l->mover->config.devmem;
	bool load = t->what.kind == CORE_TRANSFER_LOAD;
	uint32_t todo = mover_lane_todo(l, t);

	for (; todo && t->result == 0; todo &= todo - 1) {
		uint32_t i = (uint32_t)__builtin_ctz(todo);
		uint64_t host = (uintptr_t)t->parts[i], page = t->addresses[i];
		int r = d->ops->copy_start(d->devices[l->device].dev, load ? page : host,
					   load ? host : page, t->what.part_bytes[i], &t->ticket);
		if (r == -EAGAIN)
			return false;
		if (r < 0)
			t->result = r;
		else
			t->copies_begun |= 1u << i;
	}
	return true;
}

/* Nothing of it is under way any more, and nothing more is to be begun. */
static bool mover_lane_over(struct mover_lane *l, struct mover_transfer *t)
{
	const struct devmem *d = l->mover->config.devmem;

	if (t->result == 0 && mover_lane_todo(l, t))
		return false;
	if (t->copies_begun == 0)
		return true;
	int r = d->ops->copy_poll(d->devices[l->device].dev, t->ticket);
	if (r < 0)
		t->result = r;
	return r != 0;
}

static void mover_lane_step(struct mover_lane *l)
{
	LIST_FOR_EACH (link, &l->active)
		if (!mover_lane_start(l, CONTAINER_OF(link, struct mover_transfer, link)))
			break;
	while (!list_empty(&l->active)) {
		struct list_link *link = l->active.next;
		if (!mover_lane_over(l, CONTAINER_OF(link, struct mover_transfer, link)))
			return;
		list_remove(link);
		list_push_back(&l->ended, link);
	}
}

static void mover_lane_run(struct work_job *job)
{
	struct mover_lane *l = CONTAINER_OF(job, struct mover_lane, job);
	uint64_t end_ns = units_now_ns() + MOVER_LANE_SLICE_NS;

	for (;;) {
		mover_lane_step(l);
		if (!list_empty(&l->ended) || units_now_ns() >= end_ns)
			return;
		usleep(MOVER_LANE_LOOK_US);
	}
}

/* --- on the loop --------------------------------------------------------------------------------
 */

static void mover_lane_hand(struct mover_lane *l)
{
	const struct mover_config *c = &l->mover->config;

	while (!l->busy && !list_empty(&l->waiting)) {
		struct list_link *link = l->waiting.next;
		list_remove(link);
		list_push_back(&l->active, link);
	}
	if (l->busy || list_empty(&l->active))
		return;
	l->busy = true;
	work_submit_lane(c->work, (uint32_t)c->devmem->devices[l->device].lane, &l->job);
}

/* Of the first part that is still to be copied; the job changes nothing that says so. */
static struct mover_lane *mover_lane_of(const struct mover_transfer *t)
{
	return &t->mover->lanes[t->devices[__builtin_ctz(t->copies_left)]];
}

void mover_lane_late(struct mover_transfer *t)
{
	struct mover_lane *l = mover_lane_of(t);

	l->stuck = l->busy;
}

void mover_lane_begin(struct mover_transfer *t)
{
	struct mover_lane *l = mover_lane_of(t);

	if (l->stuck) {
		mover_next(t, -EIO);
		return;
	}
	list_push_back(&l->waiting, &t->link);
	mover_time(t, t->mover->config.device_timeout_ns);
	mover_lane_hand(l);
}

static void mover_lane_took(struct mover_transfer *t)
{
	list_remove(&t->link);
	mover_time_stop(t);
	t->copies_left &= ~t->copies_begun;
	t->copies_begun = 0;
	if (t->result == 0 && t->copies_left)
		mover_lane_begin(t);
	else
		mover_next(t, t->result);
}

static void mover_lane_done(struct work_job *job)
{
	struct mover_lane *l = CONTAINER_OF(job, struct mover_lane, job);

	/* What is begun here meanwhile only waits: the lists must not go out while they are read.
	 */
	while (!list_empty(&l->ended))
		mover_lane_took(CONTAINER_OF(l->ended.next, struct mover_transfer, link));
	l->busy = l->stuck = false;
	mover_lane_hand(l);
}

void mover_lane_init(struct mover *m)
{
	for (uint32_t i = 0; i < KVD_DEVICES_MAX; i++) {
		struct mover_lane *l = &m->lanes[i];
		*l = (struct mover_lane){.mover = m, .device = i};
		l->job.run = mover_lane_run;
		l->job.done = mover_lane_done;
		list_init(&l->waiting);
		list_init(&l->active);
		list_init(&l->ended);
	}
}
