/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers: orders to the shell to move one block, and what becomes of them.
 *
 * A transfer has a record of its own for as long as the shell may touch its pages or slot, whatever
 * has become of its haul or its node: pages that a late load still fills, a slot that a late store
 * still writes, are free when the shell says that it is done, and not before.
 *
 * Invariants: rest.transfer of a node names the transfer that uses or makes its slot in that tier,
 * one at a time. A tier's loading and storing count those that are not late. The core's thread
 * only.
 */
#include "kvd/core/transfer.h"

#include "kvd/core/haul.h"
#include "kvd/core/mutant.h"
#include "kvd/core/pool.h"
#include "kvd/core/rest.h"
#include "kvd/core/tier.h"
#include "kvd/core/verify.h"

#include <errno.h>
#include <string.h>

void transfer_init(struct core *core)
{
	core->transfer_free = CORE_NONE;
	for (uint32_t i = core->transfers_max; i-- > 0;) {
		core->transfers[i].next_free = core->transfer_free;
		core->transfer_free = i;
	}
}

static uint32_t *counter(struct core *core, const struct transfer *x)
{
	struct tier *tier = &core->tiers[x->tier];

	return x->kind == CORE_TRANSFER_STORE ? &tier->storing : &tier->loading;
}

static struct rate *rate_of(struct area *area, const struct transfer *x)
{
	return x->kind == CORE_TRANSFER_STORE ? &area->store : &area->load;
}

/* A record; CORE_NONE: all are in use. */
static uint32_t take(struct core *core, enum core_transfer_kind kind, uint32_t node, uint32_t tier,
		     uint32_t slot)
{
	uint32_t i = core->transfer_free;
	struct transfer *x = &core->transfers[i];

	core->transfer_free = x->next_free;
	*x = (struct transfer){.kind = kind,
			       .busy = true,
			       .haul = CORE_NONE,
			       .node = node,
			       .tier = tier,
			       .slot = slot,
			       .from_tier = CORE_NONE,
			       .part_count = core->formats[core->nodes[node].format].part_count};
	core->rests[node].transfer[tier] = i;
	return i;
}

/* Tells the shell. */
static void begin(struct core *core, uint32_t i, uint64_t generation)
{
	struct transfer *x = &core->transfers[i];
	const struct node *n = &core->nodes[x->node];
	const struct format *f = &core->formats[n->format];
	struct area *area = tier_area(core, x->tier, x->slot);
	struct core_transfer order = {.kind = x->kind, .id = i, .part_count = x->part_count};

	tier_slot(core, x->tier, x->slot, &order.slot);
	order.slot.generation = generation;
	x->bytes = order.slot.bytes;
	if (x->from_tier != CORE_NONE) {
		tier_slot(core, x->from_tier, x->from_slot, &order.from_slot);
		order.from_slot.generation = core->rests[x->node].generation[x->from_tier];
	}
	memcpy(order.key, n->hash, sizeof(order.key));
	memcpy(order.identity, f->identity, sizeof(order.identity));
	memcpy(order.pages, x->pages, sizeof(order.pages));
	for (uint32_t part = 0; part < x->part_count; part++)
		order.part_bytes[part] = core->geometries[f->geometry[part]].stride_bytes;
	tier_begins(core, rate_of(area, x));
	area->moving++;
	++*counter(core, x);
	core->ops.transfer(core->ctx, &order);
}

static bool full(const struct core *core, uint32_t under_way, uint32_t tier)
{
	return core->transfer_free == CORE_NONE || under_way >= core->tiers[tier].depth;
}

bool transfer_stuck(const struct core *core)
{
	uint32_t moving = 0;

	for (uint32_t t = 0; t < CORE_TIERS; t++)
		moving += core->tiers[t].loading + core->tiers[t].storing;
	return core->transfer_free == CORE_NONE && moving == 0 && !MUTANT(WAIT_FOR_LATE);
}

