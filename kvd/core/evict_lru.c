/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Least recently used. A page joins the end of its shelf's order when the last path through its
 * node ends, and paths are unpinned from the deepest node up: so a child always stands before its
 * parent, and the head of the order is a leaf. There is nothing to search. The core's thread only.
 */
#include "kvd/core/evict_lru.h"

static uint32_t victim(const struct core *core, const struct shelf *shelf)
{
	return shelf->lru.head;
}

const struct evict_policy evict_lru = {
	.name = "lru",
	.victim = victim,
};
