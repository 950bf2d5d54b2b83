/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hauls.
 *
 * Loading: all pages are taken when it begins, as the request that wants it was admitted with them.
 * Blocks arrive in any order and are published in the order of the chain, so what is published is
 * always a prefix. Who was faster than a load with the same block has published it already; the
 * page that was loaded is then free again. A block that cannot be read ends the haul there, as a
 * builder that leaves: the oldest follower is CALLed to compute from there on.
 *
 * Storing: what has become idle and is worth it stands in the queue of its tier. A haul takes the
 * first of the queue and up to CORE_HAUL_BLOCKS of its chain that the tier lacks, those nearest to
 * the root, so that the tier never has a block without those before it.
 *
 * Invariants: the lease of a haul has the nodes of its path pinned, and no session. Pages in its
 * list `own` are filling, by block and part; `shown` are those that are filled; page.node is the
 * node that they are for. The core's thread only.
 */
#include "kvd/core/haul.h"

#include "kvd/core/admit.h"
#include "kvd/core/follow.h"
#include "kvd/core/lease.h"
#include "kvd/core/move.h"
#include "kvd/core/mutant.h"
#include "kvd/core/node.h"
#include "kvd/core/pool.h"
#include "kvd/core/rest.h"
#include "kvd/core/tier.h"
#include "kvd/core/transfer.h"

#include <base/units.h>
#include <errno.h>

#define HAUL_STORES_MAX 16u /* of CORE_HAULS: loads always find one */
#define HAUL_STALL_NS (100 * UNITS_NS_PER_MS)

bool haul_room(const struct core *core)
{
	return core->has_tiers && core->haul_count < CORE_HAULS && !transfer_stuck(core);
}

/* A free haul with its lease, whose path ends in `last`, pinned. */
static uint32_t begin(struct core *core, enum haul_kind kind, uint32_t last)
{
	uint32_t i = 0;

	while (core->hauls[i].kind != HAUL_NONE)
		i++;
	uint32_t lease = core->cfg.leases_max + i;
	struct lease *l = &core->leases[lease];
	core->hauls[i] = (struct haul){.kind = kind, .started_ns = core->now_ns};
	core->haul_count++;
	lease_reset(core, lease, LEASE_HAUL, CORE_NONE, core->nodes[last].format);
	l->last = last;
	if (kind == HAUL_STORE && MUTANT(STORE_UNPINNED))
		l->last = l->format;
	for (uint32_t n = l->last; n != l->format; n = core->nodes[n].parent)
		node_pin(core, n, CORE_NONE);
	return lease;
}

/* --- loading ---------------------------------------------------------------------------------- */

/* Open pages of a lease are charged to its session; these are nobody's until they are sealed. */
static void take_pages(struct core *core, uint32_t haul, uint32_t node)
{
	struct lease *l = &core->leases[haul];
	const struct format *f = &core->formats[l->format];

	for (uint32_t part = 0; part < f->part_count; part++) {
		uint32_t page = admit_take_page(core, f, part, STATE_LOAD);
		struct page *p = &core->pages[page];
		p->lease = haul;
		p->block = core->nodes[node].depth - 1;
		p->part = (uint8_t)part;
		p->node = node;
		pool_list_insert(core, &l->own, page, PAGE_OWN);
	}
}

uint32_t haul_load(struct core *core, uint32_t payer, uint32_t last, uint32_t first)
{
	uint32_t haul = begin(core, HAUL_LOAD, last);
	struct haul *h = machine_haul(core, haul);

	h->next = first;
	h->end = core->nodes[last].depth;
	for (uint32_t n = last; core->nodes[n].depth > first; n = core->nodes[n].parent) {
		node_revive(core, n, haul);
		take_pages(core, haul, n);
		if (!MUTANT(LOAD_UNPAID))
			admit_taken(core, payer);
	}
	follow_advance(core, haul);
	return haul;
}