int transfer_load(struct core *core, uint32_t haul, uint32_t block)
{
	struct lease *l = &core->leases[haul];
	uint32_t page = pool_list_find(core, &l->own, block);
	uint32_t node = core->pages[page].node;
	uint32_t tier = rest_readable(core, node);

	if (tier == CORE_NONE)
		return rest_using(core, node) ? -EAGAIN : -ENODATA;
	if (transfer_stuck(core))
		return -ENODATA;
	if (full(core, core->tiers[tier].loading, tier))
		return -EAGAIN;
	uint32_t i = take(core, CORE_TRANSFER_LOAD, node, tier, core->rests[node].slot[tier]);
	struct transfer *x = &core->transfers[i];
	x->haul = haul;
	x->block = block;
	for (uint32_t next; page != CORE_NONE && core->pages[page].block == block; page = next) {
		next = core->pages[page].next;
		pool_list_remove(core, &l->own, page);
		core->pages[page].list = PAGE_MOVING;
		core->pages[page].owner = i;
		x->pages[core->pages[page].part] = page;
	}
	machine_haul(core, haul)->moving++;
	begin(core, i, core->rests[node].generation[tier]);
	return 0;
}

int transfer_store(struct core *core, uint32_t haul, uint32_t node, uint32_t tier)
{
	/* A reader waits for his block, nobody for a writer. */
	uint32_t depth = core->tiers[tier].loading > 0 ? 2 : core->tiers[tier].depth;

	if (transfer_stuck(core))
		return -ENOSPC;
	if (full(core, core->tiers[tier].storing, tier) || core->tiers[tier].storing >= depth)
		return -EAGAIN;
	uint32_t slot = rest_take_slot(core, node, tier);
	if (slot == CORE_NONE)
		return -ENOSPC;
	uint32_t from = rest_readable(core, node);
	uint32_t i = take(core, CORE_TRANSFER_STORE, node, tier, slot);
	struct transfer *x = &core->transfers[i];
	x->haul = haul;
	if (from != CORE_NONE && from < tier) {
		x->from_tier = from;
		x->from_slot = core->rests[node].slot[from];
		core->rests[node].transfer[from] = i;
	}
	uint32_t part = 0;
	for (uint32_t p = core->nodes[node].page; p != CORE_NONE; p = core->pages[p].next_part)
		x->pages[part++] = p;
	machine_haul(core, haul)->moving++;
	core->generation += !MUTANT(GENERATION_REUSED) || core->generation == 0;
	x->generation = core->generation;
	begin(core, i, x->generation);
	return 0;
}

int transfer_verify(struct core *core, uint32_t node, uint32_t tier)
{
	if (full(core, core->tiers[tier].loading, tier) ||
	    core->rests[node].transfer[tier] != CORE_NONE)
		return -EAGAIN;
	uint32_t i = take(core, CORE_TRANSFER_VERIFY, node, tier, core->rests[node].slot[tier]);
	begin(core, i, core->rests[node].generation[tier]);
	return 0;
}

/* --- the end ---------------------------------------------------------------------------------- */

static void free_pages(struct core *core, const struct transfer *x, enum state_event event)
{
	for (uint32_t part = 0; part < x->part_count; part++) {
		struct page *p = &core->pages[x->pages[part]];
		p->list = PAGE_NOWHERE;
		p->node = CORE_NONE;
		pool_free(core, x->pages[part], event);
	}
}

/* The haul gets its pages back, filled. */
static void hand_over(struct core *core, const struct transfer *x)
{
	struct lease *l = &core->leases[x->haul];

	for (uint32_t part = 0; part < x->part_count; part++) {
		struct page *p = &core->pages[x->pages[part]];
		p->list = PAGE_NOWHERE;
		p->owner = CORE_NONE;
		p->shown = 1;
		pool_list_insert(core, &l->own, x->pages[part], PAGE_OWN);
	}
}

/* The slot may still be what it should be: nobody has looked. */
static bool not_read(int result)
{
	return result == -ETIMEDOUT || result == -ECANCELED;
}

static void loaded(struct core *core, struct transfer *x, int result)
{
	struct area *area = tier_area(core, x->tier, x->slot);
	struct haul *h = x->haul == CORE_NONE ? NULL : machine_haul(core, x->haul);

	if (result == 0 || MUTANT(TRUST_TIER)) {
		area->loads++;
		area->loaded_bytes += x->bytes;
		area->hit_blocks += h && h->for_request;
	} else if (x->node != CORE_NONE && !not_read(result)) {
		core->counters[KVD_C_LOST_TOKENS] += core->nodes[x->node].valid_tokens;
		area->bad_blocks += result == -EBADMSG;
		if (!MUTANT(KEEP_BAD))
			rest_lose(core, x->node, x->tier);
	}
	if (!h) {
		free_pages(core, x, result == 0 ? STATE_LOAD_USELESS : STATE_LOAD_FAILED);
		return;
	}
	h->moving--;
	if (result == 0 || MUTANT(TRUST_TIER)) {
		hand_over(core, x);
		h->advanced = true;
		return;
	}
	free_pages(core, x, STATE_LOAD_FAILED);
	uint32_t haul = x->haul;
	x->haul = CORE_NONE;
	haul_failed(core, haul, x->block);
}

