/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making slabs: how many bytes a shelf may still have, where the page records of a new slab lie,
 * and the orders to the shell.
 *
 * Invariants: the ranges of slabs do not overlap, and lie in their device's records. slab_bytes of
 * a bank is the sum of all that exist or are being made or destroyed on its device, and never
 * exceeds the pool there. A slab that cannot be made lowers the device's pool to what there is; a
 * second later more is tried, for memory may have come back. What other spaces lack to their floor
 * on the device is not given away. A slab is only ever in the list of its shelf while it is live.
 * The core's thread only. See turnover.c for the other half of a slab's life.
 */
#include "kvd/core/slab.h"

#include "kvd/core/bank.h"
#include "kvd/core/mutant.h"
#include "kvd/core/pool.h"
#include "kvd/core/space.h"

#include <errno.h>
#include <stdio.h>

void slab_init(struct core *core)
{
	for (uint32_t i = 0; i < core->cfg.pages_max; i++) {
		struct page *p = &core->pages[i];
		*p = (struct page){.generation = 1, .list = PAGE_UNMADE};
		p->slab = p->node = p->next_part = p->lease = p->owner = CORE_NONE;
		p->prev = p->next = CORE_NONE;
	}
	for (size_t i = 0; i < (size_t)core->cfg.spaces_max * core->cfg.geometries_max; i++) {
		core->shelves[i].slabs = core->shelves[i].current = CORE_NONE;
		for (uint32_t order = 0; order < CORE_ORDERS; order++)
			pool_list_init(&core->shelves[i].order[order]);
	}
}

/* Bytes that were brought together for a request that waits are not for other shelves. */
static uint64_t turner_bytes(const struct bank *bank, uint32_t space, uint32_t geometry)
{
	bool own = bank->turner_space == space && bank->turner_geometry == geometry;

	return bank->turner == CORE_NONE || own ? 0 : bank->turner_bytes;
}

/* Bytes that the shelf may make now without touching what others lack to their floors. */
static uint64_t available_bytes(const struct core *core, uint32_t space, uint32_t geometry)
{
	uint32_t device = core->geometries[geometry].device;
	const struct bank *bank = &core->banks[device];
	const struct space_part *part = &core->spaces[space].on[device];
	const struct bank *made = bank - (MUTANT(RESERVE_ELSEWHERE) && device > 0);
	uint64_t reserved = made->slab_bytes + turner_bytes(bank, space, geometry);

	if (part->slab_bytes >= part->ceiling_bytes)
		return 0;
	for (uint32_t s = 0; s < core->space_count; s++) {
		uint32_t where = device - (MUTANT(FLOOR_ELSEWHERE) && device > 0);
		uint64_t floor = space_floor_bytes(core, s, where);
		uint64_t has = core->spaces[s].on[device].slab_bytes;
		if (s != space && has < floor)
			reserved += floor - has;
	}
	return reserved < bank->bytes ? bank->bytes - reserved : 0;
}

uint64_t slab_limit_bytes(const struct core *core, uint32_t space, uint32_t device)
{
	uint64_t pool = core->cfg.pool_bytes[device];
	uint64_t reserved = 0;

	for (uint32_t s = 0; s < core->space_count; s++)
		if (s != space)
			reserved += space_floor_bytes(core, s, device);
	return reserved < pool ? pool - reserved : 0;
}

/* The slab with the lowest range that ends behind `page`, or CORE_NONE. */
static uint32_t next_range(const struct core *core, uint32_t page)
{
	uint32_t best = CORE_NONE;

	for (uint32_t i = 0; i < core->slabs_max; i++) {
		const struct slab *s = &core->slabs[i];
		if (s->state == SLAB_NONE || s->first_page + s->page_count <= page)
			continue;
		if (best == CORE_NONE || s->first_page < core->slabs[best].first_page)
			best = i;
	}
	return best;
}

/* How many ranges of a slab's records the device has left; the first of them in out_first. */
static uint32_t free_ranges(const struct core *core, const struct geometry *g, uint32_t *out_first)
{
	const struct bank *bank = &core->banks[g->device];
	uint32_t page = bank->first_page;
	uint32_t ranges = 0;

	for (;;) {
		uint32_t slab = next_range(core, page);
		uint32_t end = slab == CORE_NONE ? bank->end_page : core->slabs[slab].first_page;
		end = BITS_MIN(end, bank->end_page);
		if (end > page && ranges == 0 && end - page >= g->page_count)
			*out_first = page;
		ranges += end > page ? (end - page) / g->page_count : 0;
		if (end == bank->end_page)
			return ranges;
		page = core->slabs[slab].first_page + core->slabs[slab].page_count;
	}
}

static uint32_t free_slab(const struct core *core)
{
	uint32_t slab = 0;

	while (slab < core->slabs_max && core->slabs[slab].state != SLAB_NONE)
		slab++;
	return slab < core->slabs_max ? slab : CORE_NONE;
}

uint64_t slab_unmade_pages(const struct core *core, uint32_t space, uint32_t geometry)
{
	const struct geometry *g = &core->geometries[geometry];
	uint64_t slabs = available_bytes(core, space, geometry) / g->slab_bytes;
	uint32_t first;

	if (slabs == 0)
		return 0;
	return BITS_MIN(slabs, free_ranges(core, g, &first)) * g->page_count;
}

static void order(struct core *core, enum core_order_kind kind, uint32_t slab, bool forced)
{
	const struct slab *s = &core->slabs[slab];
	const struct geometry *g = &core->geometries[s->geometry];
	struct core_order o = {
		.kind = kind,
		.slab = slab,
		.space = s->space,
		.device = g->device,
		.first_page = s->first_page,
		.page_count = s->page_count,
		.forced = forced,
		.stride_bytes = g->stride_bytes,
		.slab_bytes = g->slab_bytes,
	};

	core->ops.order(core->ctx, &o);
}

