/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is least likely to save anything goes first.
 *
 * The pages of a shelf have one size, so what a page costs is the same for all, and what it saves
 * when it is found is a block of prefill. What differs is how likely it is found again. A chain is
 * a conversation, or a document, or nothing that anybody will ever ask for again, and nobody tells
 * when it ends. Say that after h uses it goes on with probability p(h), and if it does, the next
 * use comes after an exponential time of mean T. If it has been quiet for the time a, the odds that
 * it goes on are p / (1 - p) * exp(-a / T). By the rule of succession, with one success and two
 * failures assumed (most of what is cached is never asked for again, as everybody who measured it
 * says), p / (1 - p) = (h + 1) / 2. So the order is that of
 *
 *	a - T * ln(h + 1)
 *
 * the largest first: the age, less what each use is good for. T is learned (evict.c): the mean age
 * at which blocks of this shelf were used again, those included that came back after eviction.
 * Where reuse is quick, or nothing is known yet, T is short and this is LRU; where the pool is too
 * small for the time between uses, proven chains stay and a scan passes by.
 *
 * h is counted up to 15, and each count has an order of its own: its head is the oldest, so the
 * victim is among CORE_ORDERS pages. h is carried over evictions.
 *
 * Invariants: the victim is a leaf: a child is not younger than its parent in age and has no more
 * uses, so it comes first, and on a tie the order of fewer uses does. The core's thread only.
 */
#include "kvd/core/evict_cost.h"

#define COST_ONE 1024 /* of fixed point */

/* ln(h + 1) */
static const int64_t cost_ln[CORE_ORDERS] = {
	0, 710, 1125, 1420, 1648, 1835, 1993, 2129, 2250, 2358, 2455, 2545, 2627, 2702, 2773, 2839,
};

static uint32_t order(uint8_t uses)
{
	return uses;
}

static uint8_t back(const struct core *core, uint8_t uses, uint32_t age)
{
	return (uint8_t)BITS_MIN(uses + 1u, CORE_ORDERS - 1);
}

/* Most of what is cached is never asked for again: once is no use. */
static bool store(uint8_t uses)
{
	return uses > 0;
}

static uint32_t oldest(const struct core *core, const struct shelf *shelf)
{
	int64_t reuse_age = (int64_t)evict_reuse_age(shelf);
	int64_t best = INT64_MIN;
	uint32_t victim = CORE_NONE;

	for (uint32_t uses = 0; uses < CORE_ORDERS; uses++) {
		uint32_t page = shelf->order[uses].head;
		if (page == CORE_NONE)
			continue;
		uint32_t age = core->sealed - core->nodes[core->pages[page].node].used_at;
		int64_t value = (int64_t)age * COST_ONE - reuse_age * cost_ln[uses];
		if (value > best) {
			best = value;
			victim = page;
		}
	}
	return victim;
}

static uint32_t victim(struct core *core, struct shelf *shelf)
{
	return oldest(core, shelf);
}

static bool leaf_first(const struct core *core, const struct shelf *shelf)
{
	uint32_t page = oldest(core, shelf);

	return page == CORE_NONE || evict_leaf(core, page);
}

const struct evict_policy evict_cost = {
	.name = "cost",
	.uses_max = CORE_ORDERS - 1,
	.order = order,
	.back = back,
	.store = store,
	.victim = victim,
	.leaf_first = leaf_first,
};
