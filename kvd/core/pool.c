/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Page records: lists, take, free, and the counts that admission trusts.
 *
 * Invariants: a page is in at most one list, the one that page.list names. shelf.free and
 * shelf.evictable count pages of live slabs only: those of a closed slab can serve nobody.
 * slab.busy_count = pages that are neither free nor evictable. used_bytes of a space counts every
 * page that is not free once, whoever shares it. The core's thread only.
 */
#include "kvd/core/pool.h"

#include "kvd/core/evict.h"
#include "kvd/core/mutant.h"

void pool_list_init(struct page_list *list)
{
	*list = (struct page_list){.head = CORE_NONE, .tail = CORE_NONE, .finger = CORE_NONE};
}

/* Links the page behind `after`; CORE_NONE: at the head. */
static void insert_behind(struct core *core, struct page_list *list, uint32_t page, uint32_t after)
{
	struct page *p = &core->pages[page];

	p->prev = after;
	p->next = after == CORE_NONE ? list->head : core->pages[after].next;
	if (p->next != CORE_NONE)
		core->pages[p->next].prev = page;
	else
		list->tail = page;
	if (after != CORE_NONE)
		core->pages[after].next = page;
	else
		list->head = page;
	list->count++;
}

void pool_list_append(struct core *core, struct page_list *list, uint32_t page,
		      enum page_list_id id)
{
	ASSERT_DEBUG(core->pages[page].list == PAGE_NOWHERE);
	core->pages[page].list = (uint8_t)id;
	insert_behind(core, list, page, list->tail);
}

static bool comes_after(const struct page *a, const struct page *b)
{
	return a->block > b->block || (a->block == b->block && a->part > b->part);
}

/*
 * The last page of the list that does not come after `place`, or CORE_NONE: looked for from where
 * the last search ended.
 */
static uint32_t last_before(const struct core *core, struct page_list *list,
			    const struct page *place)
{
	const struct page *pages = core->pages;
	uint32_t at = list->tail;

	if (at == CORE_NONE || !comes_after(&pages[at], place))
		return at;
	if (list->finger != CORE_NONE)
		at = list->finger;
	while (at != CORE_NONE && comes_after(&pages[at], place))
		at = pages[at].prev;
	uint32_t next = at == CORE_NONE ? list->head : pages[at].next;
	while (!comes_after(&pages[next], place)) {
		at = next;
		next = pages[at].next;
	}
	list->finger = at == CORE_NONE ? list->head : at;
	return at;
}

void pool_list_insert(struct core *core, struct page_list *list, uint32_t page,
		      enum page_list_id id)
{
	ASSERT_DEBUG(core->pages[page].list == PAGE_NOWHERE);
	core->pages[page].list = (uint8_t)id;
	insert_behind(core, list, page, last_before(core, list, &core->pages[page]));
}

uint32_t pool_list_find(const struct core *core, struct page_list *list, uint32_t block)
{
	const struct page place = {.block = block};
	uint32_t page = last_before(core, list, &place);

	/* The parts of a block are all there, from 0 on. */
	return page != CORE_NONE && core->pages[page].block == block ? page : CORE_NONE;
}

void pool_list_remove(struct core *core, struct page_list *list, uint32_t page)
{
	struct page *p = &core->pages[page];

	if (p->prev != CORE_NONE)
		core->pages[p->prev].next = p->next;
	else
		list->head = p->next;
	if (p->next != CORE_NONE)
		core->pages[p->next].prev = p->prev;
	else
		list->tail = p->prev;
	if (list->finger == page)
		list->finger = p->next != CORE_NONE ? p->next : p->prev;
	p->prev = p->next = CORE_NONE;
	p->list = PAGE_NOWHERE;
	list->count--;
}

struct shelf *pool_shelf(const struct core *core, uint32_t page)
{
	const struct slab *slab = &core->slabs[core->pages[page].slab];

	return machine_shelf(core, slab->space, slab->geometry);
}

