/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slab turnover: which slab another shelf may have, emptying it, and waiting for its importers.
 *
 * Invariants: a slab that is closed is in no shelf's list and its pages are in no shelf's counts,
 * but those of its pages that are evictable stay in the eviction order until they are evicted. No
 * space is brought below its floor by another. What a shelf has promised it keeps. A slab makes
 * room on its own device and on no other. The bytes of a slab on its way out are for the request
 * that it was closed for, the turner: a device has one at a time, or two would take slabs from each
 * other for ever.
 * Importers are bits: of sessions, and of processes whose session broke. The core's thread only.
 */
#include "kvd/core/turnover.h"

#include "kvd/core/mutant.h"
#include "kvd/core/node.h"
#include "kvd/core/pool.h"
#include "kvd/core/session.h"
#include "kvd/core/slab.h"
#include "kvd/core/space.h"
#include "kvd/core/wait.h"

#include <errno.h>

static uint64_t bytes_of(const struct core *core, const struct slab *slab)
{
	return core->geometries[slab->geometry].slab_bytes;
}

static uint32_t evictable_of(const struct slab *slab)
{
	return slab->page_count - slab->free_count - slab->busy_count;
}

static bool leaving(const struct slab *slab)
{
	return slab->state == SLAB_RETIRING || slab->state == SLAB_DESTROYING ||
	       (slab->state == SLAB_CLOSED && slab->busy_count == 0);
}

/* Another space keeps its floor. `lost` are bytes that it loses already. */
static bool above_floor(const struct core *core, const struct slab *slab, uint32_t space,
			uint64_t lost)
{
	uint32_t device = machine_slab_device(core, slab);

	return slab->space == space ||
	       core->spaces[slab->space].on[device].slab_bytes >=
		       space_floor_bytes(core, slab->space, device) + lost + bytes_of(core, slab);
}

/* Is it on its way out, on this device? */
static bool leaves(const struct core *core, const struct slab *slab, uint32_t device)
{
	return leaving(slab) && machine_slab_device(core, slab) == device;
}

static uint64_t leaving_bytes(const struct core *core, uint32_t space, uint32_t device)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < core->slabs_max; i++)
		if (core->slabs[i].space == space && leaves(core, &core->slabs[i], device))
			bytes += bytes_of(core, &core->slabs[i]);
	return bytes;
}

/* May the shelf (space, geometry) have this slab, pins aside? */
static bool can_lose(const struct core *core, const struct slab *slab, uint32_t space,
		     uint32_t geometry)
{
	uint32_t device = core->geometries[geometry].device;
	const struct space_part *to = &core->spaces[space].on[device];

	if (slab->state != SLAB_LIVE || (slab->space == space && slab->geometry == geometry))
		return false;
	if (machine_slab_device(core, slab) != device && !MUTANT(TURN_OTHER_DEVICE))
		return false;
	if (slab->space != space && to->slab_bytes >= to->ceiling_bytes)
		return false;
	const struct shelf *shelf = machine_shelf(core, slab->space, slab->geometry);
	uint32_t usable = slab->free_count + evictable_of(slab);
	return shelf->free + shelf->evictable - usable >= shelf->promised &&
	       above_floor(core, slab, space, leaving_bytes(core, slab->space, device));
}

static uint64_t unreserved_bytes(const struct core *core, uint32_t space, uint32_t device)
{
	const struct bank *bank = &core->banks[device];
	uint64_t used = bank->slab_bytes;

	for (uint32_t i = 0; i < core->slabs_max; i++)
		if (leaves(core, &core->slabs[i], device))
			used -= bytes_of(core, &core->slabs[i]);
	for (uint32_t s = 0; s < core->space_count; s++) {
		uint64_t floor = space_floor_bytes(core, s, device);
		uint64_t has =
			core->spaces[s].on[device].slab_bytes - leaving_bytes(core, s, device);
		if (s != space && has < floor)
			used += floor - has;
	}
	return used < bank->bytes ? bank->bytes - used : 0;
}

uint64_t turnover_pages(const struct core *core, uint32_t space, uint32_t geometry)
{
	const struct geometry *g = &core->geometries[geometry];
	uint64_t bytes = unreserved_bytes(core, space, g->device);
	uint64_t taken = 0;

	for (uint32_t i = 0; i < core->slabs_max; i++) {
		const struct slab *s = &core->slabs[i];
		if (s->busy_count > 0 || !can_lose(core, s, space, geometry))
			continue;
		if (s->space != space && !above_floor(core, s, space, taken))
			continue;
		taken += s->space != space ? bytes_of(core, s) : 0;
		bytes += bytes_of(core, s);
	}
	return bytes / g->slab_bytes * g->page_count;
}

static void unlink_slab(struct core *core, uint32_t slab)
{
	struct slab *s = &core->slabs[slab];
	struct shelf *shelf = machine_shelf(core, s->space, s->geometry);
	uint32_t *at = &shelf->slabs;

	while (*at != slab)
		at = &core->slabs[*at].next;
	*at = s->next;
	s->next = CORE_NONE;
	if (shelf->current == slab)
		shelf->current = CORE_NONE;
	shelf->free -= s->free_count;
	shelf->evictable -= evictable_of(s);
}

