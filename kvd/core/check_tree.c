/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check of the prefix tree: links, chains that are whole, the hash table, pages of nodes,
 * token memory, and pins counted from all that pins. The core's thread only.
 */
#include "kvd/core/check_tree.h"

#include "kvd/core/arena.h"
#include "kvd/core/index.h"
#include "kvd/core/node.h"

static bool used(const struct node *n)
{
	return n->state == NODE_BUILDING || n->state == NODE_SEALED || n->state == NODE_COLD;
}

static void check_links(struct check *c, uint32_t i)
{
	const struct core *core = c->core;
	const struct node *n = &core->nodes[i];
	const struct node *p = &core->nodes[n->parent];

	CHECK(c, n->parent < core->node_slots && p->state != NODE_FREE && p->format == n->format,
	      "node %u: parent %u", i, n->parent);
	CHECK(c, n->depth == p->depth + 1, "node %u: depth %u under %u", i, n->depth, p->depth);
	CHECK(c, n->state != NODE_SEALED || p->state == NODE_SEALED || p->state == NODE_ROOT,
	      "node %u is sealed, its parent %u is not", i, n->parent);
	CHECK(c, n->state != NODE_BUILDING || p->state != NODE_COLD,
	      "node %u is being built, its parent %u is cold", i, n->parent);
	CHECK(c, n->state != NODE_COLD || n->pins == 0, "node %u is cold and has %u pins", i,
	      n->pins);
	CHECK(c,
	      n->state == NODE_COLD || n->prev_sibling == CORE_NONE ||
		      core->nodes[n->prev_sibling].state != NODE_COLD,
	      "node %u stands behind a cold one", i);
	CHECK(c, p->pins >= n->pins || p->state == NODE_ROOT, "node %u has %u pins, its parent %u",
	      i, n->pins, p->pins);
	CHECK(c,
	      n->prev_sibling == CORE_NONE ? p->first_child == i
					   : core->nodes[n->prev_sibling].next_sibling == i,
	      "node %u is not linked to its siblings", i);
	CHECK(c, n->state != NODE_SEALED || p->state == NODE_ROOT || n->uses <= p->uses,
	      "node %u counts %u uses, its parent %u", i, n->uses, p->uses);
	CHECK(c, n->state != NODE_BUILDING || n->pins > 0, "node %u: nobody builds it", i);
	CHECK(c, !(n->flags & NODE_PARTIAL) || n->first_child == CORE_NONE,
	      "node %u is partial and has children", i);
}

static void check_children(struct check *c, uint32_t i)
{
	const struct core *core = c->core;
	uint32_t count = 0;

	uint32_t last = CORE_NONE;

	for (uint32_t n = core->nodes[i].first_child; n != CORE_NONE && count <= core->node_count;
	     n = core->nodes[n].next_sibling, count++) {
		CHECK(c, core->nodes[n].parent == i && used(&core->nodes[n]),
		      "node %u is listed under %u", n, i);
		last = n;
	}
	CHECK(c, last == core->nodes[i].last_child, "node %u: last child %u, not %u", i,
	      core->nodes[i].last_child, last);
	CHECK(c, count == core->nodes[i].child_count, "node %u: %u children, counted %u", i,
	      core->nodes[i].child_count, count);
}

static void check_node_pages(struct check *c, uint32_t i)
{
	const struct core *core = c->core;
	const struct node *n = &core->nodes[i];
	const struct format *f = &core->formats[n->format];
	uint32_t part = 0;

	CHECK(c, n->state == NODE_SEALED || n->page == CORE_NONE, "node %u: pages while building",
	      i);
	for (uint32_t page = n->page; page != CORE_NONE; page = core->pages[page].next_part) {
		const struct page *p = &core->pages[page];
		CHECK(c, p->node == i && p->part == part && part < f->part_count,
		      "page %u is not part %u of node %u", page, part, i);
		const struct slab *s = &core->slabs[p->slab];
		CHECK(c, s->space == f->space && s->geometry == f->geometry[part],
		      "page %u of node %u is in slab %u", page, i, p->slab);
		part++;
	}
	CHECK(c, n->state != NODE_SEALED || part == f->part_count, "node %u has %u pages", i, part);
}

