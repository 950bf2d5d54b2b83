/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission: may a request have its pages, and if not, why not, in numbers.
 *
 * In this order: the session's share and the space's ceiling; pages that are free; slabs that can
 * be made, which is better than throwing away what may be hit; eviction; slabs of others. A
 * request behind others that wait for memory waits too, whatever is free: what they wait for must
 * not be taken from under them.
 *
 * All of it is by device: shares, ceilings and slabs of each device that the format has parts on,
 * and behind others is who wants a device that they want, too. All parts are admitted in one step
 * or none, and nothing is held until the next attempt but the right to turn slabs over, which is
 * had for all of a request's devices or for none: so requests for several devices never hold what
 * the other lacks. The numbers of a refusal are those of the device that was short.
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

static bool possible_on(const struct core *core, const struct format *f, uint64_t blocks,
			uint32_t device)
{
	const struct bank *bank = &core->banks[device];
	uint64_t bytes = blocks * f->device_bytes[device];
	uint64_t slab_bytes = 0;
	uint64_t pages = 0;

	for (uint32_t part = 0; part < f->part_count; part++) {
		const struct geometry *g = &core->geometries[f->geometry[part]];
		uint64_t slabs = bits_div_ceil(blocks * parts_on_shelf(f, part), g->page_count);
		if (g->device != device)
			continue;
		slab_bytes += slabs * g->slab_bytes;
		pages += slabs * g->page_count;
	}
	return slab_bytes <= slab_limit_bytes(core, f->space, device) &&
	       pages <= bank->end_page - bank->first_page &&
	       bytes <= session_share_bytes(core, device) &&
	       bytes <= core->spaces[f->space].on[device].ceiling_bytes;
}

int admit_possible(const struct core *core, uint32_t format, uint64_t blocks)
{
	const struct format *f = &core->formats[format];

	if (blocks > core->cfg.pages_max)
		return -E2BIG;
	for (uint32_t d = 0; d < core->cfg.device_count; d++)
		if ((f->devices >> d & 1) && !possible_on(core, f, blocks, d))
			return -E2BIG;
	return 0;
}

/* Parts of the format on the device. */
static uint32_t parts_on_device(const struct core *core, const struct format *f, uint32_t device)
{
	uint32_t parts = 0;

	for (uint32_t part = 0; part < f->part_count; part++)
		parts += core->geometries[f->geometry[part]].device == device;
	return parts;
}

