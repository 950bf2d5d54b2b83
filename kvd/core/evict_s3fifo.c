/* SPDX-License-Identifier: Apache-2.0 */
/*
 * S3-FIFO (Yang et al. 2023), for a tree. Newcomers join a small queue, a tenth of the pages, and
 * leave from there if nobody used them; what was used again, or comes back soon after it was
 * evicted, is in the main queue, where a head that was used once more goes round again.
 *
 * Uses: 0 is the small queue, 1 to 4 are the main one with a frequency of 0 to 3. A page is out of
 * its queue while a path runs through its node and joins it at the end afterwards, which a plain
 * queue would not do: the price of orders in which nothing is looked for.
 *
 * A node with several parts has a page for each, and each round of each of them takes a use.
 *
 * Invariants: the small queue begins with a leaf, as nothing goes round there and a child in the
 * main queue has a parent there. In the main queue a child stands before its parent, or the
 * parent has more uses, one for each page of it that stands before the child's: so a head without
 * uses left is a leaf, or what is below it is in the small queue, which then gives the victim. A
 * page goes round three times a use at most: victims are O(1) over time. The core's thread only.
 */
#include "kvd/core/evict_s3fifo.h"

#include "kvd/core/mutant.h"
#include "kvd/core/pool.h"

#define S3FIFO_SMALL 0u
#define S3FIFO_MAIN 1u
#define S3FIFO_SMALL_PARTS 10u /* the share that the paper gives */

static uint32_t order(uint8_t uses)
{
	return uses > 0 ? S3FIFO_MAIN : S3FIFO_SMALL;
}

/*
 * The paper's ghosts are as many as the main queue's pages: about a turn of the pool. The age
 * counts from the last use, so what the block stood here for comes on top: another turn at most.
 */
static uint8_t back(const struct core *core, uint8_t uses, uint32_t age)
{
	return age <= 2 * core->cfg.pages_max;
}

/* Most of what is cached is never asked for again: once is no use. */
static bool store(uint8_t uses)
{
	return uses > 0;
}

static bool takes_small(const struct shelf *shelf)
{
	uint32_t small = shelf->order[S3FIFO_SMALL].count;
	uint32_t all = small + shelf->order[S3FIFO_MAIN].count;

	return small > all / S3FIFO_SMALL_PARTS || small == all;
}

/* Takes the head of the main queue to its end as long as it has uses left. */
static uint32_t main_head(struct core *core, struct page_list *list)
{
	for (;;) {
		uint32_t page = list->head;
		struct node *node = &core->nodes[core->pages[page].node];
		if (node->uses == 1) {
			node->uses -= MUTANT(MAIN_TO_SMALL);
			return page;
		}
		pool_list_remove(core, list, page);
		node->uses--;
		pool_list_append(core, list, page, PAGE_EVICTABLE);
	}
}

static uint32_t victim(struct core *core, struct shelf *shelf)
{
	struct page_list *small = &shelf->order[S3FIFO_SMALL];

	if (takes_small(shelf))
		return small->head;
	uint32_t page = main_head(core, &shelf->order[S3FIFO_MAIN]);
	return evict_leaf(core, page) ? page : small->head;
}

static bool leaf_first(const struct core *core, const struct shelf *shelf)
{
	uint32_t small = shelf->order[S3FIFO_SMALL].head;
	uint32_t main = shelf->order[S3FIFO_MAIN].head;

	if (small != CORE_NONE)
		return evict_leaf(core, small);
	return main == CORE_NONE || core->nodes[core->pages[main].node].uses > 1 ||
	       evict_leaf(core, main);
}

const struct evict_policy evict_s3fifo = {
	.name = "s3fifo",
	.uses_max = 4,
	.order = order,
	.back = back,
	.store = store,
	.victim = victim,
	.leaf_first = leaf_first,
};