static bool make_one(struct core *core, uint32_t space, uint32_t geometry)
{
	const struct geometry *g = &core->geometries[geometry];
	uint32_t slab = free_slab(core);
	uint32_t first;

	if (slab == CORE_NONE || available_bytes(core, space, geometry) < g->slab_bytes ||
	    free_ranges(core, g, &first) == 0)
		return false;
	core->slabs[slab] = (struct slab){
		.space = space,
		.geometry = geometry,
		.first_page = first,
		.page_count = g->page_count,
		.free_head = CORE_NONE,
		.next = CORE_NONE,
		.state = SLAB_MAKING,
	};
	machine_shelf(core, space, geometry)->making += g->page_count;
	core->spaces[space].on[g->device].slab_bytes += g->slab_bytes;
	core->banks[g->device - (MUTANT(PAY_ELSEWHERE) && g->device > 0)].slab_bytes +=
		g->slab_bytes;
	core->banks[g->device].making_count++;
	order(core, CORE_ORDER_SLAB_MAKE, slab, false);
	return true;
}

void slab_want(struct core *core, uint32_t space, uint32_t geometry, uint64_t pages)
{
	while (machine_shelf(core, space, geometry)->making < pages)
		if (!make_one(core, space, geometry))
			return;
}

void slab_spare(struct core *core, uint32_t space, uint32_t geometry)
{
	const struct shelf *shelf = machine_shelf(core, space, geometry);

	if (shelf->free + shelf->making < core->geometries[geometry].page_count / 2)
		make_one(core, space, geometry);
}

static void forget(struct core *core, uint32_t slab)
{
	struct slab *s = &core->slabs[slab];
	const struct geometry *g = &core->geometries[s->geometry];

	core->spaces[s->space].on[g->device].slab_bytes -= g->slab_bytes;
	core->banks[g->device].slab_bytes -= g->slab_bytes;
	s->state = SLAB_NONE;
	machine_wake(core, g->device);
}

static void make_failed(struct core *core, uint32_t slab, int result)
{
	uint32_t device = machine_slab_device(core, &core->slabs[slab]);
	char text[160];

	forget(core, slab);
	bank_lower(core, device);
	snprintf(text, sizeof(text),
		 "a slab could not be made on device %u (error %d): its pool is %llu bytes for now",
		 device, -result, (unsigned long long)core->banks[device].bytes);
	core->ops.note(core->ctx, CORE_NOTE_WARN, text);
}

void slab_made(struct core *core, uint32_t slab, int result)
{
	struct slab *s = &core->slabs[slab];
	struct shelf *shelf = machine_shelf(core, s->space, s->geometry);
	uint64_t stride = core->geometries[s->geometry].stride_bytes;

	ASSERT(s->state == SLAB_MAKING);
	shelf->making -= s->page_count;
	core->banks[machine_slab_device(core, s)].making_count--;
	if (result < 0) {
		make_failed(core, slab, result);
		return;
	}
	s->state = SLAB_LIVE;
	for (uint32_t i = s->page_count; i-- > 0;) {
		struct page *p = &core->pages[s->first_page + i];
		p->slab = slab;
		p->list = PAGE_FREE;
		p->next = s->free_head;
		s->free_head = s->first_page + i;
	}
	s->free_count = s->page_count;
	shelf->free += s->page_count;
	s->next = shelf->slabs;
	shelf->slabs = slab;
	core->pages_by_state[KVD_PAGE_FREE] += s->page_count;
	core->bytes_by_state[KVD_PAGE_FREE] += s->page_count * stride;
	core->counters[KVD_C_SLABS_MADE]++;
	machine_wake(core, machine_slab_device(core, s));
}

void slab_destroy(struct core *core, uint32_t slab, bool forced)
{
	core->slabs[slab].state = SLAB_DESTROYING;
	order(core, CORE_ORDER_SLAB_DESTROY, slab, forced);
}

void slab_destroyed(struct core *core, uint32_t slab)
{
	struct slab *s = &core->slabs[slab];
	uint64_t stride = core->geometries[s->geometry].stride_bytes;

	ASSERT(s->state == SLAB_DESTROYING);
	for (uint32_t i = 0; i < s->page_count; i++) {
		struct page *p = &core->pages[s->first_page + i];
		p->slab = p->next = CORE_NONE;
		p->list = PAGE_UNMADE;
	}
	core->pages_by_state[KVD_PAGE_FREE] -= s->page_count;
	core->bytes_by_state[KVD_PAGE_FREE] -= s->page_count * stride;
	core->counters[KVD_C_SLABS_RETIRED]++;
	forget(core, slab);
}

int slab_find(const struct core *core, uint32_t space, uint32_t page, struct kvd_slab_wire *out)
{
	if (page >= core->cfg.pages_max || core->pages[page].list == PAGE_UNMADE)
		return -ENOENT;
	uint32_t slab = core->pages[page].slab;
	const struct slab *s = &core->slabs[slab];
	const struct geometry *g = &core->geometries[s->geometry];
	if (s->space != space || (s->state != SLAB_LIVE && s->state != SLAB_CLOSED))
		return -ENOENT;
	*out = (struct kvd_slab_wire){
		.slab = slab,
		.first_page = s->first_page,
		.page_count = s->page_count,
		.stride_bytes = g->stride_bytes,
		.slab_bytes = g->slab_bytes,
		.device = g->device,
	};
	return 0;
}
