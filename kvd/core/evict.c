/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Eviction: asks the policy, evicts. Nodes with parts on several shelves leave all of them.
 *
 * Invariants: only nodes without pins are evicted, leaves first. The core's thread only.
 */
#include "kvd/core/evict.h"

#include "kvd/core/evict_lru.h"
#include "kvd/core/mutant.h"
#include "kvd/core/node.h"

#include <string.h>

const struct evict_policy *evict_policy(const char *name)
{
	if (!name || strcmp(name, evict_lru.name) == 0)
		return &evict_lru;
	return NULL;
}

bool evict_one(struct core *core, const struct shelf *shelf)
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
static uint32_t evict_within(struct core *core, const struct shelf *shelf, uint64_t pages_max)
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
		const struct shelf *shelf = machine_shelf(core, space, g);
		uint32_t pages;
		while ((pages = evict_within(core, shelf, pages_max - evicted)) > 0)
			evicted += pages;
	}
	return evicted;
}
