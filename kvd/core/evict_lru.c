/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Least recently used. A page joins the end of its shelf's one order when the last path through
 * its node ends, and paths are unpinned from the deepest node up: so a child always stands before
 * its parent, and the head of the order is a leaf. There is nothing to search. The core's thread
 * only.
 */
#include "kvd/core/evict_lru.h"

static uint32_t only_order(uint8_t uses)
{
	return 0;
}

static uint8_t back(const struct core *core, uint8_t uses, uint32_t age)
{
	return 0;
}

static bool store(uint8_t uses)
{
	return true;
}

static uint32_t victim(struct core *core, struct shelf *shelf)
{
	return shelf->order[0].head;
}

static bool leaf_first(const struct core *core, const struct shelf *shelf)
{
	uint32_t head = shelf->order[0].head;

	return head == CORE_NONE || evict_leaf(core, head);
}

const struct evict_policy evict_lru = {
	.name = "lru",
	.order = only_order,
	.back = back,
	.store = store,
	.victim = victim,
	.leaf_first = leaf_first,
};
