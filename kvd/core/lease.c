/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases: records, rows, and their end.
 *
 * Invariants: a live lease has one row of its session's table; row generations only grow. A lease
 * that ends has given its unsealed nodes away before (follow.c), so what is left are sealed nodes,
 * unpinned from the deepest up, and its own pages: those that a broken process may still write go
 * to its quarantine. A parent is kept until its last fork is gone, since forks read its private
 * pages and its live tail. The core's thread only.
 */
#include "kvd/core/lease.h"

#include "kvd/core/admit.h"
#include "kvd/core/arena.h"
#include "kvd/core/copy.h"
#include "kvd/core/follow.h"
#include "kvd/core/group.h"
#include "kvd/core/mutant.h"
#include "kvd/core/node.h"
#include "kvd/core/pool.h"
#include "kvd/core/session.h"
#include "kvd/core/space.h"

#include <errno.h>

void lease_init(struct core *core)
{
	core->dying_head = core->dying_tail = CORE_NONE;
	core->lease_free = CORE_NONE;
	for (uint32_t i = core->cfg.leases_max; i-- > 0;) {
		core->leases[i].next = core->lease_free;
		core->lease_free = i;
	}
}

void lease_reset(struct core *core, uint32_t lease, enum lease_life life, uint32_t session,
		 uint32_t format)
{
	struct lease *l = &core->leases[lease];

	*l = (struct lease){
		.life = life,
		.session = session,
		.format = format,
		.seq = ++core->lease_seq,
		.last = format,
		.edge = CORE_NONE,
		.open_tokens = CORE_NONE,
		.open_extras = CORE_NONE,
		.tail = CORE_NONE,
		.parent = CORE_NONE,
		.waits_at = CORE_NONE,
		.wait_next = CORE_NONE,
		.wait_prev = CORE_NONE,
		.next = CORE_NONE,
		.prev = CORE_NONE,
		.group = CORE_NONE,
		.row_state = KVD_LEASE_OK,
	};
	pool_list_init(&l->own);
	pool_list_init(&l->private_pages);
}

uint32_t lease_new(struct core *core, uint32_t session, uint32_t format)
{
	uint32_t lease = core->lease_free;

	if (lease == CORE_NONE)
		return CORE_NONE;
	core->lease_free = core->leases[lease].next;
	lease_reset(core, lease, LEASE_NEW, session, format);
	core->lease_count++;
	core->spaces[core->formats[format].space].leases++;
	return lease;
}

bool lease_room(const struct core *core, uint32_t session)
{
	const struct session *s = &core->sessions[session];

	return core->lease_free != CORE_NONE &&
	       core->spaces[s->space].leases < space_part(core, core->cfg.leases_max) &&
	       (s->free_row != CORE_NONE || s->rows_used < s->leases_max);
}

/* --- rows ----------------------------------------------------------------------------------- */

static struct row *row_of(const struct core *core, uint32_t session, uint32_t row)
{
	return &core->rows[(size_t)session * core->rows_max + row];
}

static uint32_t free_row(struct core *core, uint32_t session)
{
	struct session *s = &core->sessions[session];
	uint32_t row = s->free_row;

	if (row != CORE_NONE)
		s->free_row = row_of(core, session, row)->next_free;
	else if (s->rows_used < s->leases_max)
		row = s->rows_used++;
	return row;
}

static void link_lease(struct core *core, uint32_t lease, uint32_t session)
{
	struct session *s = &core->sessions[session];
	struct lease *l = &core->leases[lease];

	l->prev = CORE_NONE;
	l->next = s->leases;
	if (s->leases != CORE_NONE)
		core->leases[s->leases].prev = lease;
	s->leases = lease;
	s->lease_count++;
}

int lease_enter(struct core *core, uint32_t lease, uint32_t session)
{
	struct lease *l = &core->leases[lease];
	uint32_t row = free_row(core, session);

	if (row == CORE_NONE)
		return -ENOSPC;
	struct row *r = row_of(core, session, row);
	if (++r->generation == 0)
		r->generation = 1;
	r->lease = lease;
	l->row = row;
	l->session = session;
	l->life = LEASE_LIVE;
	l->event_seq = 0;
	link_lease(core, lease, session);
	return 0;
}

