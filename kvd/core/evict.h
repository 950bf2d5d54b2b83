/* SPDX-License-Identifier: Apache-2.0 */
/*
 * evict.h: what leaves the index when memory is needed. A policy orders the pages of a shelf that
 * nobody uses and names the next victim, always a leaf: a chain is never broken in its middle.
 */
#ifndef KVD_CORE_EVICT_H
#define KVD_CORE_EVICT_H

#include "kvd/core/machine.h"

struct evict_policy {
	const char *name;
	/* The page whose node goes next, or CORE_NONE. */
	uint32_t (*victim)(const struct core *core, const struct shelf *shelf);
};

/* The policy of that name, NULL: the default. NULL: there is none. */
const struct evict_policy *evict_policy(const char *name);

/* Evicts one node that has a page on the shelf. False: nothing is evictable. */
bool evict_one(struct core *core, const struct shelf *shelf);
/* The same for any shelf of the space on one of the devices. */
bool evict_any(struct core *core, uint32_t space, uint32_t devices);
/* Evicts nodes of the space, `pages_max` pages at most; returns how many. */
uint64_t evict_pages(struct core *core, uint32_t space, uint64_t pages_max);

#endif
