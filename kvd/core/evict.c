/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Eviction: keeps what policies judge by, asks the policy, evicts. Nodes with parts on several
 * shelves leave all of them.
 *
 * What is known of a node is how often requests found it (`uses`) and how many blocks have been
 * sealed since its last path ended: time as the pool sees it, which needs no clock. Of an evicted
 * node both are remembered beside its ghost, since a block that comes back after its eviction has
 * been used again as well. Each shelf learns the mean age at which its blocks are used again, with
 * the weight of a mean of EVICT_SAMPLES: enough for an error of 3 % if ages are exponential, and
 * few enough to follow the traffic. At first it is 0.
 *
 * Invariants: only nodes without pins are evicted, leaves first. A node has never more uses than
 * its parent: who uses a node uses all above it, and what comes back counts no more than its parent
 * does. Uses change only while a node is pinned, but by the policy itself, so a listed page stands
 * in the order of its uses. Within an order children stand before their parents, as paths are
 * unpinned from the deepest node up. The core's thread only.
 */
#include "kvd/core/evict.h"

#include "kvd/core/evict_cost.h"
#include "kvd/core/evict_lru.h"
#include "kvd/core/evict_s3fifo.h"
#include "kvd/core/index.h"
#include "kvd/core/mutant.h"
#include "kvd/core/node.h"
#include "kvd/core/pool.h"

#include <string.h>

#define EVICT_SAMPLES_SHIFT 10
/* A remembered node is one word: the uses, and the clock without its highest bits. */
#define EVICT_USES_BITS 4
#define EVICT_CLOCK_MASK (UINT32_MAX >> EVICT_USES_BITS)

const struct evict_policy *evict_policy(const char *name)
{
	static const struct evict_policy *const policies[] = {&evict_lru, &evict_s3fifo,
							      &evict_cost};

	for (uint32_t i = 0; i < ARRAY_LEN(policies); i++)
		if (!name || strcmp(name, policies[i]->name) == 0)
			return policies[i];
	return NULL;
}

/* --- what is known -------------------------------------------------------------------------- */

uint64_t evict_reuse_age(const struct shelf *shelf)
{
	return shelf->reuse_sum >> EVICT_SAMPLES_SHIFT;
}

bool evict_leaf(const struct core *core, uint32_t page)
{
	uint32_t child = core->nodes[core->pages[page].node].first_child;

	return child == CORE_NONE || core->nodes[child].state == NODE_COLD;
}

static void learn(struct core *core, const struct node *node, uint32_t age)
{
	for (uint32_t p = node->page; p != CORE_NONE; p = core->pages[p].next_part) {
		struct shelf *shelf = pool_shelf(core, p);
		shelf->reuse_sum += age - evict_reuse_age(shelf);
	}
}

uint32_t evict_word(const struct core *core, const struct node *node)
{
	uint32_t uses = BITS_MIN((uint32_t)node->uses, (1u << EVICT_USES_BITS) - 1);

	return (node->used_at & EVICT_CLOCK_MASK) << EVICT_USES_BITS | uses;
}

/* Who used a node has used all above it, also those of whom that was forgotten. */
static void raise_above(struct core *core, const struct node *node)
{
	uint8_t uses = node->uses;

	for (struct node *n = &core->nodes[node->parent];
	     n->state == NODE_SEALED && n->uses < uses && !MUTANT(USES_CARRIED);
	     n = &core->nodes[n->parent])
		n->uses = uses;
}

void evict_made(struct core *core, struct node *node)
{
	uint32_t word;

	node->uses = 0;
	core->sealed++;
	node->used_at = core->sealed;
	if (core->policy->uses_max == 0 || (node->flags & NODE_PARTIAL) ||
	    !index_ghost_uses(core, node->hash, &word))
		return;
	uint32_t age = (core->sealed - (word >> EVICT_USES_BITS)) & EVICT_CLOCK_MASK;
	node->uses = core->policy->back(core, word & ((1u << EVICT_USES_BITS) - 1), age);
	raise_above(core, node);
	learn(core, node, age);
}

static void use(struct core *core, struct node *node)
{
	learn(core, node, core->sealed - node->used_at);
	if (node->uses < core->policy->uses_max)
		node->uses++;
}

void evict_returned(struct core *core, struct node *node)
{
	core->sealed++;
	if (core->policy->uses_max > 0) {
		use(core, node);
		raise_above(core, node);
	}
	node->used_at = core->sealed;
}

void evict_used(struct core *core, uint32_t node)
{
	if (core->policy->uses_max == 0)
		return;
	for (; core->nodes[node].state == NODE_SEALED; node = core->nodes[node].parent) {
		use(core, &core->nodes[node]);
		if (MUTANT(USES_OF_LAST))
			return;
	}
}

void evict_used_tail(struct core *core, uint32_t node)
{
	if (core->policy->uses_max > 0)
		use(core, &core->nodes[node]);
}

/* --- evicting ------------------------------------------------------------------------------- */

bool evict_one(struct core *core, struct shelf *shelf)
{
	uint32_t page = core->policy->victim(core, shelf);

	if (page == CORE_NONE)
		return false;
	uint32_t node = core->pages[page].node;
	if (MUTANT(EVICT_INNER) && core->nodes[core->nodes[node].parent].state == NODE_SEALED)
		node = core->nodes[node].parent;
	node_evict(core, node);
	return true;
}

bool evict_any(struct core *core, uint32_t space, uint32_t devices)
{
	for (uint32_t g = 0; g < core->geometry_count; g++)
		if ((devices >> core->geometries[g].device & 1) &&
		    evict_one(core, machine_shelf(core, space, g)))
			return true;
	return false;
}

/* One node of the shelf, if its pages are not more than the rest that may go. */
static uint32_t evict_within(struct core *core, struct shelf *shelf, uint64_t pages_max)
{
	uint32_t page = core->policy->victim(core, shelf);

	if (page == CORE_NONE)
		return 0;
	uint32_t node = core->pages[page].node;
	uint32_t parts = core->formats[core->nodes[node].format].part_count;
	if (parts > pages_max)
		return 0;
	node_evict(core, node);
	return parts;
}

uint64_t evict_pages(struct core *core, uint32_t space, uint64_t pages_max)
{
	uint64_t evicted = 0;

	for (uint32_t g = 0; g < core->geometry_count; g++) {
		struct shelf *shelf = machine_shelf(core, space, g);
		uint32_t pages;
		while ((pages = evict_within(core, shelf, pages_max - evicted)) > 0)
			evicted += pages;
	}
	return evicted;
}