void lease_leave(struct core *core, uint32_t lease)
{
	struct lease *l = &core->leases[lease];
	struct session *s = &core->sessions[l->session];
	struct row *r = row_of(core, l->session, l->row);
	struct kvd_lease_row gone = {.generation = r->generation, .event_seq = l->event_seq};

	if (l->prev != CORE_NONE)
		core->leases[l->prev].next = l->next;
	else
		s->leases = l->next;
	if (l->next != CORE_NONE)
		core->leases[l->next].prev = l->prev;
	s->lease_count--;
	if (s->open)
		core->ops.lease_row(core->ctx, l->session, l->row, &gone);
	r->lease = CORE_NONE;
	r->next_free = s->free_row;
	s->free_row = l->row;
	l->row = 0;
	l->next = l->prev = CORE_NONE;
}

uint64_t lease_id(const struct core *core, uint32_t lease)
{
	const struct lease *l = &core->leases[lease];

	return KVD_LEASE_ID(l->row, row_of(core, l->session, l->row)->generation);
}

int lease_find(const struct core *core, uint32_t session, uint64_t id, uint32_t *out_lease)
{
	uint32_t row = KVD_LEASE_ROW(id);

	if (row == 0 || row >= core->sessions[session].rows_used)
		return KVD_STALE;
	const struct row *r = row_of(core, session, row);
	if (r->generation != KVD_LEASE_GENERATION(id) || r->lease == CORE_NONE)
		return KVD_STALE;
	*out_lease = r->lease;
	return 0;
}

uint32_t lease_readable(const struct core *core, uint32_t lease)
{
	const struct lease *l = &core->leases[lease];

	if (l->ready < core->nodes[l->last].depth)
		return l->ready;
	return BITS_MAX(l->ready, l->shared) + l->kept;
}

void lease_show(struct core *core, uint32_t lease)
{
	const struct lease *l = &core->leases[lease];

	if (l->life != LEASE_LIVE || !core->sessions[l->session].open)
		return;
	struct kvd_lease_row row = {
		.generation = row_of(core, l->session, l->row)->generation,
		.event_seq = l->event_seq,
		.state = l->row_state,
		.ready_tokens = lease_readable(core, lease) * core->formats[l->format].page_tokens,
	};
	core->ops.lease_row(core->ctx, l->session, l->row, &row);
}

/* --- the end -------------------------------------------------------------------------------- */

static void drop_pages(struct core *core, struct lease *l)
{
	bool quiet =
		l->group == CORE_NONE || !group_unsafe(core, l->group) || MUTANT(FREE_QUARANTINE);
	uint32_t page;

	while ((page = l->own.head) != CORE_NONE && core->budget > 0) {
		pool_list_remove(core, &l->own, page);
		session_charge_open(core, l->session, page, -1);
		if (quiet)
			pool_free(core, page, STATE_RELEASE);
		else
			copy_quarantine(core, page, l->group);
		core->budget--;
	}
	while ((page = l->private_pages.head) != CORE_NONE && core->budget > 0) {
		pool_list_remove(core, &l->private_pages, page);
		session_charge_private(core, l->session, page, -1);
		if (!MUTANT(KEEP_PRIVATE))
			pool_free(core, page, STATE_DROP);
		core->budget--;
	}
}

static void drop_path(struct core *core, struct lease *l)
{
	uint32_t root = l->format;

	while (l->last != root && core->budget > 0) {
		uint32_t node = l->last;
		l->last = core->nodes[node].parent;
		if (!MUTANT(SKIP_UNPIN) || core->nodes[node].depth != l->ready)
			node_unpin(core, node, l->session);
		core->budget--;
	}
}

void lease_drop_tail(struct core *core, uint32_t lease)
{
	struct lease *l = &core->leases[lease];

	if (l->tail != CORE_NONE)
		node_unpin(core, l->tail, l->session);
	l->tail = CORE_NONE;
}

