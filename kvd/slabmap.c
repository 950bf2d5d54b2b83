/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sorted array, because slabs are made and destroyed rarely, and looked up for each page that is
 * moved. It counts the pages under way of each slab: the core destroys none from which, or to
 * which, bytes are being moved, and this is where it would show. Loop's thread only.
 */
#include "kvd/slabmap.h"
#include "base/assert.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int slabmap_init(struct slabmap *m, uint32_t max)
{
	*m = (struct slabmap){.slabs = calloc(max, sizeof(struct slabmap_slab)), .max = max};
	return m->slabs ? 0 : -ENOMEM;
}

void slabmap_fini(struct slabmap *m)
{
	free(m->slabs);
	*m = (struct slabmap){0};
}

/* How many slabs begin at or before the page. */
static uint32_t slabmap_upto(const struct slabmap *m, uint32_t page)
{
	uint32_t low = 0, high = m->count;

	while (low < high) {
		uint32_t mid = (low + high) / 2;
		if (m->slabs[mid].first_page <= page)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

void slabmap_add(struct slabmap *m, const struct slabmap_slab *slab)
{
	uint32_t at = slabmap_upto(m, slab->first_page);
	struct slabmap_slab *to = &m->slabs[at];

	ASSERT(m->count < m->max && slab->page_count > 0);
	ASSERT(at == 0 || slab->first_page - to[-1].first_page >= to[-1].page_count);
	ASSERT(at == m->count || to->first_page - slab->first_page >= slab->page_count);
	memmove(to + 1, to, (m->count - at) * sizeof(*to));
	*to = *slab;
	m->count++;
}

void slabmap_remove(struct slabmap *m, uint32_t first_page)
{
	uint32_t behind = slabmap_upto(m, first_page);

	if (behind == 0 || m->slabs[behind - 1].first_page != first_page)
		return;
	struct slabmap_slab *s = &m->slabs[behind - 1];
	ASSERT(s->holds == 0);
	memmove(s, s + 1, (m->count - behind) * sizeof(*s));
	m->count--;
}

struct slabmap_slab *slabmap_find(const struct slabmap *m, uint32_t page)
{
	uint32_t behind = slabmap_upto(m, page);

	if (behind == 0)
		return NULL;
	struct slabmap_slab *s = &m->slabs[behind - 1];
	return page - s->first_page < s->page_count ? s : NULL;
}
