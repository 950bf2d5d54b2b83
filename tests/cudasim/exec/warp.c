/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of a warp: the lanes of a mask meet, and the last to come works for all of them, while
 * the others' inputs and outputs stay where they are, on their stacks. Lanes that meet must have
 * called the same operation from the same line; a lane that exited or that the block does not have
 * may not be named.
 */
#include "tests/cudasim/exec/block.h"

#include <string.h>

static void check_lanes(const struct block_thread *t, uint32_t mask, struct sim_place place)
{
	uint32_t missing = mask & ~t->warp->present;

	if (!(mask >> t->self.lane & 1))
		sim_fault(cudaErrorLaunchFailure, place, "lane %u is missing from its mask %08x",
			  t->self.lane, mask);
	if (missing)
		sim_fault(cudaErrorLaunchFailure, place,
			  "lane %d of mask %08x has exited or is not in the block",
			  __builtin_ctz(missing), mask);
}

/* The meeting of this mask, made when the thread is its first. */
static struct block_meeting *find_meeting(struct block_warp *w, uint32_t mask, block_warp_op *op,
					  struct sim_place place)
{
	struct block_meeting *m = w->meetings;

	for (; m < w->meetings + w->meeting_count; m++) {
		if (m->mask == mask) {
			if (m->op != op || m->place.line != place.line)
				sim_fault(cudaErrorLaunchFailure, place,
					  "lanes of mask %08x are at another operation, line %d",
					  mask, m->place.line);
			return m;
		}
	}
	w->meeting_count++;
	*m = (struct block_meeting){.mask = mask, .op = op, .place = place};
	return m;
}

void warp_meet(uint32_t mask, block_warp_op *op, const void *in, void *out, struct sim_place place)
{
	struct block_thread *t = block_current();
	struct block_warp *w = t->warp;
	struct block_meeting *m;

	check_lanes(t, mask, place);
	m = find_meeting(w, mask, op, place);
	t->in = in;
	t->out = out;
	t->place = place;
	m->arrived |= 1u << t->self.lane;
	if (m->arrived != mask) {
		block_wait(BLOCK_IN_WARP);
		return;
	}
	*m = w->meetings[--w->meeting_count];
	if (op)
		op(w, mask);
	for (uint32_t rest = mask & ~(1u << t->self.lane); rest; rest &= rest - 1)
		block_wake(&w->lanes[__builtin_ctz(rest)]);
}

void warp_exited(struct block_thread *t)
{
	struct block_warp *w = t->warp;
	uint32_t lane = 1u << t->self.lane;

	w->present &= ~lane;
	for (uint32_t i = 0; i < w->meeting_count; i++)
		if (w->meetings[i].mask & lane)
			sim_fault(cudaErrorLaunchFailure, w->meetings[i].place,
				  "lane %u of mask %08x exited", t->self.lane, w->meetings[i].mask);
}