static void close_slab(struct core *core, uint32_t slab)
{
	unlink_slab(core, slab);
	core->slabs[slab].state = SLAB_CLOSED;
	core->slabs[slab].cursor = 0;
	core->banks[machine_slab_device(core, &core->slabs[slab])].closed_count++;
}

/* The slab that can go whose pages are worth least: unused for the longest time. */
static uint32_t oldest_idle(const struct core *core, uint32_t space, uint32_t geometry)
{
	uint32_t best = CORE_NONE;

	for (uint32_t i = 0; i < core->slabs_max; i++) {
		const struct slab *s = &core->slabs[i];
		if (s->busy_count > 0 || !can_lose(core, s, space, geometry))
			continue;
		if (best == CORE_NONE || s->last_used_ns < core->slabs[best].last_used_ns)
			best = i;
	}
	return best;
}

bool turnover_begin(struct core *core, uint32_t space, uint32_t geometry, uint64_t pages)
{
	const struct geometry *g = &core->geometries[geometry];
	struct bank *bank = &core->banks[g->device];
	uint64_t bytes = bits_div_ceil(pages, g->page_count) * g->slab_bytes;

	if (turnover_pages(core, space, geometry) < pages)
		return false;
	bank->turner_space = space;
	bank->turner_geometry = geometry;
	bank->turner_bytes = bytes;
	while (unreserved_bytes(core, space, g->device) < bytes) {
		uint32_t slab = oldest_idle(core, space, geometry);
		if (slab == CORE_NONE)
			return false;
		close_slab(core, slab);
	}
	return true;
}

void turnover_close_least(struct core *core, uint32_t space, uint32_t geometry)
{
	uint32_t best = CORE_NONE;

	if (core->banks[core->geometries[geometry].device].closed_count > 0)
		return;
	for (uint32_t i = 0; i < core->slabs_max; i++) {
		const struct slab *s = &core->slabs[i];
		if (!can_lose(core, s, space, geometry))
			continue;
		if (best == CORE_NONE || s->busy_count < core->slabs[best].busy_count)
			best = i;
	}
	if (best != CORE_NONE)
		close_slab(core, best);
}

static void reopen(struct core *core, uint32_t slab)
{
	struct slab *s = &core->slabs[slab];
	struct shelf *shelf = machine_shelf(core, s->space, s->geometry);

	s->state = SLAB_LIVE;
	s->next = shelf->slabs;
	shelf->slabs = slab;
	shelf->free += s->free_count;
	shelf->evictable += evictable_of(s);
	core->banks[machine_slab_device(core, s)].closed_count--;
	machine_wake(core, machine_slab_device(core, s));
}

void turnover_reopen(struct core *core, uint32_t device)
{
	for (uint32_t i = 0; i < core->slabs_max && core->banks[device].closed_count > 0; i++)
		if (core->slabs[i].state == SLAB_CLOSED && core->slabs[i].busy_count > 0 &&
		    machine_slab_device(core, &core->slabs[i]) == device)
			reopen(core, i);
}

/* --- importers ------------------------------------------------------------------------------ */

static uint32_t words(uint32_t bits)
{
	return (bits + 63) / 64;
}

static uint64_t *session_bits(const struct core *core, uint32_t slab)
{
	return core->importers + (size_t)slab * words(core->cfg.sessions_max);
}

static uint64_t *process_bits(const struct core *core, uint32_t slab)
{
	return core->dead_importers + (size_t)slab * words(core->processes_max);
}

static bool bit_test(const uint64_t *bits, uint32_t i)
{
	return bits[i / 64] >> (i % 64) & 1;
}

static bool imported(const struct core *core, uint32_t slab)
{
	uint64_t any = 0;

	for (uint32_t i = 0; i < words(core->cfg.sessions_max); i++)
		any |= session_bits(core, slab)[i];
	for (uint32_t i = 0; i < words(core->processes_max); i++)
		any |= process_bits(core, slab)[i];
	return any != 0;
}

static void forget_importers(struct core *core, uint32_t slab)
{
	for (uint32_t i = 0; i < words(core->cfg.sessions_max); i++)
		session_bits(core, slab)[i] = 0;
	for (uint32_t i = 0; i < words(core->processes_max); i++)
		process_bits(core, slab)[i] = 0;
}

/* Row 0 names one retiring slab at a time. */
static void show_retiring(struct core *core, uint32_t session)
{
	uint32_t found = 0;

	for (uint32_t i = 0; i < core->slabs_max && !found; i++)
		if (core->slabs[i].state == SLAB_RETIRING &&
		    bit_test(session_bits(core, i), session))
			found = i + 1;
	if (core->sessions[session].row.retiring_slab == found)
		return;
	core->sessions[session].row.retiring_slab = found;
	session_show_row(core, session);
}

static void show_all(struct core *core)
{
	for (uint32_t s = 0; s < core->cfg.sessions_max; s++)
		if (core->sessions[s].open)
			show_retiring(core, s);
}

