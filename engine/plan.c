/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory planning: first fit, largest first. Every buffer takes the lowest offset at which it
 * meets no buffer that is placed already and alive at the same time. Largest first keeps the holes
 * small; with a dozen buffers the quadratic search is nothing. Pure, any thread.
 */
#include "engine/plan.h"
#include "base/assert.h"
#include "base/bits.h"
#include <stdbool.h>

#define PLAN_BUFFERS_MAX 32u

static bool alive_together(const struct plan_buffer *a, const struct plan_buffer *b)
{
	return a->first <= b->last && b->first <= a->last;
}

/* Does a placed buffer stand in the way of `b` at `offset`? */
static bool blocked(struct plan_buffer *const *placed, uint32_t count, const struct plan_buffer *b,
		    size_t offset)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct plan_buffer *p = placed[i];

		if (alive_together(p, b) && offset < p->out_offset + p->bytes &&
		    p->out_offset < offset + b->bytes)
			return true;
	}
	return false;
}

static size_t lowest_offset(struct plan_buffer *const *placed, uint32_t count,
			    const struct plan_buffer *b)
{
	size_t best = SIZE_MAX;

	/* The lowest hole starts at 0 or at the end of some placed buffer. */
	for (uint32_t i = 0; i <= count; i++) {
		size_t at = i < count ? placed[i]->out_offset + placed[i]->bytes : 0;

		at = bits_align_up(at, PLAN_ALIGN);
		if (at < best && !blocked(placed, count, b, at))
			best = at;
	}
	return best;
}

size_t plan_place(struct plan_buffer *buffers, uint32_t count)
{
	struct plan_buffer *order[PLAN_BUFFERS_MAX];
	size_t total = 0;

	ASSERT(count <= PLAN_BUFFERS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = i;

		for (; at > 0 && order[at - 1]->bytes < buffers[i].bytes; at--)
			order[at] = order[at - 1];
		order[at] = &buffers[i];
	}
	for (uint32_t i = 0; i < count; i++) {
		order[i]->out_offset = lowest_offset(order, i, order[i]);
		ASSERT(order[i]->out_offset != SIZE_MAX);
		total = BITS_MAX(total, order[i]->out_offset + order[i]->bytes);
	}
	return bits_align_up(total, PLAN_ALIGN);
}