/* What the device that was short has for the request. */
static void fill_numbers(struct core *core, struct call *call, const struct format *f,
			 uint64_t blocks)
{
	uint32_t device = call->short_on;

	call->full =
		(struct kvd_rep_full){.needed_pages = blocks * parts_on_device(core, f, device)};
	for (uint32_t part = 0; part < f->part_count; part++) {
		if (core->geometries[f->geometry[part]].device != device ||
		    parts_on_shelf(f, part) == 0)
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

/* What the session would hold on the device beyond its share, in pages of the format. */
static uint64_t pages_too_many(const struct core *core, const struct call *call,
			       const struct format *f, uint64_t blocks, uint32_t device)
{
	uint64_t bytes = blocks * f->device_bytes[device];
	uint64_t held = core->sessions[call->session].held_bytes[device] + bytes;
	uint64_t share = session_share_bytes(core, device);

	if (held <= share)
		return 0;
	return bits_div_ceil(held - share, f->device_bytes[device]) *
	       parts_on_device(core, f, device);
}

static bool below_ceiling(const struct core *core, const struct format *f, uint64_t blocks,
			  uint32_t device)
{
	const struct space_part *part = &core->spaces[f->space].on[device];
	uint64_t bytes = blocks * f->device_bytes[device];
	uint64_t used = part->used_bytes + part->promised_bytes + bytes;

	return used <= part->ceiling_bytes ||
	       used - space_evictable_bytes(core, f->space, device) <= part->ceiling_bytes;
}

static bool within_limits(struct core *core, struct call *call, const struct format *f,
			  uint64_t blocks)
{
	for (uint32_t left = f->devices; left; left &= left - 1) {
		call->short_on = (uint32_t)__builtin_ctz(left);
		call->own_limit = pages_too_many(core, call, f, blocks, call->short_on) > 0;
		if (call->own_limit)
			return false;
	}
	for (uint32_t left = f->devices; left; left &= left - 1) {
		call->short_on = (uint32_t)__builtin_ctz(left);
		if (!below_ceiling(core, f, blocks, call->short_on))
			return false;
	}
	return true;
}

/*
 * May the request turn slabs over on all of its devices? One that needs several and does not get
 * them together has a claim that later ones respect, or those for one device would always be first.
 */
static bool may_turn(struct core *core, const struct call *call)
{
	bool turns = true;

	for (uint32_t left = call->devices; left; left &= left - 1) {
		uint32_t d = (uint32_t)__builtin_ctz(left);
		uint32_t turner = core->banks[d].turner;
		bool own = call->again && turner == call->waiter;
		turns &= own || (turner == CORE_NONE && !(core->turn_claimed >> d & 1));
	}
	if (!turns && call->again && (call->devices & (call->devices - 1)))
		core->turn_claimed |= call->devices;
	return turns;
}

/* Slabs of other shelves on the same device, if it is this request's turn to have them. */
static void turn_over(struct core *core, struct call *call, uint32_t space, uint32_t geometry,
		      uint64_t pages)
{
	if (!may_turn(core, call))
		return;
	call->turns_over = true;
	for (uint32_t left = call->devices; left; left &= left - 1)
		if ((uint32_t)__builtin_ctz(left) != core->geometries[geometry].device)
			core->banks[__builtin_ctz(left)].turner_bytes = 0;
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
			call->for_slab |= 1u << core->geometries[geometry].device;
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
		call->short_on = core->geometries[f->geometry[part]].device;
		if (parts_on_shelf(f, part) > 0)
			result = check_shelf(core, call, f->space, f->geometry[part], pages);
		machine_part_shelf(core, f, part)->promised += (uint32_t)pages;
	}
	while (part-- > 0)
		machine_part_shelf(core, f, part)->promised -=
			(uint32_t)(blocks * parts_on_shelf(f, part));
	return result;
}

static bool others_wait(const struct core *core, struct call *call, uint32_t space)
{
	bool runs = call->req->op != KVD_OP_ACQUIRE;

	for (uint32_t left = call->again ? 0 : call->devices; left; left &= left - 1) {
		uint32_t d = (uint32_t)__builtin_ctz(left);
		const struct space_part *part = &core->spaces[space].on[d];
		call->short_on = d;
		if ((runs ? part->waiting_to_run : part->waiting) > 0)
			return true;
	}
	return false;
}

int admit_check(struct core *core, struct call *call, uint32_t format, uint64_t blocks)
{
	const struct format *f = &core->formats[format];
	int result = KVD_FULL;

	call->devices = f->devices;
	call->for_slab = 0;
	call->own_limit = call->turns_over = false;
	if (within_limits(core, call, f, blocks) &&
	    (blocks == 0 || !others_wait(core, call, f->space)))
		result = check_shelves(core, call, f, blocks);
	if (result == 0)
		return 0;
	uint64_t beyond = pages_too_many(core, call, f, blocks, call->short_on);
	fill_numbers(core, call, f, blocks);
	call->full.needed_pages = BITS_MAX(call->full.needed_pages, beyond);
	return result;
}

void admit_refuse(struct core *core, struct call *call, uint32_t format, uint64_t blocks,
		  uint32_t device)
{
	const struct format *f = &core->formats[format];

	call->devices = f->devices;
	call->short_on = device == CORE_NONE ? (uint32_t)__builtin_ctz(f->devices) : device;
	call->for_slab = 0;
	call->turns_over = false;
	call->own_limit = true;
	fill_numbers(core, call, f, blocks);
}

static void promise(struct core *core, struct lease *l, uint32_t blocks, int sign)
{
	const struct format *f = &core->formats[l->format];

	for (uint32_t part = 0; part < f->part_count; part++)
		machine_part_shelf(core, f, part)->promised += (uint32_t)sign * blocks;
	for (uint32_t d = 0; d < core->cfg.device_count; d++)
		core->spaces[f->space].on[d].promised_bytes +=
			(uint64_t)(int64_t)sign * blocks * f->device_bytes[d];
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
	const struct geometry *g = &core->geometries[format->geometry[part]];
	const struct space_part *has = &core->spaces[format->space].on[g->device];

	while (shelf->free == 0 || has->used_bytes + g->stride_bytes > has->ceiling_bytes) {
		bool evicted = evict_one(core, shelf) ||
			       (shelf->free > 0 && evict_any(core, format->space, 1u << g->device));
		ASSERT(evicted);
	}
	return pool_take(core, shelf, event);
}

void admit_spare(struct core *core, uint32_t format)
{
	const struct format *f = &core->formats[format];

	for (uint32_t part = 0; part < f->part_count; part++)
		if (core->banks[core->geometries[f->geometry[part]].device].waiter_count == 0)
			slab_spare(core, f->space, f->geometry[part]);
}
