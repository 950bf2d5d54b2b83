/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Followers and heirs.
 *
 * Invariants: the unsealed nodes of a path are its end. Each building node has a builder, a live
 * lease (or one in a ticket) whose path runs through it. A lease whose first unsealed node is
 * built by another stands in that node's list of waiters, and is told when it is sealed. A lease
 * that is made a builder without having pages for it has been CALLed. What is loaded has a builder
 * like any other: the lease of its haul, which inherits nothing. The core's thread only.
 */
#include "kvd/core/follow.h"

#include "kvd/core/block.h"
#include "kvd/core/haul.h"
#include "kvd/core/lease.h"
#include "kvd/core/mutant.h"
#include "kvd/core/node.h"

static void stop_waiting(struct core *core, uint32_t lease)
{
	struct lease *l = &core->leases[lease];

	if (l->waits_at == CORE_NONE)
		return;
	if (l->wait_prev != CORE_NONE)
		core->leases[l->wait_prev].wait_next = l->wait_next;
	else
		core->nodes[l->waits_at].waiters = l->wait_next;
	if (l->wait_next != CORE_NONE)
		core->leases[l->wait_next].wait_prev = l->wait_prev;
	l->waits_at = l->wait_next = l->wait_prev = CORE_NONE;
}

static void wait_at(struct core *core, uint32_t lease, uint32_t node)
{
	struct lease *l = &core->leases[lease];
	struct node *n = &core->nodes[node];

	l->waits_at = node;
	l->wait_prev = CORE_NONE;
	l->wait_next = n->waiters;
	if (n->waiters != CORE_NONE)
		core->leases[n->waiters].wait_prev = lease;
	n->waiters = lease;
}

static uint32_t search_edge(const struct core *core, const struct lease *l)
{
	uint32_t found = CORE_NONE;

	for (uint32_t n = l->last; core->nodes[n].state == NODE_BUILDING; n = core->nodes[n].parent)
		found = n;
	return found;
}

/*
 * Brings l->edge up to date: the shallowest unsealed node of the path, or CORE_NONE. Where the path
 * does not fork, the next one is the only child: a long path is not searched for each block.
 */
static uint32_t find_edge(const struct core *core, struct lease *l)
{
	const struct node *nodes = core->nodes;

	if (l->edge == CORE_NONE)
		return l->edge = search_edge(core, l);
	while (nodes[l->edge].state == NODE_SEALED) {
		if (l->edge == l->last)
			return l->edge = CORE_NONE;
		if (nodes[l->edge].child_count != 1)
			return l->edge = search_edge(core, l);
		l->edge = nodes[l->edge].first_child;
	}
	return l->edge;
}

void follow_advance(struct core *core, uint32_t lease)
{
	struct lease *l = &core->leases[lease];
	uint32_t node = find_edge(core, l);

	stop_waiting(core, lease);
	l->ready = node == CORE_NONE ? core->nodes[l->last].depth : core->nodes[node].depth - 1;
	if (l->row_state == KVD_LEASE_CALL && node == CORE_NONE)
		l->row_state = KVD_LEASE_OK;
	if (node != CORE_NONE && core->nodes[node].builder != lease)
		wait_at(core, lease, node);
	if (machine_is_haul(core, lease)) {
		machine_haul(core, lease)->advanced = true;
		return;
	}
	block_count_kept(core, lease);
	lease_show(core, lease);
}

void follow_sealed(struct core *core, uint32_t node, uint32_t lease, uint32_t builder)
{
	uint32_t waiter;

	if (builder != CORE_NONE && builder != lease)
		follow_advance(core, builder);
	if (MUTANT(LATE_READY))
		return;
	while ((waiter = core->nodes[node].waiters) != CORE_NONE)
		follow_advance(core, waiter);
}

uint32_t follow_first_built(const struct core *core, uint32_t lease)
{
	uint32_t found = core->nodes[core->leases[lease].last].depth;

	for (uint32_t n = core->leases[lease].last; core->nodes[n].state == NODE_BUILDING;
	     n = core->nodes[n].parent)
		if (core->nodes[n].builder == lease)
			found = core->nodes[n].depth - 1;
	return found;
}

/* --- builders that leave -------------------------------------------------------------------- */

/* May the lease become the builder of the node? Those in tickets only if there is no other. */
static bool can_inherit(const struct core *core, const struct lease *l, uint32_t node)
{
	if ((l->life != LEASE_LIVE && l->life != LEASE_TICKET) ||
	    l->row_state == KVD_LEASE_REVOKED || l->format != core->nodes[node].format)
		return false;
	return core->nodes[l->last].depth >= core->nodes[node].depth &&
	       node_at_depth(core, l->last, core->nodes[node].depth) == node;
}

