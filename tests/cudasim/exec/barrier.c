/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The block's sixteen barriers. Number 0 is __syncthreads: all threads of the block, at one line.
 * The others count the threads they are told to. A barrier that does not fill leaves the block
 * stuck, which block.c reports.
 */
#include "tests/cudasim/exec/block.h"

#include <string.h>

struct barrier {
	uint32_t expected;
	uint32_t arrived;
	uint32_t sum;
	struct sim_place place; /* of its first */
};

static struct barrier barriers[BLOCK_BARRIERS];

void barrier_reset(void)
{
	memset(barriers, 0, sizeof(barriers));
}

/* Counts one more thread; true when it was the last, and the others are awake. */
static bool arrive(uint32_t id, uint32_t count, uint32_t predicate, struct sim_place place)
{
	struct barrier *b = &barriers[id];

	if (b->arrived == 0) {
		b->expected = count;
		b->sum = 0;
		b->place = place;
	} else if (b->expected != count) {
		sim_fault(cudaErrorLaunchFailure, place,
			  "barrier %u is of %u threads here, of %u at line %d", id, count,
			  b->expected, b->place.line);
	}
	b->sum += predicate;
	if (++b->arrived < b->expected)
		return false;
	b->arrived = 0;
	for (uint32_t i = 0; i < block_thread_count(); i++) {
		struct block_thread *t = block_thread(i);

		if (t->state == BLOCK_IN_BARRIER && t->barrier == id) {
			t->result = b->sum;
			block_wake(t);
		}
	}
	block_current()->result = b->sum;
	return true;
}

static uint32_t sync(uint32_t id, uint32_t count, uint32_t predicate, struct sim_place place)
{
	struct block_thread *t = block_current();

	t->place = place;
	t->barrier = id;
	if (!arrive(id, count, predicate, place))
		block_wait(BLOCK_IN_BARRIER);
	return t->result;
}

uint32_t sim_syncthreads(uint32_t predicate, struct sim_place place)
{
	const struct barrier *b = &barriers[0];

	if (b->arrived && (b->place.line != place.line || strcmp(b->place.file, place.file)))
		sim_fault(cudaErrorLaunchFailure, place,
			  "barrier reached by part of the block: others are at the one of %s:%d",
			  b->place.file, b->place.line);
	return sync(0, block_thread_count(), predicate, place);
}

static uint32_t checked_count(uint32_t id, uint32_t count, struct sim_place place)
{
	if (id == 0 || id >= BLOCK_BARRIERS)
		sim_fault(cudaErrorLaunchFailure, place, "there is no barrier %u", id);
	if (count == 0)
		count = block_thread_count();
	if (count % SIM_WARP || count > block_thread_count())
		sim_fault(cudaErrorLaunchFailure, place,
			  "barrier %u: %u threads of %u: not whole warps of this block", id, count,
			  block_thread_count());
	return count;
}

void sim_barrier(uint32_t id, uint32_t count, struct sim_place place)
{
	(void)sync(id, checked_count(id, count, place), 0, place);
}

void sim_barrier_arrive(uint32_t id, uint32_t count, struct sim_place place)
{
	(void)arrive(id, checked_count(id, count, place), 0, place);
}
