/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check of pages, slabs and shelves: conservation, one state and one list for each record,
 * and counts that are the sums they claim to be.
 *
 * It trusts nothing that it can count itself, changes nothing but its own scratch memory, and is
 * as long as everything is large. The core's thread only.
 */
#include "kvd/core/check.h"

#include "kvd/core/check_tiers.h"
#include "kvd/core/check_tree.h"
#include "kvd/core/check_users.h"
#include "kvd/core/evict.h"
#include "kvd/core/pool.h"
#include "kvd/core/space.h"

#include <errno.h>

static bool node_in_use(const struct core *core, uint32_t node)
{
	return node < core->node_slots && core->nodes[node].state == NODE_SEALED;
}

static bool page_legal(const struct core *core, const struct page *p)
{
	bool leased = p->lease < core->cfg.leases_max && core->leases[p->lease].life != LEASE_FREE;
	bool in_node = node_in_use(core, p->node);

	bool hauled = p->lease < core->lease_slots && machine_is_haul(core, p->lease) &&
		      core->leases[p->lease].life == LEASE_HAUL;

	switch ((enum page_list_id)p->list) {
	case PAGE_UNMADE:
		return p->slab == CORE_NONE && p->state == KVD_PAGE_FREE && !in_node && !leased;
	case PAGE_FREE:
		return p->state == KVD_PAGE_FREE && !in_node && p->lease == CORE_NONE;
	case PAGE_OWN:
		if (p->state == KVD_PAGE_FILLING)
			return hauled;
		return p->state == KVD_PAGE_OPEN && !in_node && leased;
	case PAGE_MOVING:
		return p->state == KVD_PAGE_FILLING && p->owner < core->transfers_max &&
		       core->transfers[p->owner].busy;
	case PAGE_KEPT:
		return p->state == KVD_PAGE_SEALED && !in_node && leased;
	case PAGE_MAGAZINE:
		return p->state == KVD_PAGE_OPEN && !in_node && p->lease == CORE_NONE &&
		       p->owner < core->groups_max && core->groups[p->owner].id != 0;
	case PAGE_QUARANTINE:
		return p->state == KVD_PAGE_QUARANTINE && !in_node && p->owner < core->groups_max &&
		       core->groups[p->owner].id != 0;
	case PAGE_EVICTABLE:
		return p->state == KVD_PAGE_SEALED && in_node && core->nodes[p->node].pins == 0;
	case PAGE_NOWHERE:
		return p->state == KVD_PAGE_SEALED && in_node && core->nodes[p->node].pins > 0;
	}
	return false;
}

static void check_pages(struct check *c)
{
	const struct core *core = c->core;
	uint64_t states[KVD_PAGE_STATES] = {0};
	uint64_t bytes[KVD_PAGE_STATES] = {0};

	for (uint32_t i = 0; i < core->cfg.pages_max; i++) {
		const struct page *p = &core->pages[i];
		CHECK(c, page_legal(core, p), "page %u: state %u in list %u, node %u lease %u", i,
		      p->state, p->list, p->node, p->lease);
		if (p->list == PAGE_UNMADE)
			continue;
		states[p->state]++;
		bytes[p->state] += machine_stride(core, i);
	}
	for (uint32_t s = 0; s < KVD_PAGE_STATES; s++)
		CHECK(c,
		      states[s] == core->pages_by_state[s] && bytes[s] == core->bytes_by_state[s],
		      "state %u: %llu pages, counted %llu", s,
		      (unsigned long long)core->pages_by_state[s], (unsigned long long)states[s]);
}

/* --- slabs ---------------------------------------------------------------------------------- */

static bool has_pages(const struct slab *s)
{
	return s->state != SLAB_NONE && s->state != SLAB_MAKING;
}

static void check_slab(struct check *c, uint32_t slab)
{
	const struct core *core = c->core;
	const struct slab *s = &core->slabs[slab];
	uint32_t free_count = 0;
	uint32_t busy = 0;
	uint32_t listed = 0;

	for (uint32_t i = s->first_page; i < s->first_page + s->page_count; i++) {
		const struct page *p = &core->pages[i];
		CHECK(c, p->slab == slab, "page %u is not of slab %u", i, slab);
		free_count += p->list == PAGE_FREE;
		busy += p->list != PAGE_FREE && p->list != PAGE_EVICTABLE;
	}
	for (uint32_t p = s->free_head; p != CORE_NONE && listed <= s->page_count;
	     p = core->pages[p].next, listed++)
		CHECK(c, core->pages[p].slab == slab && core->pages[p].list == PAGE_FREE,
		      "page %u in the free list of slab %u", p, slab);
	CHECK(c, free_count == s->free_count && listed == free_count && busy == s->busy_count,
	      "slab %u: free %u, listed %u, counted %u; busy %u, counted %u", slab, s->free_count,
	      listed, free_count, s->busy_count, busy);
	CHECK(c, s->state < SLAB_RETIRING || s->free_count == s->page_count,
	      "slab %u retires with pages in use", slab);
}

