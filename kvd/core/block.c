/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of a lease by block. The lists `own` and `private_pages` are in order of block and part,
 * and work goes through a sequence in order, so what is looked for is near what was found last.
 *
 * Invariants: an open page in `own` carries the lease's tag and its block; all parts of a block are
 * there or none. What a lease has of its own for a block is what its client is told, even where a
 * node has come to be sealed with somebody else's page: the client may be writing there. The
 * core's thread only.
 */
#include "kvd/core/block.h"

#include "kvd/core/admit.h"
#include "kvd/core/copy.h"
#include "kvd/core/node.h"
#include "kvd/core/pool.h"
#include "kvd/core/session.h"

void block_tag(struct core *core, uint32_t lease, uint32_t block, uint32_t part, uint32_t page)
{
	struct lease *l = &core->leases[lease];
	struct page *p = &core->pages[page];

	p->lease = lease;
	p->block = block;
	p->part = (uint8_t)part;
	p->owner = CORE_NONE;
	pool_list_insert(core, &l->own, page, PAGE_OWN);
	session_charge_open(core, l->session, page, 1);
}

void block_take(struct core *core, uint32_t lease, uint32_t block)
{
	const struct format *format = &core->formats[core->leases[lease].format];

	for (uint32_t part = 0; part < format->part_count; part++)
		block_tag(core, lease, block, part,
			  admit_take_page(core, format, part, STATE_TAKE));
	admit_taken(core, lease);
}

bool block_owned(const struct core *core, uint32_t lease, uint32_t block)
{
	return pool_list_find(core, &core->leases[lease].own, block) != CORE_NONE;
}

bool block_matches(const struct core *core, uint32_t lease, uint32_t block,
		   const struct kvd_handle *handles)
{
	uint32_t page = pool_list_find(core, &core->leases[lease].own, block);
	uint32_t part = 0;

	for (; page != CORE_NONE && core->pages[page].block == block;
	     page = core->pages[page].next, part++)
		if (handles[part].page != page ||
		    handles[part].generation != core->pages[page].generation)
			return false;
	return part > 0;
}

bool block_pull(struct core *core, uint32_t lease, uint32_t block, uint32_t *out_pages)
{
	struct lease *l = &core->leases[lease];
	uint32_t page = pool_list_find(core, &l->own, block);

	if (page == CORE_NONE)
		return false;
	while (page != CORE_NONE && core->pages[page].block == block) {
		uint32_t next = core->pages[page].next;
		pool_list_remove(core, &l->own, page);
		session_charge_open(core, l->session, page, -1);
		out_pages[core->pages[page].part] = page;
		page = next;
	}
	return true;
}

void block_keep(struct core *core, uint32_t lease, uint32_t block, const uint32_t *pages)
{
	struct lease *l = &core->leases[lease];

	for (uint32_t part = 0; part < core->formats[l->format].part_count; part++) {
		state_change(core, pages[part], STATE_KEEP);
		pool_list_insert(core, &l->private_pages, pages[part], PAGE_KEPT);
		session_charge_private(core, l->session, pages[part], 1);
	}
	core->counters[KVD_C_KEPT_BLOCKS]++;
}

bool block_hidden(const struct core *core, uint32_t lease, uint32_t block)
{
	uint32_t page = pool_list_find(core, &core->leases[lease].own, block);

	return page != CORE_NONE && !core->pages[page].shown;
}

void block_drop(struct core *core, uint32_t lease, uint32_t block)
{
	uint32_t pages[KVD_PARTS_MAX];

	if (!block_pull(core, lease, block, pages))
		return;
	for (uint32_t part = 0; part < core->formats[core->leases[lease].format].part_count; part++)
		pool_free(core, pages[part], STATE_RELEASE);
}

void block_count_kept(struct core *core, uint32_t lease)
{
	struct lease *l = &core->leases[lease];
	uint32_t block = BITS_MAX(core->nodes[l->last].depth, l->shared) + l->kept;
	uint32_t page;

	while ((page = pool_list_find(core, &l->private_pages, block)) != CORE_NONE) {
		l->kept++;
		block++;
	}
}

/* --- handles -------------------------------------------------------------------------------- */

static void fill_list(struct core *core, const struct page_list *list, uint32_t first, uint32_t end,
		      uint32_t part_count, uint32_t base, struct kvd_handle *out)
{
	for (uint32_t page = list->head; page != CORE_NONE; page = core->pages[page].next) {
		struct page *p = &core->pages[page];
		if (p->block >= end)
			return;
		if (p->block < first)
			continue;
		out[(p->block - base) * part_count + p->part] = pool_handle(core, page);
		p->shown = 1;
	}
}

static void fill_path(const struct core *core, uint32_t last, uint32_t first, uint32_t end,
		      uint32_t part_count, struct kvd_handle *out)
{
	for (uint32_t n = node_at_depth(core, last, end); core->nodes[n].depth > first;
	     n = core->nodes[n].parent)
		copy_handles(core, &core->nodes[n], part_count,
			     out + (core->nodes[n].depth - 1 - first) * part_count);
}

/* The private blocks of parents: each fork reads its parent's below what they shared then. */
static void fill_shared(struct core *core, uint32_t lease, uint32_t first, uint32_t end,
			uint32_t part_count, uint32_t base, struct kvd_handle *out)
{
	for (const struct lease *l = &core->leases[lease]; l->parent != CORE_NONE;
	     l = &core->leases[l->parent]) {
		end = BITS_MIN(end, l->shared);
		fill_list(core, &core->leases[l->parent].private_pages, first, end, part_count,
			  base, out);
	}
}

void block_handles(struct core *core, uint32_t lease, uint32_t first, uint32_t count,
		   struct kvd_handle *out)
{
	struct lease *l = &core->leases[lease];
	uint32_t part_count = core->formats[l->format].part_count;
	uint32_t depth = core->nodes[l->last].depth;
	uint32_t end = first + count;

	for (uint32_t i = BITS_MIN(BITS_MAX(depth, first), end) - first; i < count; i++)
		for (uint32_t part = 0; part < part_count; part++)
			out[i * part_count + part] = (struct kvd_handle){.page = KVD_PAGE_NONE};
	fill_path(core, l->last, first, end, part_count, out);
	if (depth < end)
		fill_shared(core, lease, BITS_MAX(first, depth), end, part_count, first, out);
	fill_list(core, &l->private_pages, first, end, part_count, first, out);
	fill_list(core, &l->own, first, end, part_count, first, out);
}
