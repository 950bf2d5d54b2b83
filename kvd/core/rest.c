/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots of nodes.
 *
 * A tier's order is that of the shelves: a node joins its end when its last pin goes, and paths are
 * unpinned from the deepest node up, so a child stands before its parent and what stands first has
 * no children in the tier. What is stored is stored from the root on. So a chain is never broken
 * in its middle there either, but by a block that could not be read: see node_drop_cold().
 *
 * Invariants: a node is in a tier's order if it lies there and has no pins; in the queue only if it
 * is sealed and does not. A slot belongs to one node, or to a transfer that outlives its node's
 * interest. The core's thread only.
 */
#include "kvd/core/rest.h"

#include "kvd/core/arena.h"
#include "kvd/core/evict.h"
#include "kvd/core/index.h"
#include "kvd/core/mutant.h"
#include "kvd/core/node.h"
#include "kvd/core/tier.h"

#include <string.h>

#define REST_LOOK_MAX 64u
/* Slots that are given up for one, at most: those of other sizes too. */
#define REST_EVICT_MAX 16u

void rest_init(struct core *core)
{
	for (uint32_t i = 0; core->has_tiers && i < core->node_slots; i++)
		rest_clear(core, i);
}

void rest_clear(struct core *core, uint32_t node)
{
	if (!core->has_tiers)
		return;
	struct rest *r = &core->rests[node];
	*r = (struct rest){0};
	for (uint32_t t = 0; t < CORE_TIERS; t++) {
		r->slot[t] = r->transfer[t] = CORE_NONE;
		r->prev[t] = r->next[t] = r->queue_prev[t] = r->queue_next[t] = CORE_NONE;
	}
}

bool rest_in(const struct core *core, uint32_t node, uint32_t tier)
{
	return core->has_tiers && core->rests[node].slot[tier] != CORE_NONE;
}

bool rest_any(const struct core *core, uint32_t node)
{
	return rest_in(core, node, CORE_TIER_DRAM) || rest_in(core, node, CORE_TIER_FILE);
}

/*
 * Blocks stay in the file for so long that a use of them is likely to come while they are there:
 * for at least half of the mean age of use, when two of five uses have come.
 */
static bool roomy(const struct core *core, const struct node *node)
{
	const struct tier *file = &core->tiers[CORE_TIER_FILE];
	const struct format *f = &core->formats[node->format];
	uint32_t head = file->order.head;

	for (uint32_t a = 0; a < file->area_count; a++)
		if (file->areas[a].free_count > 0)
			return true;
	if (head == CORE_NONE)
		return false;
	uint32_t age = core->sealed - core->nodes[head].used_at;
	return age > evict_reuse_age(machine_part_shelf(core, f, 0)) / 2;
}

/* Is it worth a place in a file? */
static bool worth_storing(const struct core *core, const struct node *node)
{
	switch (core->cfg.store) {
	case CORE_STORE_LIKELY:
		return core->policy->store(node->uses) || roomy(core, node);
	case CORE_STORE_USED:
		return core->policy->store(node->uses);
	case CORE_STORE_ALL:
		break;
	}
	return true;
}

bool rest_unstored(const struct core *core, uint32_t node)
{
	return tier_there(core, CORE_TIER_FILE) && !worth_storing(core, &core->nodes[node]);
}

uint32_t rest_readable(const struct core *core, uint32_t node)
{
	for (uint32_t t = 0; t < CORE_TIERS; t++)
		if (rest_in(core, node, t) && core->rests[node].transfer[t] == CORE_NONE &&
		    !tier_down(core, t, core->rests[node].slot[t]))
			return t;
	return CORE_NONE;
}

bool rest_using(const struct core *core, uint32_t node)
{
	for (uint32_t t = 0; t < CORE_TIERS; t++)
		if (rest_in(core, node, t) && core->rests[node].transfer[t] != CORE_NONE &&
		    !core->transfers[core->rests[node].transfer[t]].late)
			return true;
	return false;
}

/* --- lists ------------------------------------------------------------------------------------ */

/* Links the node in before `behind`; CORE_NONE: at the end. */
static void order_insert(struct core *core, uint32_t node, uint32_t t, uint32_t behind)
{
	struct rest_list *list = &core->tiers[t].order;
	struct rest *r = &core->rests[node];

	r->next[t] = behind;
	r->prev[t] = behind == CORE_NONE ? list->tail : core->rests[behind].prev[t];
	if (r->prev[t] != CORE_NONE)
		core->rests[r->prev[t]].next[t] = node;
	else
		list->head = node;
	if (behind != CORE_NONE)
		core->rests[behind].prev[t] = node;
	else
		list->tail = node;
	list->count++;
	r->listed[t] = true;
}

static void order_remove(struct core *core, uint32_t node, uint32_t t)
{
	struct rest_list *list = &core->tiers[t].order;
	struct rest *r = &core->rests[node];

	if (!r->listed[t])
		return;
	if (r->prev[t] != CORE_NONE)
		core->rests[r->prev[t]].next[t] = r->next[t];
	else
		list->head = r->next[t];
	if (r->next[t] != CORE_NONE)
		core->rests[r->next[t]].prev[t] = r->prev[t];
	else
		list->tail = r->prev[t];
	list->count--;
	r->prev[t] = r->next[t] = CORE_NONE;
	r->listed[t] = false;
}