static void end_slab(struct core *core, uint32_t slab, bool forced)
{
	forget_importers(core, slab);
	slab_destroy(core, slab, forced);
	show_all(core);
}

static void retire_if_unmapped(struct core *core, uint32_t slab)
{
	if (core->slabs[slab].state == SLAB_RETIRING && !imported(core, slab))
		end_slab(core, slab, false);
}

int turnover_import(struct core *core, uint32_t session, uint32_t slab)
{
	if (slab >= core->slabs_max || core->slabs[slab].space != core->sessions[session].space ||
	    (core->slabs[slab].state != SLAB_LIVE && core->slabs[slab].state != SLAB_CLOSED))
		return -ENOENT;
	session_bits(core, slab)[session / 64] |= 1ull << (session % 64);
	return 0;
}

int turnover_gone(struct core *core, uint32_t session, uint32_t slab)
{
	if (slab >= core->slabs_max || !bit_test(session_bits(core, slab), session))
		return KVD_STALE;
	session_bits(core, slab)[session / 64] &= ~(1ull << (session % 64));
	retire_if_unmapped(core, slab);
	show_retiring(core, session);
	return 0;
}

void turnover_session_end(struct core *core, uint32_t session, bool quiet)
{
	uint32_t process = core->sessions[session].process;

	for (uint32_t i = 0; i < core->slabs_max; i++) {
		if (!bit_test(session_bits(core, i), session))
			continue;
		session_bits(core, i)[session / 64] &= ~(1ull << (session % 64));
		if (!quiet)
			process_bits(core, i)[process / 64] |= 1ull << (process % 64);
		retire_if_unmapped(core, i);
	}
}

void turnover_process_end(struct core *core, uint32_t process)
{
	for (uint32_t i = 0; i < core->slabs_max; i++) {
		if (!bit_test(process_bits(core, i), process))
			continue;
		process_bits(core, i)[process / 64] &= ~(1ull << (process % 64));
		retire_if_unmapped(core, i);
	}
}

bool turnover_process_imports(const struct core *core, uint32_t process)
{
	for (uint32_t i = 0; i < core->slabs_max; i++)
		if (bit_test(process_bits(core, i), process))
			return true;
	return false;
}

/* --- time ----------------------------------------------------------------------------------- */

/* Evicts what can be, from the cursor on; the slab retires when all its pages are free. */
static void empty(struct core *core, uint32_t slab)
{
	struct slab *s = &core->slabs[slab];

	for (; s->cursor < s->page_count && core->budget > 0; s->cursor++, core->budget--) {
		const struct page *p = &core->pages[s->first_page + s->cursor];
		if (p->list != PAGE_EVICTABLE)
			continue;
		uint32_t pages = node_evict_below(core, p->node);
		core->budget -= BITS_MIN(pages, core->budget - 1);
	}
	if (s->cursor < s->page_count)
		return;
	s->cursor = 0;
	if (s->free_count < s->page_count)
		return;
	s->state = SLAB_RETIRING;
	core->banks[machine_slab_device(core, s)].closed_count--;
	s->retire_ns = core->now_ns + core->cfg.retire_grace_ns;
	if (imported(core, slab))
		show_all(core);
	else
		end_slab(core, slab, false);
}

/* The importers that are left would take pages of the slab's successor for those that they map. */
static void force(struct core *core, uint32_t slab)
{
	for (uint32_t s = 0; s < core->cfg.sessions_max; s++) {
		if (!bit_test(session_bits(core, slab), s) || MUTANT(KEEP_IMPORTER))
			continue;
		wait_drop_session(core, s);
		core->ops.expel(core->ctx, s);
	}
	end_slab(core, slab, true);
}

void turnover_time(struct core *core)
{
	for (uint32_t i = 0; i < core->slabs_max && core->budget > 0; i++) {
		struct slab *s = &core->slabs[i];
		if (s->state == SLAB_CLOSED && (evictable_of(s) > 0 || s->busy_count == 0))
			empty(core, i);
		else if (s->state == SLAB_RETIRING && s->retire_ns <= core->now_ns)
			force(core, i);
	}
}

static uint32_t closed_count(const struct core *core)
{
	uint32_t closed = 0;

	for (uint32_t d = 0; d < core->cfg.device_count; d++)
		closed += core->banks[d].closed_count;
	return closed;
}

bool turnover_busy(const struct core *core)
{
	if (closed_count(core) == 0)
		return false;
	for (uint32_t i = 0; i < core->slabs_max; i++) {
		const struct slab *s = &core->slabs[i];
		if (s->state == SLAB_CLOSED && (evictable_of(s) > 0 || s->busy_count == 0))
			return true;
	}
	return false;
}

uint64_t turnover_deadline_ns(const struct core *core)
{
	uint64_t deadline = UINT64_MAX;

	for (uint32_t i = 0; i < core->slabs_max; i++)
		if (core->slabs[i].state == SLAB_RETIRING)
			deadline = BITS_MIN(deadline, core->slabs[i].retire_ns);
	return deadline;
}
