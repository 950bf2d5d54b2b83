/* SPDX-License-Identifier: Apache-2.0 */
/* A sorted array of pointers: looked up on every copy, changed seldom. */
#include "tests/cudasim/rt_area.h"
#include "tests/cudasim/rt.h"
#include <stdlib.h>
#include <string.h>

static struct rt_area **areas;
static size_t count, room;

/* Index of the first area that ends behind the address. */
static size_t area_index(const void *at)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t mid = (low + high) / 2;
		if (areas[mid]->base + areas[mid]->bytes <= (const uint8_t *)at)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct rt_area *rt_area_add(const struct rt_area *area)
{
	struct rt_area *copy = malloc(sizeof(*copy));

	if (copy && count == room) {
		size_t more = room ? 2 * room : 64;
		struct rt_area **grown = realloc(areas, more * sizeof(*areas));
		if (!grown) {
			free(copy);
			return NULL;
		}
		areas = grown;
		room = more;
	}
	if (!copy)
		return NULL;
	*copy = *area;
	size_t i = area_index(copy->base);
	memmove(areas + i + 1, areas + i, (count - i) * sizeof(*areas));
	areas[i] = copy;
	count++;
	return copy;
}

void rt_area_remove(struct rt_area *area)
{
	size_t i = area_index(area->base);

	memmove(areas + i, areas + i + 1, (--count - i) * sizeof(*areas));
	free(area);
}

struct rt_area *rt_area_next(const void *at)
{
	size_t i = area_index(at);

	return i < count ? areas[i] : NULL;
}

struct rt_area *rt_area_find(const void *at)
{
	struct rt_area *a = rt_area_next(at);

	return a && a->base <= (const uint8_t *)at ? a : NULL;
}

size_t rt_area_count(void)
{
	return count;
}

struct rt_area *rt_area_at(size_t index)
{
	return areas[index];
}

/* Mappings that lie side by side are one memory; all else has guards at its ends. */
static bool area_holds(const uint8_t *at, size_t bytes)
{
	const uint8_t *end = at + bytes;
	struct rt_area *a = rt_area_find(at);

	while (a && a->base + a->bytes < end && a->kind == RT_AREA_VMM) {
		at = a->base + a->bytes;
		a = rt_area_find(at);
	}
	return a && end <= a->base + a->bytes;
}

bool sim_is_device(const void *at, size_t bytes)
{
	rt_lock();
	bool yes = area_holds(at, bytes);
	rt_unlock();
	return yes;
}