/* The shelf's slab with the fewest free pages, but one; slabs fill up before others are begun. */
static uint32_t pick_slab(const struct core *core, struct shelf *shelf)
{
	uint32_t best = shelf->current;

	if (best != CORE_NONE && core->slabs[best].state == SLAB_LIVE &&
	    core->slabs[best].free_count > 0)
		return best;
	best = CORE_NONE;
	for (uint32_t s = shelf->slabs; s != CORE_NONE; s = core->slabs[s].next) {
		if (core->slabs[s].free_count == 0)
			continue;
		if (best == CORE_NONE || core->slabs[s].free_count < core->slabs[best].free_count)
			best = s;
	}
	shelf->current = best;
	return best;
}

uint32_t pool_take(struct core *core, struct shelf *shelf, enum state_event event)
{
	uint32_t slab = pick_slab(core, shelf);

	ASSERT(slab != CORE_NONE);
	struct slab *s = &core->slabs[slab];
	uint32_t page = s->free_head;
	struct page *p = &core->pages[page];

	s->free_head = p->next;
	s->free_count--;
	s->busy_count++;
	shelf->free--;
	p->next = CORE_NONE;
	p->list = PAGE_NOWHERE;
	core->spaces[s->space].used_pages++;
	core->spaces[s->space].on[machine_device(core, page)].used_bytes +=
		machine_stride(core, page);
	state_change(core, page, event);
	return page;
}

void pool_free(struct core *core, uint32_t page, enum state_event event)
{
	struct page *p = &core->pages[page];
	struct slab *s = &core->slabs[p->slab];

	ASSERT_DEBUG(p->list == PAGE_NOWHERE && p->node == CORE_NONE);
	state_change(core, page, event);
	core->spaces[s->space].used_pages--;
	core->spaces[s->space].on[machine_device(core, page)].used_bytes -=
		machine_stride(core, page);
	if (!MUTANT(GENERATION_KEPT))
		p->generation++;
	p->lease = p->owner = p->node = p->next_part = CORE_NONE;
	p->shown = 0;
	p->prev = CORE_NONE;
	p->next = s->free_head;
	p->list = PAGE_FREE;
	s->free_head = page;
	s->free_count++;
	s->busy_count--;
	if (s->state == SLAB_LIVE)
		machine_shelf(core, s->space, s->geometry)->free++;
	machine_wake(core, machine_slab_device(core, s));
}

void pool_make_evictable(struct core *core, uint32_t page)
{
	struct slab *s = &core->slabs[core->pages[page].slab];
	struct shelf *shelf = machine_shelf(core, s->space, s->geometry);

	pool_list_append(core, evict_order(core, shelf, page), page, PAGE_EVICTABLE);
	s->busy_count--;
	s->last_used_ns = core->now_ns;
	if (s->state == SLAB_LIVE)
		shelf->evictable++;
	machine_wake(core, machine_slab_device(core, s));
}

void pool_make_busy(struct core *core, uint32_t page)
{
	struct slab *s = &core->slabs[core->pages[page].slab];
	struct shelf *shelf = machine_shelf(core, s->space, s->geometry);

	pool_list_remove(core, evict_order(core, shelf, page), page);
	s->busy_count++;
	if (s->state == SLAB_LIVE)
		shelf->evictable--;
}

int pool_find(const struct core *core, struct kvd_handle handle, uint32_t space, uint32_t *out_page)
{
	if (handle.page >= core->cfg.pages_max)
		return KVD_STALE;
	const struct page *p = &core->pages[handle.page];
	if (p->list == PAGE_UNMADE || p->state == KVD_PAGE_FREE)
		return KVD_STALE;
	if (p->generation != handle.generation && !MUTANT(SKIP_GENERATION))
		return KVD_STALE;
	if (core->slabs[p->slab].space != space)
		return KVD_STALE;
	*out_page = handle.page;
	return 0;
}

struct kvd_handle pool_handle(const struct core *core, uint32_t page)
{
	return (struct kvd_handle){.page = page, .generation = core->pages[page].generation};
}