#define FOR_LANES(lane, mask)                                                                      \
	for (uint32_t lane##_rest = (mask), lane;                                                  \
	     lane##_rest && (lane = (uint32_t)__builtin_ctz(lane##_rest), 1);                      \
	     lane##_rest &= lane##_rest - 1)

void sim_syncwarp(uint32_t mask, struct sim_place place)
{
	warp_meet(mask, NULL, NULL, NULL, place);
}

struct shuffle {
	enum sim_shuffle_mode mode;
	uint64_t value;
	int operand;
	int width;
};

/* The lane that `lane` reads: its own where the segment of `width` ends. */
static uint32_t shuffle_source(const struct shuffle *s, uint32_t lane)
{
	int width = s->width, from = (int)lane, first = from & ~(width - 1);
	int source = 0;

	switch (s->mode) {
	case SIM_SHFL_INDEX:
		return (uint32_t)(first + (s->operand & (width - 1)));
	case SIM_SHFL_UP:
		source = from - s->operand;
		return (uint32_t)(source < first ? from : source);
	case SIM_SHFL_DOWN:
		source = from + s->operand;
		return (uint32_t)(source >= first + width ? from : source);
	case SIM_SHFL_XOR:
		source = from ^ s->operand;
		return (uint32_t)(source >= first + width ? from : source);
	}
	return lane;
}

static void shuffle_op(struct block_warp *w, uint32_t mask)
{
	FOR_LANES(lane, mask)
	{
		const struct shuffle *s = w->lanes[lane].in;
		uint32_t source = shuffle_source(s, lane);

		/* What a lane outside of the mask holds is undefined: poison. */
		*(uint64_t *)w->lanes[lane].out =
			mask >> source & 1 ? ((const struct shuffle *)w->lanes[source].in)->value
					   : ~0ull;
	}
}

uint64_t sim_shuffle(uint32_t mask, enum sim_shuffle_mode mode, uint64_t value, int operand,
		     int width, struct sim_place place)
{
	struct shuffle s = {mode, value, operand, width};
	uint64_t out = 0;

	if (width < 1 || width > SIM_WARP || (width & (width - 1)))
		sim_fault(cudaErrorLaunchFailure, place, "shuffle of width %d", width);
	warp_meet(mask, shuffle_op, &s, &out, place);
	return out;
}

static void ballot_op(struct block_warp *w, uint32_t mask)
{
	uint32_t votes = 0;

	FOR_LANES(lane, mask)
	votes |= (uint32_t) * (const bool *)w->lanes[lane].in << lane;
	FOR_LANES(lane, mask)
	*(uint32_t *)w->lanes[lane].out = votes;
}

uint32_t sim_ballot(uint32_t mask, bool predicate, struct sim_place place)
{
	uint32_t out = 0;

	warp_meet(mask, ballot_op, &predicate, &out, place);
	return out;
}

static void match_op(struct block_warp *w, uint32_t mask)
{
	FOR_LANES(lane, mask)
	{
		uint32_t same = 0;

		FOR_LANES(other, mask)
		same |= (uint32_t)(*(const uint64_t *)w->lanes[lane].in ==
				   *(const uint64_t *)w->lanes[other].in)
			<< other;
		*(uint32_t *)w->lanes[lane].out = same;
	}
}

uint32_t sim_match_any(uint32_t mask, uint64_t value, struct sim_place place)
{
	uint32_t out = 0;

	warp_meet(mask, match_op, &value, &out, place);
	return out;
}

struct reduce {
	enum sim_reduce op;
	uint32_t value;
};

static uint32_t reduce_two(enum sim_reduce op, uint32_t a, uint32_t b)
{
	switch (op) {
	case SIM_REDUCE_ADD:
		return a + b;
	case SIM_REDUCE_MIN_UNSIGNED:
		return a < b ? a : b;
	case SIM_REDUCE_MIN_SIGNED:
		return (int32_t)a < (int32_t)b ? a : b;
	case SIM_REDUCE_MAX_UNSIGNED:
		return a > b ? a : b;
	case SIM_REDUCE_MAX_SIGNED:
		return (int32_t)a > (int32_t)b ? a : b;
	case SIM_REDUCE_AND:
		return a & b;
	case SIM_REDUCE_OR:
		return a | b;
	case SIM_REDUCE_XOR:
		return a ^ b;
	}
	return 0;
}

static void reduce_op(struct block_warp *w, uint32_t mask)
{
	const struct reduce *first = w->lanes[__builtin_ctz(mask)].in;
	uint32_t sum = first->value;

	FOR_LANES(lane, mask & (mask - 1))
	sum = reduce_two(first->op, sum, ((const struct reduce *)w->lanes[lane].in)->value);
	FOR_LANES(lane, mask)
	*(uint32_t *)w->lanes[lane].out = sum;
}

uint32_t sim_reduce(uint32_t mask, enum sim_reduce op, uint32_t value, struct sim_place place)
{
	struct reduce r = {op, value};
	uint32_t out = 0;

	warp_meet(mask, reduce_op, &r, &out, place);
	return out;
}