static uint32_t better_heir(const struct core *core, uint32_t best, uint32_t lease, uint32_t node)
{
	const struct lease *l = &core->leases[lease];

	if (!can_inherit(core, l, node))
		return best;
	const struct lease *b = &core->leases[best == CORE_NONE ? lease : best];
	bool better = l->life < b->life || (l->life == b->life && l->seq < b->seq);
	return best == CORE_NONE || better ? lease : best;
}

/* Whose path runs through the node either waits at its first unsealed ancestor or builds that. */
static uint32_t find_heir(const struct core *core, uint32_t node)
{
	uint32_t first = node;
	uint32_t best = CORE_NONE;

	while (core->nodes[core->nodes[first].parent].state == NODE_BUILDING)
		first = core->nodes[first].parent;
	if (core->nodes[first].builder != CORE_NONE)
		best = better_heir(core, best, core->nodes[first].builder, node);
	for (uint32_t l = core->nodes[first].waiters; l != CORE_NONE; l = core->leases[l].wait_next)
		best = better_heir(core, best, l, node);
	return best;
}

void follow_take_over(struct core *core, uint32_t lease, uint32_t first)
{
	for (uint32_t n = core->leases[lease].last;
	     core->nodes[n].state == NODE_BUILDING && core->nodes[n].depth > first;
	     n = core->nodes[n].parent) {
		uint32_t before = core->nodes[n].builder;
		core->nodes[n].builder = lease;
		if (before != CORE_NONE && before != lease)
			follow_advance(core, before);
	}
}

/* The heir answers for the node and what is unsealed below it on its path. */
static void inherit(struct core *core, uint32_t heir, uint32_t node)
{
	struct lease *l = &core->leases[heir];
	uint32_t first = core->nodes[node].depth - 1;

	follow_take_over(core, heir, first);
	for (uint32_t b = first; b < core->nodes[l->last].depth; b++) {
		if (block_owned(core, heir, b))
			continue;
		if (!MUTANT(LOSE_CALL)) {
			l->row_state = KVD_LEASE_CALL;
			l->event_seq++;
		}
		core->counters[KVD_C_CALLS]++;
		break;
	}
	if (block_owned(core, heir, first))
		l->build_from = BITS_MIN(l->build_from, first);
	follow_advance(core, heir);
}

/* The shallowest unsealed node from `node` up that has no builder, or CORE_NONE. */
static uint32_t first_orphan(const struct core *core, uint32_t node)
{
	uint32_t found = CORE_NONE;

	for (; core->nodes[node].state == NODE_BUILDING; node = core->nodes[node].parent)
		if (core->nodes[node].builder == CORE_NONE)
			found = node;
	return found;
}

/* Nodes from `node` up to its sealed ancestors that have lost their builder get another. */
static void find_heirs(struct core *core, uint32_t node)
{
	uint32_t orphan;

	if (MUTANT(LOSE_HEIR))
		return;
	while ((orphan = first_orphan(core, node)) != CORE_NONE) {
		uint32_t heir = find_heir(core, orphan);
		if (heir == CORE_NONE) {
			/* Only what is loaded below it needs it, and nobody needs that any more. */
			haul_end_through(core, orphan);
			return;
		}
		inherit(core, heir, orphan);
	}
}

void follow_give_up(struct core *core, uint32_t lease, uint32_t depth)
{
	struct lease *l = &core->leases[lease];
	uint32_t orphan = CORE_NONE;

	stop_waiting(core, lease);
	l->edge = CORE_NONE;
	if (core->nodes[l->last].state == NODE_BUILDING && core->nodes[l->last].depth > depth)
		l->kept = 0; /* counted anew from the end of the shorter path */
	while (core->nodes[l->last].state == NODE_BUILDING && core->nodes[l->last].depth > depth) {
		uint32_t node = l->last;
		struct node *n = &core->nodes[node];
		l->last = n->parent;
		node_unpin(core, node, l->session);
		if (n->pins == 0) {
			node_abandon(core, node, l->group != CORE_NONE);
			continue;
		}
		if (n->builder == lease)
			n->builder = CORE_NONE;
		orphan = orphan == CORE_NONE ? node : orphan;
	}
	l->private_only = true;
	if (orphan != CORE_NONE)
		find_heirs(core, orphan);
}

void follow_leave(struct core *core, uint32_t lease)
{
	struct lease *l = &core->leases[lease];

	follow_give_up(core, lease, l->ready);
	stop_waiting(core, lease);
}