static void drop_block(struct core *core, struct lease *l, uint32_t block, enum state_event event)
{
	uint32_t page = pool_list_find(core, &l->own, block);

	while (page != CORE_NONE && core->pages[page].block == block) {
		uint32_t next = core->pages[page].next;
		pool_list_remove(core, &l->own, page);
		core->pages[page].node = CORE_NONE;
		pool_free(core, page, event);
		page = next;
	}
}

void haul_failed(struct core *core, uint32_t haul, uint32_t block)
{
	struct lease *l = &core->leases[haul];
	struct haul *h = machine_haul(core, haul);

	if (block >= h->end)
		return;
	transfer_give_up(core, haul, block);
	while (l->own.tail != CORE_NONE && core->pages[l->own.tail].block >= block)
		drop_block(core, l, core->pages[l->own.tail].block, STATE_LOAD_USELESS);
	h->end = block;
	h->next = BITS_MIN(h->next, block);
	h->advanced = true;
	follow_give_up(core, haul, block);
	follow_advance(core, haul);
}

void haul_end_through(struct core *core, uint32_t node)
{
	uint32_t depth = core->nodes[node].depth;

	for (uint32_t i = 0; core->has_tiers && i < CORE_HAULS; i++) {
		uint32_t haul = core->cfg.leases_max + i;
		const struct lease *l = &core->leases[haul];
		if (core->hauls[i].kind == HAUL_LOAD && core->nodes[l->last].depth >= depth &&
		    node_at_depth(core, l->last, depth) == node)
			haul_failed(core, haul, depth - 1);
	}
}

/* Publishes what has come and whose turn it is. */
static void publish(struct core *core, uint32_t haul)
{
	struct lease *l = &core->leases[haul];
	uint32_t pages[KVD_PARTS_MAX];
	uint32_t page;

	while ((page = l->own.head) != CORE_NONE && core->pages[page].shown && core->budget > 0) {
		uint32_t block = core->pages[page].block;
		uint32_t node = core->pages[page].node;
		core->budget--;
		if (block < l->ready) {
			drop_block(core, l, block, STATE_LOAD_USELESS);
			continue;
		}
		if (block > l->ready && !MUTANT(LOAD_OUT_OF_ORDER))
			return;
		uint32_t builder = core->nodes[node].builder;
		while (page != CORE_NONE && core->pages[page].block == block) {
			uint32_t next = core->pages[page].next;
			pool_list_remove(core, &l->own, page);
			core->pages[page].shown = 0;
			pages[core->pages[page].part] = page;
			page = next;
		}
		node_publish(core, node, pages, STATE_LOADED);
		core->counters[machine_haul(core, haul)->for_request ? KVD_C_LOADED_TOKENS
								     : KVD_C_PREFETCHED_TOKENS] +=
			core->nodes[node].valid_tokens;
		follow_sealed(core, node, haul, builder);
		follow_advance(core, haul);
	}
}

/* Begins transfers of the haul, `count` at most. Returns how many. */
static uint32_t load_more(struct core *core, uint32_t haul, uint32_t count)
{
	struct haul *h = machine_haul(core, haul);
	uint32_t begun = 0;

	while (h->next < h->end && begun < count) {
		if (h->next < core->leases[haul].ready) {
			/* Somebody else has computed it meanwhile. */
			drop_block(core, &core->leases[haul], h->next++, STATE_LOAD_USELESS);
			continue;
		}
		int rc = transfer_load(core, haul, h->next);
		if (rc == -ENODATA)
			haul_failed(core, haul, h->next);
		if (rc < 0)
			return begun;
		h->next++;
		begun++;
	}
	return begun;
}

/* --- storing ---------------------------------------------------------------------------------- */

/* Does the tier lack it, and nobody brings it there? */
static bool lacks(const struct core *core, uint32_t node, uint32_t t)
{
	return !rest_in(core, node, t) && core->rests[node].transfer[t] == CORE_NONE;
}