/* What a device's slabs cost is in its own bank, all of it, and in no other. */
static void check_bank(struct check *c, uint32_t device)
{
	const struct core *core = c->core;
	const struct bank *bank = &core->banks[device];
	uint64_t bytes = 0;
	uint32_t closed = 0;
	uint32_t making = 0;

	for (uint32_t i = 0; i < core->slabs_max; i++) {
		const struct slab *s = &core->slabs[i];
		if (s->state == SLAB_NONE || machine_slab_device(core, s) != device)
			continue;
		bytes += core->geometries[s->geometry].slab_bytes;
		closed += s->state == SLAB_CLOSED;
		making += s->state == SLAB_MAKING;
		CHECK(c,
		      s->first_page >= bank->first_page &&
			      s->first_page + s->page_count <= bank->end_page,
		      "slab %u lies outside of the records of device %u", i, device);
	}
	CHECK(c,
	      bytes == bank->slab_bytes && bytes <= bank->bytes &&
		      bank->bytes <= core->cfg.pool_bytes[device],
	      "device %u: slabs of %llu bytes, counted %llu, in a pool of %llu", device,
	      (unsigned long long)bank->slab_bytes, (unsigned long long)bytes,
	      (unsigned long long)bank->bytes);
	CHECK(c, closed == bank->closed_count && making == bank->making_count,
	      "device %u: %u closed slabs, counted %u; making %u, counted %u", device,
	      bank->closed_count, closed, bank->making_count, making);
	CHECK(c,
	      bank->end_page <= core->cfg.pages_max &&
		      bank->first_page == (device ? core->banks[device - 1].end_page : 0),
	      "device %u has the records from %u to %u", device, bank->first_page, bank->end_page);
}

/* What namespaces lack to their floors on the device is still there for them. */
static void check_floors(struct check *c, uint32_t device)
{
	const struct core *core = c->core;
	uint64_t pool = core->cfg.pool_bytes[device];
	uint64_t floors = 0;
	uint64_t lacking = 0;

	for (uint32_t s = 0; s < core->space_count; s++) {
		uint64_t floor = space_floor_bytes(core, s, device);
		uint64_t has = core->spaces[s].on[device].slab_bytes;
		floors += floor;
		lacking += floor > has ? floor - has : 0;
	}
	CHECK(c, floors > pool || core->banks[device].slab_bytes + lacking <= pool,
	      "device %u: slabs of %llu bytes, %llu lacking to floors, in a pool of %llu", device,
	      (unsigned long long)core->banks[device].slab_bytes, (unsigned long long)lacking,
	      (unsigned long long)pool);
}

static void check_banks(struct check *c)
{
	for (uint32_t d = 0; d < c->core->cfg.device_count && !c->failed; d++) {
		check_bank(c, d);
		check_floors(c, d);
	}
}

static void check_slabs(struct check *c)
{
	const struct core *core = c->core;

	for (uint32_t i = 0; i < core->slabs_max; i++) {
		const struct slab *s = &core->slabs[i];
		if (s->state == SLAB_NONE)
			continue;
		CHECK(c, s->first_page + s->page_count <= core->cfg.pages_max,
		      "slab %u lies behind the records", i);
		for (uint32_t k = 0; k < i; k++) {
			const struct slab *o = &core->slabs[k];
			CHECK(c,
			      o->state == SLAB_NONE ||
				      o->first_page + o->page_count <= s->first_page ||
				      s->first_page + s->page_count <= o->first_page,
			      "slabs %u and %u overlap", k, i);
		}
		if (has_pages(s))
			check_slab(c, i);
	}
}

/* --- shelves -------------------------------------------------------------------------------- */

