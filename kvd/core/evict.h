/* SPDX-License-Identifier: Apache-2.0 */
/*
 * evict.h: what leaves the index when memory is needed. A policy names the next victim of a shelf,
 * always a leaf: a chain is never broken in its middle.
 *
 * The pages that nobody uses stand in the orders of their shelf, each in the one that the policy
 * chooses by the uses of its node, behind those that came before.
 */
#ifndef KVD_CORE_EVICT_H
#define KVD_CORE_EVICT_H

#include "kvd/core/machine.h"

struct evict_policy {
	const char *name;
	uint8_t uses_max; /* that are counted for a node */
	/* The order of a page whose node has been used so often, below CORE_ORDERS. */
	uint32_t (*order)(uint8_t uses);
	/*
	 * The uses of a block that was evicted with `uses` and comes back when `age` blocks have
	 * been sealed since it was used.
	 */
	uint8_t (*back)(const struct core *core, uint8_t uses, uint32_t age);
	/* Is a block that has been used so often worth being written to a file? */
	bool (*store)(uint8_t uses);
	/* The page whose node goes next, or CORE_NONE. */
	uint32_t (*victim)(struct core *core, struct shelf *shelf);
	/* For checks: what victim() would name now has no children with pages. */
	bool (*leaf_first)(const struct core *core, const struct shelf *shelf);
};

/* The policy of that name, NULL: the default. NULL: there is none. */
const struct evict_policy *evict_policy(const char *name);

/* The order that the page of a node stands in, or will. */
static inline struct page_list *evict_order(const struct core *core, struct shelf *shelf,
					    uint32_t page)
{
	return &shelf->order[core->policy->order(core->nodes[core->pages[page].node].uses)];
}

/* A node was sealed: the clock goes on, and what is remembered of it counts. Before it is listed.
 */
void evict_made(struct core *core, struct node *node);
/* The same for a node that comes back from a tier: that is a use of it. */
void evict_returned(struct core *core, struct node *node);
/* A request found the path that ends here, and pins it. */
void evict_used(struct core *core, uint32_t node);
/* The same for a partial node alone. */
void evict_used_tail(struct core *core, uint32_t node);
/* What is to be remembered of a node that is evicted. */
uint32_t evict_word(const struct core *core, const struct node *node);
/* The age at which pages of the shelf are used again, in sealed blocks: the mean of late. */
uint64_t evict_reuse_age(const struct shelf *shelf);
/* Does the page's node have no children with pages, or that are being built? */
bool evict_leaf(const struct core *core, uint32_t page);

/* Evicts one node that has a page on the shelf. False: nothing is evictable. */
bool evict_one(struct core *core, struct shelf *shelf);
/* The same for any shelf of the space on one of the devices. */
bool evict_any(struct core *core, uint32_t space, uint32_t devices);
/* Evicts nodes of the space, `pages_max` pages at most; returns how many. */
uint64_t evict_pages(struct core *core, uint32_t space, uint64_t pages_max);

#endif
