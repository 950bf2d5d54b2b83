/* SPDX-License-Identifier: Apache-2.0 */
/*
 * area.c: first fit over the gaps between live ranges. Gap i lies before live[i]; the last one
 * reaches to the end of the area. One thread.
 */
#include "ipc/client/area.h"
#include <base/assert.h>
#include <base/bits.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int area_init(struct area *a, uint32_t base, uint32_t bytes, uint32_t live_max)
{
	*a = (struct area){.base = base, .bytes = bytes & ~(AREA_ALIGN - 1), .live_max = live_max};
	a->live = calloc(live_max, sizeof(*a->live));
	return a->live ? 0 : -ENOMEM;
}

void area_fini(struct area *a)
{
	free(a->live);
	*a = (struct area){0};
}

static struct area_range area_gap(const struct area *a, uint32_t i)
{
	uint32_t from = i ? a->live[i - 1].off + a->live[i - 1].bytes : a->base;
	uint32_t to = i < a->live_count ? a->live[i].off : a->base + a->bytes;

	return (struct area_range){.off = from, .bytes = to - from};
}

bool area_take(struct area *a, uint32_t bytes, struct area_range *out)
{
	*out = (struct area_range){0};
	if (bytes == 0)
		return true;
	if (bytes > a->bytes || a->live_count == a->live_max)
		return false;
	uint32_t size = (uint32_t)bits_align_up(bytes, AREA_ALIGN);
	for (uint32_t i = 0; i <= a->live_count; i++) {
		struct area_range gap = area_gap(a, i);
		if (gap.bytes < size)
			continue;
		memmove(&a->live[i + 1], &a->live[i], (a->live_count - i) * sizeof(*a->live));
		a->live[i] = (struct area_range){.off = gap.off, .bytes = size};
		a->live_count++;
		*out = a->live[i];
		return true;
	}
	return false;
}

bool area_give(struct area *a, struct area_range *range)
{
	for (uint32_t i = 0; range->bytes && i < a->live_count; i++) {
		if (a->live[i].off != range->off)
			continue;
		ASSERT(a->live[i].bytes == range->bytes);
		a->live_count--;
		memmove(&a->live[i], &a->live[i + 1], (a->live_count - i) * sizeof(*a->live));
		*range = (struct area_range){0};
		return true;
	}
	return false;
}

uint32_t area_largest(const struct area *a)
{
	uint32_t best = 0;

	if (a->live_count == a->live_max)
		return 0;
	for (uint32_t i = 0; i <= a->live_count; i++)
		best = BITS_MAX(best, area_gap(a, i).bytes);
	return best;
}