static bool in_table(const struct core *core, uint32_t node)
{
	uint32_t i = (uint32_t)core->nodes[node].hash[0] & core->index_mask;

	for (; core->index[i].node != CORE_NONE; i = (i + 1) & core->index_mask)
		if (core->index[i].node == node)
			return true;
	return false;
}

static void check_builder(struct check *c, uint32_t i)
{
	const struct core *core = c->core;
	uint32_t b = core->nodes[i].builder;

	if (core->nodes[i].state != NODE_BUILDING) {
		CHECK(c, core->nodes[i].waiters == CORE_NONE, "node %u: waiters, and sealed", i);
		return;
	}
	CHECK(c, b < core->lease_slots, "node %u has no builder", i);
	const struct lease *l = &core->leases[b];
	CHECK(c,
	      l->life == LEASE_LIVE || l->life == LEASE_TICKET ||
		      (machine_is_haul(core, b) && l->life == LEASE_HAUL),
	      "node %u: builder %u has gone", i, b);
	CHECK(c,
	      core->nodes[l->last].depth >= core->nodes[i].depth &&
		      node_at_depth(core, l->last, core->nodes[i].depth) == i,
	      "node %u is not on the path of its builder %u", i, b);
}

void check_tree_nodes(struct check *c)
{
	const struct core *core = c->core;
	uint32_t count = 0;
	uint32_t full = 0;
	uint32_t slots = 0;

	for (uint32_t i = 0; i < core->node_slots && !c->failed; i++) {
		const struct node *n = &core->nodes[i];
		if (n->state == NODE_FREE)
			continue;
		check_children(c, i);
		if (!used(n))
			continue;
		count++;
		check_links(c, i);
		check_node_pages(c, i);
		check_builder(c, i);
		if (n->flags & NODE_PARTIAL)
			continue;
		full++;
		CHECK(c, in_table(core, i), "node %u is not in the hash table", i);
	}
	for (uint64_t i = 0; i <= core->index_mask; i++)
		slots += core->index[i].node != CORE_NONE;
	CHECK(c, count == core->node_count, "%u nodes, counted %u", core->node_count, count);
	CHECK(c, slots == full, "%u slots for %u nodes", slots, full);
}

/* --- pins ----------------------------------------------------------------------------------- */

static void count_path(const struct core *core, uint32_t node)
{
	for (; used(&core->nodes[node]); node = core->nodes[node].parent)
		core->check_counts[node]++;
}

static void check_anchors(struct check *c)
{
	const struct core *core = c->core;

	for (uint32_t i = 0; i < core->node_slots; i++)
		core->check_counts[i] = 0;
	for (uint32_t i = 0; i < core->node_slots; i++)
		if (used(&core->nodes[i]) && (core->nodes[i].flags & NODE_ANCHOR))
			count_path(core, i);
	for (uint32_t i = 0; i < core->node_slots; i++)
		CHECK(c, !used(&core->nodes[i]) || core->nodes[i].anchors == core->check_counts[i],
		      "node %u: %u anchors, counted %u", i, core->nodes[i].anchors,
		      core->check_counts[i]);
}

void check_tree_pins(struct check *c)
{
	const struct core *core = c->core;
	uint64_t words = 0;

	check_anchors(c);
	for (uint32_t i = 0; i < core->lease_slots; i++) {
		const struct lease *l = &core->leases[i];
		if (l->life == LEASE_FREE)
			continue;
		count_path(core, l->last);
		if (l->tail != CORE_NONE)
			core->check_counts[l->tail]++;
		CHECK(c, l->tail == CORE_NONE || used(&core->nodes[l->tail]), "lease %u: tail %u",
		      i, l->tail);
	}
	for (uint32_t i = 0; i < core->node_slots; i++)
		CHECK(c, !used(&core->nodes[i]) || core->nodes[i].pins == core->check_counts[i],
		      "node %u: %u pins, counted %u", i, core->nodes[i].pins,
		      core->check_counts[i]);
	for (uint32_t i = 0; i < core->chunk_count; i++)
		if (core->chunks[i].taken)
			words += (uint64_t)__builtin_popcount(core->chunks[i].used) * 16
				 << core->chunks[i].size_class;
	CHECK(c, words == core->arena_tokens, "arena of %llu tokens, counted %llu",
	      (unsigned long long)core->arena_tokens, (unsigned long long)words);
}
