/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check of the tiers: each slot is one node's or one transfer's, orders and queues hold what
 * they should, transfers and hauls know of each other. The core's thread only.
 */
#include "kvd/core/check_tiers.h"

#include "kvd/core/node.h"
#include "kvd/core/rest.h"
#include "kvd/core/tier.h"

static bool in_use(const struct node *n)
{
	return n->state != NODE_FREE && n->state != NODE_ROOT;
}

static bool slot_taken(const struct tier *tier, uint32_t slot)
{
	return slot / 64 < (uint64_t)tier->segment_count * tier->bitmap_words &&
	       (tier->bitmaps[slot / 64] >> (slot % 64) & 1);
}

/* Slots that transfers keep and no node knows. */
static uint64_t kept_by_transfers(const struct core *core, uint32_t t)
{
	uint64_t kept = 0;

	for (uint32_t i = 0; i < core->transfers_max; i++) {
		const struct transfer *x = &core->transfers[i];
		if (!x->busy)
			continue;
		kept += x->tier == t && (x->kind == CORE_TRANSFER_STORE || x->slot_dropped);
		kept += x->from_tier == t && x->from_dropped;
	}
	return kept;
}

static void check_segment(struct check *c, uint32_t t, uint32_t s, uint64_t *blocks,
			  uint64_t *bytes)
{
	const struct tier *tier = &c->core->tiers[t];
	const struct segment *segment = &tier->segments[s];
	uint32_t used = 0;

	for (uint32_t w = 0; w < tier->bitmap_words; w++)
		used += (uint32_t)__builtin_popcountll(
			tier->bitmaps[(size_t)s * tier->bitmap_words + w]);
	CHECK(c, segment->class == CORE_NONE ? used == 0 : used > 0 && used == segment->used,
	      "tier %u segment %u: %u slots used, counted %u", t, s, segment->used, used);
	*blocks += used;
	*bytes += used ? used * tier->classes[segment->class].slot_bytes : 0;
}

static void check_area(struct check *c, uint32_t t, uint32_t a, uint64_t *blocks)
{
	const struct area *area = &c->core->tiers[t].areas[a];
	uint64_t count = 0;
	uint64_t bytes = 0;

	for (uint32_t s = area->first_segment; s < area->end_segment && !c->failed; s++)
		check_segment(c, t, s, &count, &bytes);
	CHECK(c, count == area->blocks && bytes == area->used_bytes,
	      "tier %u area %u: %llu blocks, counted %llu", t, a, (unsigned long long)area->blocks,
	      (unsigned long long)count);
	*blocks += count;
}

static void check_node(struct check *c, uint32_t i, uint32_t t)
{
	const struct core *core = c->core;
	const struct node *n = &core->nodes[i];
	const struct node *p = &core->nodes[n->parent];
	const struct rest *r = &core->rests[i];
	struct core_slot slot;

	CHECK(c, r->slot[t] == CORE_NONE || slot_taken(&core->tiers[t], r->slot[t]),
	      "node %u: slot %u of tier %u is free", i, r->slot[t], t);
	CHECK(c, r->listed[t] == (r->slot[t] != CORE_NONE && n->pins == 0),
	      "node %u with %u pins, slot %u: listed in tier %u: %d", i, n->pins, r->slot[t], t,
	      r->listed[t]);
	CHECK(c, !r->queued[t] || (n->state == NODE_SEALED && r->slot[t] == CORE_NONE),
	      "node %u in state %u waits to be stored in tier %u", i, n->state, t);
	if (r->slot[t] == CORE_NONE)
		return;
	tier_slot(core, t, r->slot[t], &slot);
	CHECK(c, slot.bytes == tier_slot_bytes(core, &core->formats[n->format]),
	      "node %u: a slot of %llu bytes", i, (unsigned long long)slot.bytes);
	CHECK(c, n->valid_tokens == core->formats[n->format].page_tokens && p->state != NODE_FREE,
	      "node %u is partial and in tier %u", i, t);
}

void check_tiers_slots(struct check *c)
{
	const struct core *core = c->core;

	for (uint32_t t = 0; t < CORE_TIERS && core->has_tiers; t++) {
		uint64_t taken = 0;
		uint64_t owned = kept_by_transfers(core, t);
		for (uint32_t a = 0; a < core->tiers[t].area_count && !c->failed; a++)
			check_area(c, t, a, &taken);
		for (uint32_t i = 0; i < core->node_slots && !c->failed; i++) {
			if (!in_use(&core->nodes[i]))
				continue;
			check_node(c, i, t);
			owned += rest_in(core, i, t);
		}
		CHECK(c, taken == owned, "tier %u: %llu slots taken, counted %llu", t,
		      (unsigned long long)taken, (unsigned long long)owned);
	}
	for (uint32_t i = 0; i < core->node_slots && core->has_tiers; i++)
		CHECK(c, core->nodes[i].state != NODE_COLD || rest_any(core, i),
		      "node %u is cold and lies nowhere", i);
}

/* --- lists ------------------------------------------------------------------------------------ */