/* Pages of the chain that nobody else pins. */
static uint64_t idle_pages(const struct core *core, uint32_t node)
{
	uint64_t idle = 0;

	for (; core->nodes[node].state == NODE_SEALED; node = core->nodes[node].parent)
		idle += core->nodes[node].pins == 0;
	return idle * core->formats[core->nodes[node].format].part_count;
}

/*
 * What is pinned for a store cannot be evicted for a request meanwhile, and if the disk hangs,
 * meanwhile is long. So all stores together pin no more than a quarter of what requests could have,
 * or one chain. Those that are late do not count: nothing more goes where they hang, and a disk
 * that works must not wait for one that does not.
 */
static bool may_pin(const struct core *core, uint32_t node)
{
	const struct format *f = &core->formats[core->nodes[node].format];
	uint64_t pages = core->store_pinned + idle_pages(core, node);

	for (uint32_t part = 0; part < f->part_count && core->store_pinned > 0; part++) {
		const struct shelf *shelf = machine_part_shelf(core, f, part);
		uint64_t have = (uint64_t)shelf->free + shelf->evictable - shelf->promised;
		if (4 * pages > have + core->store_pinned)
			return false;
	}
	return true;
}

/* The next of the queue and what its chain lacks in the tier. */
static void begin_store(struct core *core, uint32_t t)
{
	uint32_t node = core->tiers[t].queue.head;
	uint32_t missing = 0;
	uint32_t last = node;

	core->tiers[t].crowded = !may_pin(core, node);
	if (core->tiers[t].crowded)
		return;
	rest_unqueue(core, node, t);
	for (uint32_t n = node; n != core->nodes[n].format; n = core->nodes[n].parent)
		missing += lacks(core, n, t);
	if (missing == 0)
		return;
	for (; missing > CORE_HAUL_BLOCKS; last = core->nodes[last].parent)
		missing -= lacks(core, last, t);
	if (last != node)
		rest_queue(core, node, t);
	uint64_t pinned = idle_pages(core, last);
	uint32_t haul = begin(core, HAUL_STORE, last);
	struct haul *h = machine_haul(core, haul);
	h->pinned = pinned;
	core->store_pinned += pinned;
	core->store_hauls++;
	h->tier = t;
	h->end = missing;
	h->count = missing;
	for (uint32_t n = last; missing > 0; n = core->nodes[n].parent)
		if (lacks(core, n, t)) {
			h->nodes[--missing] = n;
			rest_unqueue(core, n, t);
		}
}

/* Nothing more is stored by it. */
static void cut_store(struct core *core, struct haul *h)
{
	h->end = h->next;
	core->tiers[h->tier].stalled_ns = core->now_ns + HAUL_STALL_NS;
}

/* What was not begun is tried again. What was stored and has made room for others is not. */
static void queue_again(struct core *core, struct haul *h)
{
	while (h->count > h->end) {
		uint32_t node = h->nodes[--h->count];
		if (lacks(core, node, h->tier) && !core->rests[node].queued[h->tier])
			rest_queue(core, node, h->tier);
	}
}

static uint32_t store_more(struct core *core, uint32_t haul, uint32_t count)
{
	struct haul *h = machine_haul(core, haul);
	uint32_t begun = 0;

	while (h->next < h->end && begun < count) {
		/* Chains share their first blocks: another haul may have been faster. */
		if (!lacks(core, h->nodes[h->next], h->tier) && !MUTANT(STORE_TWICE)) {
			h->next++;
			continue;
		}
		int rc = transfer_store(core, haul, h->nodes[h->next], h->tier);
		if (rc == -ENOSPC)
			cut_store(core, h);
		if (rc < 0)
			return begun;
		h->next++;
		begun++;
	}
	return begun;
}

void haul_unstored(struct core *core, uint32_t haul)
{
	cut_store(core, machine_haul(core, haul));
}

static void uncrowd(struct core *core)
{
	for (uint32_t t = 0; t < CORE_TIERS; t++)
		core->tiers[t].crowded = false;
}

