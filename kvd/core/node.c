/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The prefix tree: making and dropping nodes, pins and who is charged for them, publishing and
 * evicting.
 *
 * Invariants: a sealed node has one sealed page for each part, a building or cold node has none. A
 * sealed node's parent is sealed; a building node's is sealed or building. A cold node has no pins,
 * but within a step, and what is below it is cold. Cold nodes stand behind their siblings. pins
 * counts the paths, tails and anchors through the node. A pinned sealed node is charged to at most
 * one session, its holder, as long as that one pins it: who shares what somebody else pays for pays
 * nothing. The core's thread only.
 */
#include "kvd/core/node.h"

#include "kvd/core/arena.h"
#include "kvd/core/copy.h"
#include "kvd/core/evict.h"
#include "kvd/core/mutant.h"
#include "kvd/core/rest.h"
#include "kvd/core/session.h"

#include <string.h>

void node_init(struct core *core)
{
	core->node_free = CORE_NONE;
	for (uint32_t i = core->node_slots; i-- > core->cfg.formats_max;) {
		core->nodes[i].next_sibling = core->node_free;
		core->node_free = i;
	}
}

static void clear(struct node *node)
{
	memset(node, 0, sizeof(*node));
	node->parent = node->tokens = node->extras = node->page = CORE_NONE;
	node->holder = node->builder = node->waiters = CORE_NONE;
	node->first_child = node->last_child = CORE_NONE;
	node->next_sibling = node->prev_sibling = CORE_NONE;
}

void node_root(struct core *core, uint32_t format)
{
	struct node *root = &core->nodes[format];
	const struct format *f = &core->formats[format];

	clear(root);
	root->state = NODE_ROOT;
	root->format = (uint16_t)format;
	index_root(&core->spaces[f->space], f, root->hash);
}

static struct space *space_of(struct core *core, const struct node *node)
{
	return &core->spaces[core->formats[node->format].space];
}

/* Stores what the key points to. False: no room. */
static bool keep_key(struct core *core, struct node *node, const struct index_key *key)
{
	node->tokens = arena_alloc(core, core->formats[node->format].page_tokens);
	if (node->tokens == CORE_NONE)
		return false;
	memcpy(arena_words(core, node->tokens), key->tokens, key->token_count * sizeof(uint32_t));
	node->valid_tokens = (uint16_t)key->token_count;
	node->extra_count = (uint8_t)key->extra_count;
	memcpy(node->hash, key->hash, sizeof(node->hash));
	if (key->extra_count == 0)
		return true;
	uint32_t words = key->extra_count * INDEX_EXTRA_WORDS;
	node->extras = arena_alloc(core, words);
	if (node->extras == CORE_NONE) {
		arena_free(core, node->tokens);
		return false;
	}
	memcpy(arena_words(core, node->extras), key->extras, words * sizeof(uint32_t));
	return true;
}

static void link_first(struct core *core, uint32_t node)
{
	struct node *n = &core->nodes[node];
	struct node *p = &core->nodes[n->parent];

	n->prev_sibling = CORE_NONE;
	n->next_sibling = p->first_child;
	if (p->first_child != CORE_NONE)
		core->nodes[p->first_child].prev_sibling = node;
	else
		p->last_child = node;
	p->first_child = node;
	p->child_count++;
}

static void link_last(struct core *core, uint32_t node)
{
	struct node *n = &core->nodes[node];
	struct node *p = &core->nodes[n->parent];

	n->next_sibling = CORE_NONE;
	n->prev_sibling = p->last_child;
	if (p->last_child != CORE_NONE)
		core->nodes[p->last_child].next_sibling = node;
	else
		p->first_child = node;
	p->last_child = node;
	p->child_count++;
}

static void unlink_child(struct core *core, uint32_t node)
{
	struct node *n = &core->nodes[node];
	struct node *p = &core->nodes[n->parent];

	if (n->prev_sibling != CORE_NONE)
		core->nodes[n->prev_sibling].next_sibling = n->next_sibling;
	else
		p->first_child = n->next_sibling;
	if (n->next_sibling != CORE_NONE)
		core->nodes[n->next_sibling].prev_sibling = n->prev_sibling;
	else
		p->last_child = n->prev_sibling;
	p->child_count--;
}