static void check_list(struct check *c, uint32_t t, bool queue)
{
	const struct core *core = c->core;
	const struct rest_list *list = queue ? &core->tiers[t].queue : &core->tiers[t].order;
	uint32_t count = 0;
	uint32_t last = CORE_NONE;

	for (uint32_t i = list->head; i != CORE_NONE && count <= core->node_count; count++) {
		const struct rest *r = &core->rests[i];
		CHECK(c, in_use(&core->nodes[i]) && (queue ? r->queued[t] : r->listed[t]),
		      "node %u is in a list of tier %u", i, t);
		CHECK(c, (queue ? r->queue_prev[t] : r->prev[t]) == last,
		      "node %u is not linked to the node before it", i);
		last = i;
		i = queue ? r->queue_next[t] : r->next[t];
	}
	CHECK(c, count == list->count && last == list->tail, "tier %u: a list of %u, counted %u", t,
	      list->count, count);
}

/* What is given up first is above nothing that lies there, unless a block in between was lost. */
static void check_head(struct check *c, uint32_t t)
{
	const struct core *core = c->core;
	uint32_t head = core->tiers[t].order.head;

	if (head == CORE_NONE)
		return;
	for (uint32_t n = core->nodes[head].first_child; n != CORE_NONE;
	     n = core->nodes[n].next_sibling)
		CHECK(c, !core->rests[n].listed[t], "node %u of tier %u goes before its child %u",
		      head, t, n);
}

void check_tiers_lists(struct check *c)
{
	for (uint32_t t = 0; t < CORE_TIERS && c->core->has_tiers && !c->failed; t++) {
		check_list(c, t, false);
		if (!c->failed)
			check_list(c, t, true);
		if (!c->failed)
			check_head(c, t);
	}
}

/* --- what moves ------------------------------------------------------------------------------- */

static void check_transfer(struct check *c, uint32_t i)
{
	const struct core *core = c->core;
	const struct transfer *x = &core->transfers[i];

	CHECK(c, slot_taken(&core->tiers[x->tier], x->slot), "transfer %u: slot %u is free", i,
	      x->slot);
	CHECK(c, x->node == CORE_NONE || core->rests[x->node].transfer[x->tier] == i,
	      "transfer %u is not known to its node %u", i, x->node);
	CHECK(c, x->kind != CORE_TRANSFER_STORE || core->leases[x->haul].life == LEASE_HAUL,
	      "transfer %u stores for nobody", i);
	for (uint32_t part = 0; part < x->part_count && x->kind == CORE_TRANSFER_LOAD; part++)
		CHECK(c,
		      core->pages[x->pages[part]].list == PAGE_MOVING &&
			      core->pages[x->pages[part]].owner == i,
		      "transfer %u does not have page %u", i, x->pages[part]);
}

/* A rate is measured while something is on its way that is not late. */
static void check_rates(struct check *c, uint32_t t, uint32_t a)
{
	const struct core *core = c->core;
	const struct area *area = &core->tiers[t].areas[a];
	uint32_t moving[2] = {0};
	uint32_t all = 0;

	for (uint32_t i = 0; i < core->transfers_max; i++) {
		const struct transfer *x = &core->transfers[i];
		struct core_slot slot;
		if (!x->busy || x->tier != t)
			continue;
		tier_slot(core, t, x->slot, &slot);
		all += slot.area == a;
		moving[x->kind == CORE_TRANSFER_STORE] += slot.area == a && !x->late;
	}
	CHECK(c,
	      all == area->moving && moving[0] == area->load.moving &&
		      moving[1] == area->store.moving,
	      "tier %u area %u: %u transfers, counted %u; loads %u, counted %u; stores %u, counted "
	      "%u",
	      t, a, area->moving, all, area->load.moving, moving[0], area->store.moving, moving[1]);
}

static void check_haul(struct check *c, uint32_t i)
{
	const struct core *core = c->core;
	const struct haul *h = &core->hauls[i];
	uint32_t lease = core->cfg.leases_max + i;
	uint32_t moving = 0;

	CHECK(c, (h->kind != HAUL_NONE) == (core->leases[lease].life == LEASE_HAUL),
	      "haul %u of kind %u has a lease of life %u", i, h->kind, core->leases[lease].life);
	for (uint32_t k = 0; k < core->transfers_max; k++)
		moving += core->transfers[k].busy && core->transfers[k].haul == lease;
	CHECK(c, moving == h->moving, "haul %u: %u transfers, counted %u", i, h->moving, moving);
}

void check_tiers_moving(struct check *c)
{
	const struct core *core = c->core;
	uint32_t moving[CORE_TIERS][2] = {0};
	uint32_t hauls = 0;

	for (uint32_t i = 0; i < core->transfers_max && !c->failed; i++) {
		const struct transfer *x = &core->transfers[i];
		if (!x->busy)
			continue;
		check_transfer(c, i);
		moving[x->tier][x->kind == CORE_TRANSFER_STORE] += !x->late;
	}
	for (uint32_t i = 0; i < CORE_HAULS && core->has_tiers && !c->failed; i++) {
		check_haul(c, i);
		hauls += core->hauls[i].kind != HAUL_NONE;
	}
	for (uint32_t t = 0; t < CORE_TIERS; t++)
		CHECK(c,
		      moving[t][0] == core->tiers[t].loading &&
			      moving[t][1] == core->tiers[t].storing,
		      "tier %u: loading %u, counted %u; storing %u, counted %u", t,
		      core->tiers[t].loading, moving[t][0], core->tiers[t].storing, moving[t][1]);
	for (uint32_t t = 0; t < CORE_TIERS; t++)
		for (uint32_t a = 0; a < core->tiers[t].area_count && !c->failed; a++)
			check_rates(c, t, a);
	CHECK(c, hauls == core->haul_count, "%u hauls, counted %u", core->haul_count, hauls);
}