/* What it pins counts no more. */
void haul_late(struct core *core, uint32_t haul)
{
	struct haul *h = machine_haul(core, haul);

	core->store_pinned -= h->pinned;
	h->pinned = 0;
	uncrowd(core);
}

static bool can_store(const struct core *core, uint32_t t)
{
	const struct tier *tier = &core->tiers[t];

	return tier->queue.head != CORE_NONE && tier->storing < tier->depth &&
	       tier->stalled_ns <= core->now_ns && !tier->crowded &&
	       core->store_hauls < HAUL_STORES_MAX && haul_room(core);
}

/* --- turns ------------------------------------------------------------------------------------ */

/* Unpins its path, in slices. */
static void end(struct core *core, uint32_t haul)
{
	struct lease *l = &core->leases[haul];
	struct haul *h = machine_haul(core, haul);

	follow_leave(core, haul);
	queue_again(core, h);
	if (h->kind == HAUL_LOAD && h->for_request && h->estimate_ns > 0)
		move_outcome(core, l->last, h->estimate_ns, core->now_ns - h->started_ns);
	h->estimate_ns = 0;
	core->unpinning = true;
	while (l->last != l->format && core->budget > 0) {
		uint32_t node = l->last;
		l->last = core->nodes[node].parent;
		node_unpin(core, node, CORE_NONE);
		core->budget--;
	}
	core->unpinning = false;
	if (l->last != l->format)
		return;
	core->store_hauls -= h->kind == HAUL_STORE;
	haul_late(core, haul);
	core->haul_count--;
	h->kind = HAUL_NONE;
	l->life = LEASE_FREE;
}

static bool done(const struct core *core, uint32_t haul)
{
	const struct haul *h = machine_haul(core, haul);

	return h->next >= h->end && h->moving == 0 && core->leases[haul].own.count == 0;
}

/* One turn of a haul: what has come, a transfer, the end. Returns the transfers that began. */
static uint32_t turn(struct core *core, uint32_t haul)
{
	struct haul *h = machine_haul(core, haul);
	uint32_t begun = 0;

	if (h->kind == HAUL_LOAD) {
		h->advanced = false;
		publish(core, haul);
		begun = load_more(core, haul, 4);
	} else {
		begun = store_more(core, haul, 4);
	}
	if (done(core, haul))
		end(core, haul);
	return begun;
}

void haul_pump(struct core *core)
{
	bool more = core->has_tiers;

	while (more && core->budget > 0) {
		more = false;
		for (uint32_t i = 0; i < CORE_HAULS && core->haul_count > 0; i++) {
			uint32_t at = (core->haul_turn + i) % CORE_HAULS;
			if (core->hauls[at].kind != HAUL_NONE)
				more |= turn(core, core->cfg.leases_max + at) > 0;
		}
		core->haul_turn = (core->haul_turn + 1) % CORE_HAULS;
		for (uint32_t t = 0; t < CORE_TIERS && core->budget > 0; t++)
			while (can_store(core, t) && core->budget > 0) {
				core->budget--;
				begin_store(core, t);
				more = true;
			}
	}
}

bool haul_busy(const struct core *core)
{
	for (uint32_t t = 0; t < CORE_TIERS; t++)
		if (can_store(core, t))
			return true;
	for (uint32_t i = 0; i < CORE_HAULS && core->haul_count > 0; i++)
		if (core->hauls[i].kind != HAUL_NONE &&
		    (core->hauls[i].advanced || done(core, core->cfg.leases_max + i)))
			return true;
	return false;
}

uint64_t haul_deadline_ns(const struct core *core)
{
	uint64_t deadline = UINT64_MAX;

	for (uint32_t t = 0; t < CORE_TIERS; t++)
		if (core->tiers[t].queue.head != CORE_NONE &&
		    core->tiers[t].stalled_ns > core->now_ns)
			deadline = BITS_MIN(deadline, core->tiers[t].stalled_ns);
	return deadline;
}
