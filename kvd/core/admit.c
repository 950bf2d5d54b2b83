/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission: may a request have its pages, and if not, why not, in numbers.
 *
 * In this order: the session's share and the space's ceiling; pages that are free; slabs that can
 * be made, which is better than throwing away what may be hit; eviction; slabs of others. A
 * request behind others that wait for memory waits too, whatever is free: what they wait for must
 * not be taken from under them.
 *
 * Invariants: shelf.promised is the sum over leases of what they may still take there, and free +
 * evictable is never less. The core's thread only.
 */
#include "kvd/core/admit.h"

#include "kvd/core/evict.h"
#include "kvd/core/mutant.h"
#include "kvd/core/pool.h"
#include "kvd/core/session.h"
#include "kvd/core/slab.h"
#include "kvd/core/space.h"
#include "kvd/core/turnover.h"

#include <errno.h>

/* Parts of the format on the shelf of part `part`; 0 if an earlier part has counted them. */
static uint32_t parts_on_shelf(const struct format *format, uint32_t part)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < format->part_count; i++) {
		if (format->geometry[i] != format->geometry[part])
			continue;
		if (i < part)
			return 0;
		count++;
	}
	return count;
}

int admit_possible(const struct core *core, uint32_t format, uint64_t blocks)
{
	const struct format *f = &core->formats[format];
	uint64_t slab_bytes = 0;
	uint64_t pages = 0;

	if (blocks > core->cfg.pages_max)
		return -E2BIG;
	for (uint32_t part = 0; part < f->part_count; part++) {
		const struct geometry *g = &core->geometries[f->geometry[part]];
		uint64_t slabs = bits_div_ceil(blocks * parts_on_shelf(f, part), g->page_count);
		slab_bytes += slabs * g->slab_bytes;
		pages += slabs * g->page_count;
	}
	uint64_t bytes = blocks * f->block_bytes;
	bool fits = slab_bytes <= slab_limit_bytes(core, f->space) &&
		    pages <= core->cfg.pages_max && bytes <= session_share_bytes(core) &&
		    bytes <= core->spaces[f->space].ceiling_bytes;
	return fits ? 0 : -E2BIG;
}

static void fill_numbers(struct core *core, struct call *call, const struct format *f,
			 uint64_t blocks)
{
	call->full = (struct kvd_rep_full){.needed_pages = blocks * f->part_count};
	for (uint32_t part = 0; part < f->part_count; part++) {
		if (parts_on_shelf(f, part) == 0)
			continue;
		const struct shelf *shelf = machine_part_shelf(core, f, part);
		uint64_t unmade = slab_unmade_pages(core, f->space, f->geometry[part]);
		uint64_t others = turnover_pages(core, f->space, f->geometry[part]);
		call->full.free_pages += shelf->free + shelf->making + unmade;
		call->full.evictable_pages += shelf->evictable;
		if (others > unmade)
			call->full.evictable_pages += others - unmade;
	}
}

/* What the session would hold beyond its share, in pages of the format. */
static uint64_t pages_too_many(const struct core *core, const struct call *call,
			       const struct format *f, uint64_t bytes)
{
	uint64_t held = core->sessions[call->session].held_bytes + bytes;
	uint64_t share = session_share_bytes(core);

	if (held <= share)
		return 0;
	return bits_div_ceil(held - share, f->block_bytes) * f->part_count;
}

static bool within_limits(struct core *core, struct call *call, const struct format *f,
			  uint64_t blocks)
{
	const struct space *space = &core->spaces[f->space];
	uint64_t bytes = blocks * f->block_bytes;
	uint64_t used = space->used_bytes + space->promised_bytes + bytes;

	if (pages_too_many(core, call, f, bytes) > 0) {
		call->own_limit = true;
		return false;
	}
	return used <= space->ceiling_bytes ||
	       used - space_evictable_bytes(core, f->space) <= space->ceiling_bytes;
}

/* Slabs of other shelves, if it is this request's turn to have them. */
static void turn_over(struct core *core, struct call *call, uint32_t space, uint32_t geometry,
		      uint64_t pages)
{
	if (core->turner != CORE_NONE && (!call->again || core->turner != call->waiter))
		return;
	call->turns_over = true;
	if (!turnover_begin(core, space, geometry, pages) && call->again)
		turnover_close_least(core, space, geometry);
}