static void start_dying(struct core *core, uint32_t lease)
{
	struct lease *l = &core->leases[lease];

	l->life = LEASE_DYING;
	l->next = CORE_NONE;
	if (core->dying_tail != CORE_NONE)
		core->leases[core->dying_tail].next = lease;
	else
		core->dying_head = lease;
	core->dying_tail = lease;
	if (l->session != CORE_NONE)
		core->sessions[l->session].ending++;
}

static void put_parent(struct core *core, uint32_t parent)
{
	struct lease *p = &core->leases[parent];

	if (--p->forks == 0 && p->life == LEASE_PARENT && !MUTANT(FORK_LEAK))
		start_dying(core, parent);
}

/* All that is left of a lease whose pages and path are gone. */
static void finish(struct core *core, uint32_t lease)
{
	struct lease *l = &core->leases[lease];
	uint32_t session = l->session;

	arena_free(core, l->open_tokens);
	arena_free(core, l->open_extras);
	if (l->parent != CORE_NONE)
		put_parent(core, l->parent);
	if (l->group != CORE_NONE)
		group_put(core, l->group);
	l->life = LEASE_FREE;
	l->next = core->lease_free;
	core->lease_free = lease;
	core->lease_count--;
	core->spaces[core->formats[l->format].space].leases--;
	if (session == CORE_NONE)
		return;
	core->sessions[session].ending--;
	session_finish(core, session);
}

void lease_settle(struct core *core)
{
	while (core->dying_head != CORE_NONE && core->budget > 0) {
		uint32_t lease = core->dying_head;
		struct lease *l = &core->leases[lease];

		lease_drop_tail(core, lease);
		drop_pages(core, l);
		drop_path(core, l);
		if (l->last != l->format || l->own.count || l->private_pages.count)
			return;
		core->dying_head = l->next;
		if (core->dying_head == CORE_NONE)
			core->dying_tail = CORE_NONE;
		finish(core, lease);
	}
}

void lease_free(struct core *core, uint32_t lease)
{
	struct lease *l = &core->leases[lease];

	admit_unpromise(core, lease);
	if (l->forks > 0) {
		lease_recharge(core, lease, CORE_NONE);
		l->life = LEASE_PARENT;
		return;
	}
	start_dying(core, lease);
	lease_settle(core);
}

void lease_abandon(struct core *core, uint32_t lease)
{
	struct lease *l = &core->leases[lease];
	uint32_t budget = core->budget;
	uint32_t retry = core->retry;

	core->budget = UINT32_MAX;
	follow_give_up(core, lease, l->ready);
	lease_drop_tail(core, lease);
	drop_path(core, l);
	core->sessions[l->session].ending++;
	finish(core, lease);
	core->budget = budget;
	core->retry = retry;
}

void lease_end(struct core *core, uint32_t lease)
{
	struct lease *l = &core->leases[lease];
	uint32_t group = core->sessions[l->session].group;

	if (group_unsafe(core, group)) {
		l->group = group;
		group_get(core, group);
	}
	lease_leave(core, lease);
	follow_leave(core, lease);
	lease_free(core, lease);
}

void lease_revoke(struct core *core, uint32_t lease)
{
	struct lease *l = &core->leases[lease];

	l->row_state = KVD_LEASE_REVOKED;
	l->event_seq++;
	follow_leave(core, lease);
	l->private_only = true;
	lease_show(core, lease);
}

void lease_recharge(struct core *core, uint32_t lease, uint32_t to)
{
	struct lease *l = &core->leases[lease];

	for (uint32_t p = l->own.head; p != CORE_NONE; p = core->pages[p].next) {
		session_charge_open(core, l->session, p, -1);
		session_charge_open(core, to, p, 1);
	}
	for (uint32_t p = l->private_pages.head; p != CORE_NONE; p = core->pages[p].next) {
		session_charge_private(core, l->session, p, -1);
		session_charge_private(core, to, p, 1);
	}
	for (uint32_t n = l->last; n != l->format; n = core->nodes[n].parent)
		node_recharge(core, n, l->session, to);
	if (l->tail != CORE_NONE)
		node_recharge(core, l->tail, l->session, to);
	l->session = to;
}