void rest_queue(struct core *core, uint32_t node, uint32_t t)
{
	struct rest_list *list = &core->tiers[t].queue;
	struct rest *r = &core->rests[node];

	r->queue_prev[t] = list->tail;
	r->queue_next[t] = CORE_NONE;
	if (list->tail != CORE_NONE)
		core->rests[list->tail].queue_next[t] = node;
	else
		list->head = node;
	list->tail = node;
	list->count++;
	r->queued[t] = true;
}

void rest_unqueue(struct core *core, uint32_t node, uint32_t t)
{
	struct rest_list *list = &core->tiers[t].queue;
	struct rest *r = &core->rests[node];

	if (!r->queued[t])
		return;
	if (r->queue_prev[t] != CORE_NONE)
		core->rests[r->queue_prev[t]].queue_next[t] = r->queue_next[t];
	else
		list->head = r->queue_next[t];
	if (r->queue_next[t] != CORE_NONE)
		core->rests[r->queue_next[t]].queue_prev[t] = r->queue_prev[t];
	else
		list->tail = r->queue_prev[t];
	list->count--;
	r->queued[t] = false;
}

void rest_unqueue_all(struct core *core, uint32_t node)
{
	for (uint32_t t = 0; core->has_tiers && t < CORE_TIERS; t++)
		rest_unqueue(core, node, t);
}

/* With DRAM on the way, a file gets what DRAM has: nobody reads the device twice. */
static bool should_store(const struct core *core, uint32_t node, uint32_t t)
{
	const struct node *n = &core->nodes[node];

	if (!tier_there(core, t) || rest_in(core, node, t) || n->state != NODE_SEALED ||
	    (n->flags & NODE_PARTIAL) || core->rests[node].queued[t])
		return false;
	if (t != CORE_TIER_FILE)
		return true;
	return worth_storing(core, n) &&
	       (!tier_there(core, CORE_TIER_DRAM) || rest_in(core, node, CORE_TIER_DRAM));
}

void rest_idle(struct core *core, uint32_t node)
{
	for (uint32_t t = 0; core->has_tiers && t < CORE_TIERS; t++) {
		if (rest_in(core, node, t))
			order_insert(core, node, t, CORE_NONE);
		else if (!core->unpinning && should_store(core, node, t))
			rest_queue(core, node, t);
	}
}

void rest_busy(struct core *core, uint32_t node)
{
	for (uint32_t t = 0; core->has_tiers && t < CORE_TIERS; t++)
		order_remove(core, node, t);
}

void rest_found(struct core *core, uint32_t node, uint32_t t, uint32_t slot, uint64_t generation)
{
	uint32_t parent = core->nodes[node].parent;
	struct rest *r = &core->rests[node];

	r->slot[t] = slot;
	r->generation[t] = generation;
	order_insert(core, node, t, core->rests[parent].listed[t] ? parent : CORE_NONE);
}

/* --- slots ------------------------------------------------------------------------------------ */

/* Of its slot in the file tier, or of the one that it will have soon; 0: it lies not there. */
static uint64_t file_generation(const struct core *core, uint32_t node)
{
	const struct rest *r = &core->rests[node];
	uint32_t i = r->transfer[CORE_TIER_FILE];

	if (rest_in(core, node, CORE_TIER_FILE))
		return r->generation[CORE_TIER_FILE];
	return i != CORE_NONE ? core->transfers[i].generation : 0;
}

void rest_record(const struct core *core, uint32_t node, struct core_record *out)
{
	const struct node *n = &core->nodes[node];
	const struct rest *r = &core->rests[node];

	*out = (struct core_record){
		.put = true,
		.format = n->format,
		.depth = n->depth,
		.token_count = n->valid_tokens,
		.extra_count = n->extra_count,
		.uses = n->uses,
		.tokens = arena_words(core, n->tokens),
		.extras = n->extra_count ? arena_words(core, n->extras) : NULL,
	};
	memcpy(out->key, n->hash, sizeof(out->key));
	memcpy(out->parent_key, core->nodes[n->parent].hash, sizeof(out->parent_key));
	out->parent_generation = file_generation(core, n->parent);
	tier_slot(core, CORE_TIER_FILE, r->slot[CORE_TIER_FILE], &out->slot);
	out->slot.generation = r->generation[CORE_TIER_FILE];
}

static void record_put(struct core *core, uint32_t node)
{
	struct core_record record;

	rest_record(core, node, &record);
	core->ops.record(core->ctx, &record);
}

/*
 * What was stored before its parent was, or before the parent was lost and stored again, names
 * another generation of it, and would not be found after a restart.
 */
static void record_children(struct core *core, uint32_t node)
{
	for (uint32_t child = core->nodes[node].first_child; child != CORE_NONE && core->budget > 0;
	     child = core->nodes[child].next_sibling) {
		core->budget--;
		if (rest_in(core, child, CORE_TIER_FILE))
			record_put(core, child);
	}
}