/* What the store should have read is not what it should be. */
static void lose_source(struct core *core, const struct transfer *x)
{
	tier_area(core, x->from_tier, x->from_slot)->bad_blocks++;
	if (!MUTANT(KEEP_SOURCE))
		rest_lose(core, x->node, x->from_tier);
}

static void stored(struct core *core, struct transfer *x, int result)
{
	struct area *area = tier_area(core, x->tier, x->slot);

	machine_haul(core, x->haul)->moving--;
	if (result == -EBADMSG && x->from_tier != CORE_NONE && !x->from_dropped)
		lose_source(core, x);
	if (result < 0) {
		tier_free(core, x->tier, x->slot);
		haul_unstored(core, x->haul);
		return;
	}
	area->stores++;
	area->stored_bytes += x->bytes;
	rest_put(core, x->node, x->tier, x->slot, x->generation);
}

static void verified(struct core *core, struct transfer *x, int result)
{
	struct area *area = tier_area(core, x->tier, x->slot);
	uint32_t node = x->node;

	if (!x->late)
		verify_done(core, x->bytes, result);
	area->bad_blocks += result == -EBADMSG;
	if (result < 0 && !not_read(result) && node != CORE_NONE)
		rest_lose(core, node, x->tier);
}

/* Nobody waits for it any more. What it still takes is not time in which the area was used. */
static void leave_queue(struct core *core, const struct transfer *x, uint64_t bytes)
{
	struct area *area = tier_area(core, x->tier, x->slot);

	tier_ended(core, &core->tiers[x->tier], rate_of(area, x), bytes);
	--*counter(core, x);
}

/* Its node's tiers are not used by it any more; what was dropped meanwhile is free now. */
static void let_go(struct core *core, struct transfer *x)
{
	if (x->node != CORE_NONE) {
		core->rests[x->node].transfer[x->tier] = CORE_NONE;
		if (x->from_tier != CORE_NONE)
			core->rests[x->node].transfer[x->from_tier] = CORE_NONE;
	}
	if (x->from_dropped)
		tier_free(core, x->from_tier, x->from_slot);
}

void transfer_done(struct core *core, uint32_t i, int result)
{
	struct transfer *x = &core->transfers[i];
	struct area *area = tier_area(core, x->tier, x->slot);

	ASSERT(i < core->transfers_max && x->busy);
	let_go(core, x);
	area->moving--;
	if (!x->late)
		leave_queue(core, x, result == 0 ? x->bytes : 0);
	if (x->kind == CORE_TRANSFER_LOAD)
		loaded(core, x, result);
	else if (x->kind == CORE_TRANSFER_STORE)
		stored(core, x, result);
	else
		verified(core, x, result);
	if (x->slot_dropped)
		tier_free(core, x->tier, x->slot);
	x->busy = false;
	x->next_free = core->transfer_free;
	core->transfer_free = i;
}

void transfer_late(struct core *core, uint32_t i)
{
	struct transfer *x = &core->transfers[i];

	ASSERT(i < core->transfers_max && x->busy);
	if (x->late)
		return;
	x->late = true;
	leave_queue(core, x, 0);
	if (x->kind == CORE_TRANSFER_VERIFY)
		verify_done(core, x->bytes, -ETIMEDOUT);
	if (x->kind == CORE_TRANSFER_STORE)
		haul_late(core, x->haul);
	if (x->kind != CORE_TRANSFER_LOAD || x->haul == CORE_NONE)
		return;
	uint32_t haul = x->haul;
	x->haul = CORE_NONE;
	machine_haul(core, haul)->moving--;
	if (MUTANT(FREE_LATE_PAGES)) {
		free_pages(core, x, STATE_LOAD_FAILED);
		x->part_count = 0;
	}
	if (!MUTANT(LOSE_LATE))
		haul_failed(core, haul, x->block);
}

void transfer_give_up(struct core *core, uint32_t haul, uint32_t block)
{
	for (uint32_t i = 0; i < core->transfers_max; i++) {
		struct transfer *x = &core->transfers[i];
		if (!x->busy || x->kind != CORE_TRANSFER_LOAD || x->haul != haul ||
		    x->block < block)
			continue;
		x->haul = CORE_NONE;
		machine_haul(core, haul)->moving--;
	}
}