/* One shelf: 0, or KVD_FULL after having started what brings more. */
static int check_shelf(struct core *core, struct call *call, uint32_t space, uint32_t geometry,
		       uint64_t pages)
{
	struct shelf *shelf = machine_shelf(core, space, geometry);
	uint64_t need = pages + shelf->promised;

	if (need <= shelf->free)
		return 0;
	uint64_t unmade = slab_unmade_pages(core, space, geometry);
	if (unmade + shelf->making > 0) {
		slab_want(core, space, geometry, need - shelf->free);
		if (shelf->making > 0) {
			call->for_slab = true;
			return KVD_FULL;
		}
	}
	uint64_t have = (uint64_t)shelf->free + shelf->evictable;
	if (need <= have + MUTANT(HALF_ADMISSION))
		return 0;
	turn_over(core, call, space, geometry, need - have);
	return KVD_FULL;
}

/*
 * All shelves of the format. What was found on one stays promised while the others are looked at,
 * so that no slab with it is turned over.
 */
static int check_shelves(struct core *core, struct call *call, const struct format *f,
			 uint64_t blocks)
{
	uint32_t part = 0;
	int result = 0;

	for (; part < f->part_count && result == 0; part++) {
		uint64_t pages = blocks * parts_on_shelf(f, part);
		if (parts_on_shelf(f, part) > 0)
			result = check_shelf(core, call, f->space, f->geometry[part], pages);
		machine_part_shelf(core, f, part)->promised += (uint32_t)pages;
	}
	while (part-- > 0)
		machine_part_shelf(core, f, part)->promised -=
			(uint32_t)(blocks * parts_on_shelf(f, part));
	return result;
}

static bool others_wait(const struct core *core, const struct call *call, uint32_t space)
{
	if (call->again)
		return false;
	if (call->req->op == KVD_OP_ACQUIRE)
		return core->spaces[space].waiting > 0;
	return core->spaces[space].waiting_to_run > 0;
}

int admit_check(struct core *core, struct call *call, uint32_t format, uint64_t blocks)
{
	const struct format *f = &core->formats[format];
	int result = KVD_FULL;

	call->for_slab = call->own_limit = call->turns_over = false;
	if (within_limits(core, call, f, blocks) &&
	    (blocks == 0 || !others_wait(core, call, f->space)))
		result = check_shelves(core, call, f, blocks);
	if (result == 0)
		return 0;
	uint64_t beyond = pages_too_many(core, call, f, blocks * f->block_bytes);
	fill_numbers(core, call, f, blocks);
	call->full.needed_pages = BITS_MAX(call->full.needed_pages, beyond);
	return result;
}

void admit_refuse(struct core *core, struct call *call, uint32_t format, uint64_t blocks)
{
	call->for_slab = call->turns_over = false;
	call->own_limit = true;
	fill_numbers(core, call, &core->formats[format], blocks);
}

static void promise(struct core *core, struct lease *l, uint32_t blocks, int sign)
{
	const struct format *f = &core->formats[l->format];

	for (uint32_t part = 0; part < f->part_count; part++)
		machine_part_shelf(core, f, part)->promised += (uint32_t)sign * blocks;
	core->spaces[f->space].promised_bytes += (uint64_t)(int64_t)sign * blocks * f->block_bytes;
	l->promised_blocks += (uint32_t)sign * blocks;
}

void admit_promise(struct core *core, uint32_t lease, uint32_t blocks)
{
	promise(core, &core->leases[lease], blocks, 1);
}

void admit_taken(struct core *core, uint32_t lease)
{
	if (!MUTANT(FORGET_PROMISE))
		promise(core, &core->leases[lease], 1, -1);
}

void admit_unpromise(struct core *core, uint32_t lease)
{
	struct lease *l = &core->leases[lease];

	promise(core, l, l->promised_blocks, -1);
}

uint32_t admit_take_page(struct core *core, const struct format *format, uint32_t part,
			 enum state_event event)
{
	struct shelf *shelf = machine_part_shelf(core, format, part);
	const struct space *space = &core->spaces[format->space];
	uint64_t stride = core->geometries[format->geometry[part]].stride_bytes;

	while (shelf->free == 0 || space->used_bytes + stride > space->ceiling_bytes) {
		bool evicted = evict_one(core, shelf) ||
			       (shelf->free > 0 && evict_any(core, format->space));
		ASSERT(evicted);
	}
	return pool_take(core, shelf, event);
}

void admit_spare(struct core *core, uint32_t format)
{
	const struct format *f = &core->formats[format];

	if (core->waiter_count > 0)
		return;
	for (uint32_t part = 0; part < f->part_count; part++)
		slab_spare(core, f->space, f->geometry[part]);
}