static uint64_t promised_on(const struct core *core, uint32_t space, uint32_t geometry)
{
	uint64_t promised = 0;

	for (uint32_t i = 0; i < core->cfg.leases_max; i++) {
		const struct lease *l = &core->leases[i];
		const struct format *f = &core->formats[l->format];
		if (l->life == LEASE_FREE || f->space != space)
			continue;
		for (uint32_t part = 0; part < f->part_count; part++)
			if (f->geometry[part] == geometry)
				promised += l->promised_blocks;
	}
	return promised;
}

/* One order of the shelf holds what the policy would put there. Adds its length. */
static void check_order(struct check *c, const struct shelf *shelf, uint32_t order,
			uint64_t *listed)
{
	const struct core *core = c->core;
	const struct page_list *list = &shelf->order[order];
	uint32_t count = 0;
	bool fits = true;

	for (uint32_t p = list->head; p != CORE_NONE && count <= core->cfg.pages_max;
	     p = core->pages[p].next, count++)
		fits &= core->pages[p].list == PAGE_EVICTABLE &&
			evict_order(core, pool_shelf(core, p), p) == list;
	CHECK(c, fits && count == list->count,
	      "eviction order %u of %u pages, counted %u; all its own: %d", order, list->count,
	      count, fits);
	*listed += count;
}

/* All that may be evicted stands in an order, and what goes first is a leaf. */
static void check_orders(struct check *c, const struct shelf *shelf, uint64_t evictable)
{
	uint64_t listed = 0;

	for (uint32_t order = 0; order < CORE_ORDERS && !c->failed; order++)
		check_order(c, shelf, order, &listed);
	if (c->failed)
		return;
	CHECK(c, listed == evictable, "eviction orders of %llu pages, of %llu",
	      (unsigned long long)listed, (unsigned long long)evictable);
	CHECK(c, c->core->policy->leaf_first(c->core, shelf),
	      "the first to be evicted is not a leaf");
}

static void check_shelf(struct check *c, uint32_t space, uint32_t geometry)
{
	const struct core *core = c->core;
	const struct shelf *shelf = machine_shelf(core, space, geometry);
	uint64_t free_count = 0;
	uint64_t evictable = 0;
	uint64_t making = 0;
	uint64_t in_orders = 0;
	uint32_t live = 0;
	uint32_t listed = 0;

	for (uint32_t i = 0; i < core->slabs_max; i++) {
		const struct slab *s = &core->slabs[i];
		if (s->state == SLAB_NONE || s->space != space || s->geometry != geometry)
			continue;
		making += s->state == SLAB_MAKING ? s->page_count : 0;
		if (has_pages(s))
			in_orders += s->page_count - s->free_count - s->busy_count;
		if (s->state != SLAB_LIVE)
			continue;
		live++;
		free_count += s->free_count;
		evictable += s->page_count - s->free_count - s->busy_count;
	}
	for (uint32_t s = shelf->slabs; s != CORE_NONE && listed <= live; s = core->slabs[s].next)
		listed++;
	CHECK(c, listed == live, "shelf %u/%u: %u live slabs, %u listed", space, geometry, live,
	      listed);
	CHECK(c,
	      free_count == shelf->free && evictable == shelf->evictable && making == shelf->making,
	      "shelf %u/%u: free %u, evictable %u, making %u", space, geometry, shelf->free,
	      shelf->evictable, shelf->making);
	uint64_t promised = promised_on(core, space, geometry);
	CHECK(c, promised == shelf->promised && promised <= free_count + evictable,
	      "shelf %u/%u: promised %u, counted %llu, free %llu, evictable %llu", space, geometry,
	      shelf->promised, (unsigned long long)promised, (unsigned long long)free_count,
	      (unsigned long long)evictable);
	check_orders(c, shelf, in_orders);
}

static void check_shelves(struct check *c)
{
	for (uint32_t s = 0; s < c->core->space_count; s++)
		for (uint32_t g = 0; g < c->core->geometry_count; g++)
			check_shelf(c, s, g);
}

int check_all(const struct core *core, char *error, size_t size)
{
	static void (*const checks[])(struct check *) = {
		check_slabs,	    check_banks,	 check_pages,	     check_shelves,
		check_tree_nodes,   check_tree_pins,	 check_users_leases, check_users_sessions,
		check_users_spaces, check_users_waiting, check_tiers_slots,  check_tiers_lists,
		check_tiers_moving,
	};
	struct check c = {.core = core, .error = error, .size = size};

	if (size > 0)
		error[0] = '\0';
	for (uint32_t i = 0; i < ARRAY_LEN(checks) && !c.failed; i++)
		checks[i](&c);
	return c.failed ? -EUCLEAN : 0;
}