void rest_put(struct core *core, uint32_t node, uint32_t t, uint32_t slot, uint64_t generation)
{
	struct rest *r = &core->rests[node];

	ASSERT(r->slot[t] == CORE_NONE);
	r->slot[t] = slot;
	r->generation[t] = generation;
	rest_unqueue(core, node, t);
	if (core->nodes[node].pins == 0)
		order_insert(core, node, t, CORE_NONE);
	if (t != CORE_TIER_FILE) {
		if (should_store(core, node, CORE_TIER_FILE))
			rest_queue(core, node, CORE_TIER_FILE);
		return;
	}
	record_put(core, node);
	if (!MUTANT(CHILD_UNTOLD))
		record_children(core, node);
}

/* A transfer that uses the slot keeps it until it is done. */
static void free_slot(struct core *core, uint32_t node, uint32_t t)
{
	struct rest *r = &core->rests[node];
	uint32_t i = r->transfer[t];

	if (i == CORE_NONE || MUTANT(SLOT_UNDER_TRANSFER)) {
		tier_free(core, t, r->slot[t]);
		return;
	}
	struct transfer *x = &core->transfers[i];
	if (x->tier == t && x->slot == r->slot[t])
		x->slot_dropped = true;
	else
		x->from_dropped = true;
}

void rest_drop(struct core *core, uint32_t node, uint32_t t)
{
	struct rest *r = &core->rests[node];
	struct core_record record = {.put = false};

	if (!rest_in(core, node, t))
		return;
	tier_slot(core, t, r->slot[t], &record.slot);
	record.slot.generation = r->generation[t];
	order_remove(core, node, t);
	free_slot(core, node, t);
	r->slot[t] = CORE_NONE;
	if (t == CORE_TIER_FILE && !MUTANT(DROP_UNRECORDED))
		core->ops.record(core->ctx, &record);
}

void rest_lose(struct core *core, uint32_t node, uint32_t t)
{
	rest_drop(core, node, t);
	if (core->nodes[node].state == NODE_COLD && !rest_any(core, node))
		node_drop_cold(core, node);
}

void rest_forget(struct core *core, uint32_t node)
{
	for (uint32_t t = 0; core->has_tiers && t < CORE_TIERS; t++) {
		uint32_t *transfer = &core->rests[node].transfer[t];
		rest_drop(core, node, t);
		rest_unqueue(core, node, t);
		if (*transfer != CORE_NONE)
			core->transfers[*transfer].node = CORE_NONE;
		*transfer = CORE_NONE;
	}
}

/* What stands first in the tier's order gives up its slot. */
static bool evict_first(struct core *core, uint32_t t)
{
	uint32_t node = core->tiers[t].order.head;

	if (node == CORE_NONE)
		return false;
	tier_area(core, t, core->rests[node].slot[t])->dropped_blocks++;
	rest_lose(core, node, t);
	return true;
}

uint32_t rest_take_slot(struct core *core, uint32_t node, uint32_t t)
{
	const struct format *format = &core->formats[core->nodes[node].format];
	uint64_t bytes = tier_slot_bytes(core, format);
	uint32_t slot = tier_take(core, t, bytes);

	for (uint32_t i = 0; slot == CORE_NONE && i < REST_EVICT_MAX; i++) {
		if (!evict_first(core, t))
			return CORE_NONE;
		slot = tier_take(core, t, bytes);
	}
	return slot;
}

/* The first cold one of those that go first: what has pages as well does not make room. */
static uint32_t first_cold(const struct core *core, uint32_t t)
{
	uint32_t node = core->tiers[t].order.head;

	for (uint32_t i = 0; i < REST_LOOK_MAX && node != CORE_NONE; i++) {
		if (core->nodes[node].state == NODE_COLD)
			return node;
		node = core->rests[node].next[t];
	}
	return CORE_NONE;
}

bool rest_make_room(struct core *core)
{
	/* The slowest tier first: who lies in a faster one is worth more. */
	for (uint32_t t = CORE_TIERS; core->has_tiers && t-- > 0;) {
		uint32_t node = first_cold(core, t);
		if (node == CORE_NONE)
			continue;
		node_drop_cold(core, node);
		return true;
	}
	return false;
}

/* Leaves only, so that a step stays as long as it was asked to be. */
uint64_t rest_forget_cold(struct core *core, uint32_t space, uint64_t pages_max)
{
	uint64_t pages = 0;

	for (uint32_t t = 0; core->has_tiers && t < CORE_TIERS; t++) {
		uint32_t node = core->tiers[t].order.head;
		while (node != CORE_NONE) {
			const struct node *n = &core->nodes[node];
			const struct format *f = &core->formats[n->format];
			uint32_t next = core->rests[node].next[t];
			if (pages + f->part_count > pages_max)
				return pages;
			if (n->state == NODE_COLD && n->first_child == CORE_NONE &&
			    f->space == space) {
				pages += f->part_count;
				node_drop_cold(core, node);
			}
			node = next;
		}
	}
	return pages;
}
