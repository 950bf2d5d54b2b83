/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies: the links between nodes and the pages that hold them, and pages in quarantine.
 *
 * Invariants: node.page is the page of part 0, next_part leads to the others in order. The pages
 * of a node are sealed, and in the eviction order exactly when the node has no pins. A page in
 * quarantine is in the list of the group whose ranks may still write it. The core's thread only.
 */
#include "kvd/core/copy.h"

#include "kvd/core/mutant.h"
#include "kvd/core/pool.h"

void copy_attach(struct core *core, uint32_t node, const uint32_t *pages, enum state_event event)
{
	struct node *n = &core->nodes[node];
	uint32_t part_count = core->formats[n->format].part_count;

	ASSERT_DEBUG(n->page == CORE_NONE);
	for (uint32_t part = part_count; part-- > 0;) {
		struct page *p = &core->pages[pages[part]];
		state_change(core, pages[part], event);
		p->node = node;
		p->part = (uint8_t)part;
		p->lease = CORE_NONE;
		p->next_part = n->page;
		n->page = pages[part];
	}
}

void copy_free(struct core *core, struct node *node, enum state_event event)
{
	uint32_t next;

	for (uint32_t page = node->page; page != CORE_NONE; page = next) {
		next = core->pages[page].next_part;
		pool_make_busy(core, page);
		core->pages[page].node = CORE_NONE;
		pool_free(core, page, event);
	}
	node->page = CORE_NONE;
}

void copy_make_evictable(struct core *core, const struct node *node)
{
	for (uint32_t p = node->page; p != CORE_NONE; p = core->pages[p].next_part)
		pool_make_evictable(core, p);
}

void copy_make_busy(struct core *core, const struct node *node)
{
	for (uint32_t p = node->page; p != CORE_NONE; p = core->pages[p].next_part)
		pool_make_busy(core, p);
}

void copy_handles(const struct core *core, const struct node *node, uint32_t part_count,
		  struct kvd_handle *out)
{
	uint32_t page = node->page;

	for (uint32_t part = 0; part < part_count; part++) {
		if (page == CORE_NONE) {
			out[part] = (struct kvd_handle){.page = KVD_PAGE_NONE};
			continue;
		}
		out[part] = pool_handle(core, page);
		page = core->pages[page].next_part;
	}
}

void copy_quarantine(struct core *core, uint32_t page, uint32_t group)
{
	struct page *p = &core->pages[page];

	state_change(core, page, STATE_BREAK);
	p->lease = CORE_NONE;
	p->owner = group;
	pool_list_append(core, &core->groups[group].quarantine, page, PAGE_QUARANTINE);
	core->counters[KVD_C_QUARANTINED_PAGES]++;
}

void copy_release_quarantine(struct core *core, uint32_t group)
{
	struct group *g = &core->groups[group];
	enum state_event event = g->quiesced ? STATE_QUIESCED : STATE_PROVEN;

	while (g->quarantine.head != CORE_NONE && core->budget > 0) {
		uint32_t page = g->quarantine.head;
		pool_list_remove(core, &g->quarantine, page);
		pool_free(core, page, event);
		core->budget--;
	}
}