static uint32_t try_new(struct core *core, uint32_t parent, const struct index_key *key,
			uint8_t flags)
{
	uint32_t node = core->node_free;

	if (node == CORE_NONE)
		return CORE_NONE;
	struct node *n = &core->nodes[node];
	uint32_t next_free = n->next_sibling;
	clear(n);
	n->next_sibling = next_free;
	n->format = core->nodes[parent].format;
	if (!keep_key(core, n, key))
		return CORE_NONE;
	core->node_free = next_free;
	n->next_sibling = CORE_NONE;
	n->parent = parent;
	n->depth = core->nodes[parent].depth + 1;
	n->state = NODE_BUILDING;
	n->flags = flags;
	n->last_used_ns = core->now_ns;
	rest_clear(core, node);
	link_first(core, node);
	if (!(flags & NODE_PARTIAL))
		index_insert(core, node);
	core->node_count++;
	space_of(core, n)->nodes++;
	return node;
}

uint32_t node_new(struct core *core, uint32_t parent, const struct index_key *key, uint8_t flags)
{
	uint32_t node = try_new(core, parent, key, flags);

	/* Cold ones first: with the record of one that is warm its pages would go, too. */
	if (node == CORE_NONE && rest_make_room(core))
		node = try_new(core, parent, key, flags);
	/* The index is one for all devices: any node will do. */
	if (node == CORE_NONE &&
	    evict_any(core, core->formats[core->nodes[parent].format].space, UINT32_MAX)) {
		node = try_new(core, parent, key, flags);
		/* It may lie in a tier: then its record is still there. */
		if (node == CORE_NONE && rest_make_room(core))
			node = try_new(core, parent, key, flags);
	}
	return node;
}

static void make_cold(struct core *core, uint32_t node)
{
	struct node *n = &core->nodes[node];

	unlink_child(core, node);
	link_last(core, node);
	n->state = NODE_COLD;
	n->builder = CORE_NONE;
}

uint32_t node_found(struct core *core, uint32_t parent, const struct index_key *key, uint8_t uses)
{
	uint32_t node = try_new(core, parent, key, 0);

	if (node == CORE_NONE)
		return CORE_NONE;
	core->nodes[node].uses = BITS_MIN(uses, core->policy->uses_max);
	make_cold(core, node);
	return node;
}

void node_drop(struct core *core, uint32_t node)
{
	struct node *n = &core->nodes[node];

	ASSERT(n->first_child == CORE_NONE && n->pins == 0 && n->page == CORE_NONE);
	ASSERT(n->waiters == CORE_NONE && n->state != NODE_ROOT);
	rest_forget(core, node);
	unlink_child(core, node);
	if (!(n->flags & NODE_PARTIAL))
		index_remove(core, node);
	arena_free(core, n->tokens);
	arena_free(core, n->extras);
	space_of(core, n)->nodes--;
	core->node_count--;
	n->state = NODE_FREE;
	n->next_sibling = core->node_free;
	core->node_free = node;
}

static void charge(struct core *core, const struct node *node, int blocks)
{
	const struct format *format = &core->formats[node->format];

	if (node->state == NODE_SEALED && node->holder != CORE_NONE)
		session_charge_pinned(core, node->holder, format, blocks);
}

static void take_charge(struct core *core, struct node *node, uint32_t session)
{
	if (node->holder == CORE_NONE && session != CORE_NONE) {
		node->holder = session;
		node->holder_pins = 1;
		charge(core, node, 1);
	} else if (node->holder == session && session != CORE_NONE) {
		node->holder_pins++;
		if (MUTANT(DOUBLE_QUOTA))
			charge(core, node, 1);
	}
}

static void drop_charge(struct core *core, struct node *node, uint32_t session)
{
	if (node->holder != session || session == CORE_NONE || --node->holder_pins > 0)
		return;
	charge(core, node, -1);
	node->holder = CORE_NONE;
}

void node_pin(struct core *core, uint32_t node, uint32_t session)
{
	struct node *n = &core->nodes[node];

	if (n->pins++ == 0) {
		rest_busy(core, node);
		if (n->state == NODE_SEALED && !MUTANT(EVICT_PINNED))
			copy_make_busy(core, n);
	}
	n->last_used_ns = core->now_ns;
	take_charge(core, n, session);
}

void node_unpin(struct core *core, uint32_t node, uint32_t session)
{
	struct node *n = &core->nodes[node];

	ASSERT(n->pins > 0);
	drop_charge(core, n, session);
	n->last_used_ns = core->now_ns;
	n->used_at = core->sealed;
	if (--n->pins > 0)
		return;
	if (n->state == NODE_SEALED)
		copy_make_evictable(core, n);
	rest_idle(core, node);
}

void node_recharge(struct core *core, uint32_t node, uint32_t from, uint32_t to)
{
	drop_charge(core, &core->nodes[node], from);
	take_charge(core, &core->nodes[node], to);
}

void node_publish(struct core *core, uint32_t node, const uint32_t *pages, enum state_event event)
{
	struct node *n = &core->nodes[node];

	copy_attach(core, node, pages, event);
	n->state = NODE_SEALED;
	n->builder = CORE_NONE;
	charge(core, n, 1);
	if (rest_any(core, node))
		evict_returned(core, n);
	else
		evict_made(core, n);
	if (n->pins == 0)
		copy_make_evictable(core, n);
}

/* --- the end of nodes ------------------------------------------------------------------------- */

/* All below the node are cold; they go, leaves first, and it stays. */
static void drop_below(struct core *core, uint32_t node)
{
	uint32_t at = node;

	while (core->nodes[node].first_child != CORE_NONE) {
		while (core->nodes[at].first_child != CORE_NONE)
			at = core->nodes[at].first_child;
		uint32_t parent = core->nodes[at].parent;
		ASSERT(core->nodes[at].state == NODE_COLD);
		index_ghost_add(core, core->nodes[at].hash, false,
				evict_word(core, &core->nodes[at]));
		node_drop(core, at);
		at = parent;
	}
}

void node_drop_cold(struct core *core, uint32_t node)
{
	struct node *n = &core->nodes[node];

	ASSERT(n->state == NODE_COLD);
	drop_below(core, node);
	index_ghost_add(core, n->hash, false, evict_word(core, n));
	node_drop(core, node);
}

void node_abandon(struct core *core, uint32_t node, bool quarantined)
{
	struct node *n = &core->nodes[node];

	if (rest_any(core, node)) {
		make_cold(core, node);
		return;
	}
	drop_below(core, node);
	index_ghost_add(core, n->hash, quarantined, 0);
	node_drop(core, node);
}

void node_revive(struct core *core, uint32_t node, uint32_t builder)
{
	struct node *n = &core->nodes[node];

	ASSERT(n->state == NODE_COLD && n->pins > 0);
	n->state = NODE_BUILDING;
	n->builder = builder;
	unlink_child(core, node);
	link_first(core, node);
}

static bool has_warm_child(const struct core *core, const struct node *node)
{
	return node->first_child != CORE_NONE && core->nodes[node->first_child].state != NODE_COLD;
}

void node_evict(struct core *core, uint32_t node)
{
	struct node *n = &core->nodes[node];
	uint32_t parts = core->formats[n->format].part_count;

	ASSERT(n->state == NODE_SEALED && !has_warm_child(core, n));
	if (rest_any(core, node)) {
		core->counters[KVD_C_DEMOTED_PAGES] += parts;
		copy_free(core, n, STATE_DEMOTE);
		rest_unqueue_all(core, node);
		make_cold(core, node);
		return;
	}
	drop_below(core, node);
	if (!(n->flags & NODE_PARTIAL)) {
		index_ghost_add(core, n->hash, false, evict_word(core, n));
		core->counters[KVD_C_UNSTORED_BLOCKS] += rest_unstored(core, node);
	}
	space_of(core, n)->evicted_pages += parts;
	core->counters[KVD_C_EVICTED_PAGES] += parts;
	copy_free(core, n, STATE_EVICT);
	node_drop(core, node);
}

uint32_t node_evict_below(struct core *core, uint32_t node)
{
	uint32_t parts = core->formats[core->nodes[node].format].part_count;
	uint32_t pages = 0;
	uint32_t at = node;

	for (;;) {
		while (has_warm_child(core, &core->nodes[at]))
			at = core->nodes[at].first_child;
		uint32_t parent = core->nodes[at].parent;
		node_evict(core, at);
		pages += parts;
		if (at == node)
			return pages;
		at = parent;
	}
}

uint32_t node_at_depth(const struct core *core, uint32_t node, uint32_t depth)
{
	while (core->nodes[node].depth > depth)
		node = core->nodes[node].parent;
	return node;
}
