/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check of users: leases and their pages, rows, forks, what sessions are charged, magazines,
 * quarantine, namespaces, and the queue. The core's thread only.
 */
#include "kvd/core/check_users.h"

#include "kvd/core/lease.h"
#include "kvd/core/node.h"
#include "kvd/core/session.h"
#include "kvd/core/space.h"

static void check_list(struct check *c, const struct page_list *list, enum page_list_id id,
		       uint32_t lease)
{
	const struct core *core = c->core;
	uint32_t count = 0;
	uint64_t last = 0;

	for (uint32_t p = list->head; p != CORE_NONE && count <= core->cfg.pages_max;
	     p = core->pages[p].next, count++) {
		const struct page *page = &core->pages[p];
		uint64_t place = ((uint64_t)page->block << 8 | page->part) + 1;
		CHECK(c, page->list == id && page->lease == lease,
		      "page %u in list %u of lease %u, should be in %u of %u", p, id, lease,
		      page->list, page->lease);
		CHECK(c, place > last, "page %u of lease %u: block %u out of order", p, lease,
		      page->block);
		last = place;
	}
	CHECK(c, count == list->count, "lease %u: list %u of %u pages, counted %u", lease, id,
	      list->count, count);
	CHECK(c,
	      list->finger == CORE_NONE || (core->pages[list->finger].list == id &&
					    core->pages[list->finger].lease == lease),
	      "lease %u: list %u has its finger on page %u", lease, id, list->finger);
}

static void check_path(struct check *c, uint32_t i)
{
	const struct core *core = c->core;
	const struct lease *l = &core->leases[i];
	uint32_t depth = core->nodes[l->last].depth;
	uint32_t unsealed = CORE_NONE;

	CHECK(c, core->nodes[l->last].state != NODE_FREE, "lease %u ends at a free node", i);
	for (uint32_t n = l->last; core->nodes[n].state == NODE_BUILDING; n = core->nodes[n].parent)
		unsealed = n;
	if (l->life == LEASE_DYING)
		return;
	uint32_t ready = unsealed == CORE_NONE ? depth : core->nodes[unsealed].depth - 1;
	CHECK(c, l->ready == ready, "lease %u: ready %u, counted %u", i, l->ready, ready);
	CHECK(c, unsealed == CORE_NONE || l->edge == unsealed, "lease %u: edge %u, should be %u", i,
	      l->edge, unsealed);
	bool waits = unsealed != CORE_NONE && core->nodes[unsealed].builder != i;
	CHECK(c, l->waits_at == (waits ? unsealed : CORE_NONE), "lease %u waits at %u, not %u", i,
	      l->waits_at, waits ? unsealed : CORE_NONE);
	CHECK(c,
	      l->life == LEASE_LIVE || l->life == LEASE_TICKET || l->life == LEASE_HAUL ||
		      unsealed == CORE_NONE,
	      "lease %u has ended and has nodes to build", i);
	CHECK(c, l->open_count <= core->formats[l->format].page_tokens, "lease %u: %u open tokens",
	      i, l->open_count);
}

static void check_forks(struct check *c, uint32_t i)
{
	const struct core *core = c->core;
	uint32_t forks = 0;

	for (uint32_t k = 0; k < core->cfg.leases_max; k++)
		forks += core->leases[k].life != LEASE_FREE && core->leases[k].parent == i;
	CHECK(c, forks == core->leases[i].forks, "lease %u: %u forks, counted %u", i,
	      core->leases[i].forks, forks);
	CHECK(c, core->leases[i].life != LEASE_PARENT || forks > 0,
	      "lease %u is the parent of nobody", i);
}

static void check_row(struct check *c, uint32_t i)
{
	const struct core *core = c->core;
	const struct lease *l = &core->leases[i];
	uint32_t found;

	CHECK(c, l->session < core->cfg.sessions_max && core->sessions[l->session].open,
	      "lease %u is in no session", i);
	CHECK(c, lease_find(core, l->session, lease_id(core, i), &found) == 0 && found == i,
	      "lease %u is not in its row", i);
}

void check_users_leases(struct check *c)
{
	const struct core *core = c->core;
	uint32_t count = 0;
	uint32_t tickets = 0;

	for (uint32_t i = 0; i < core->cfg.leases_max && !c->failed; i++) {
		const struct lease *l = &core->leases[i];
		if (l->life == LEASE_FREE)
			continue;
		count++;
		tickets += l->life == LEASE_TICKET;
		CHECK(c, l->life != LEASE_NEW, "lease %u was never admitted", i);
		CHECK(c, l->promised_blocks == 0 || l->life == LEASE_LIVE,
		      "lease %u has ended and is promised %u blocks", i, l->promised_blocks);
		check_list(c, &l->own, PAGE_OWN, i);
		check_list(c, &l->private_pages, PAGE_KEPT, i);
		check_path(c, i);
		check_forks(c, i);
		if (l->life == LEASE_LIVE)
			check_row(c, i);
	}
	for (uint32_t i = core->cfg.leases_max; i < core->lease_slots && !c->failed; i++)
		if (core->leases[i].life == LEASE_HAUL &&
		    machine_haul(core, i)->kind == HAUL_LOAD && core->leases[i].own.count > 0) {
			check_list(c, &core->leases[i].own, PAGE_OWN, i);
			check_path(c, i);
		}
	CHECK(c, count == core->lease_count && tickets == core->ticket_count,
	      "%u leases, counted %u; %u tickets, counted %u", core->lease_count, count,
	      core->ticket_count, tickets);
}

/* --- sessions ------------------------------------------------------------------------------- */

struct held {
	uint64_t bytes[KVD_DEVICES_MAX];
	uint64_t open;
	uint64_t private_pages;
	uint64_t pinned;
	uint32_t leases;
	uint32_t ending;
};

static void count_pages(const struct core *core, uint32_t session, struct held *h)
{
	for (uint32_t i = 0; i < core->cfg.pages_max; i++) {
		const struct page *p = &core->pages[i];
		if ((p->list != PAGE_OWN && p->list != PAGE_KEPT) ||
		    core->leases[p->lease].session != session)
			continue;
		h->open += p->list == PAGE_OWN;
		h->private_pages += p->list == PAGE_KEPT;
		h->bytes[machine_device(core, i)] += machine_stride(core, i);
	}
}

static void count_held(const struct core *core, uint32_t session, struct held *h)
{
	count_pages(core, session, h);
	for (uint32_t i = 0; i < core->node_slots; i++) {
		const struct node *n = &core->nodes[i];
		if (n->state != NODE_SEALED || n->holder != session)
			continue;
		h->pinned += core->formats[n->format].part_count;
		for (uint32_t d = 0; d < core->cfg.device_count; d++)
			h->bytes[d] += core->formats[n->format].device_bytes[d];
	}
	for (uint32_t i = 0; i < core->cfg.leases_max; i++) {
		const struct lease *l = &core->leases[i];
		h->leases += l->life == LEASE_LIVE && l->session == session;
		h->ending += l->life == LEASE_DYING && l->session == session;
	}
}

static void check_session(struct check *c, uint32_t i)
{
	const struct session *s = &c->core->sessions[i];
	struct held h = {0};

	count_held(c->core, i, &h);
	for (uint32_t d = 0; d < KVD_DEVICES_MAX; d++)
		CHECK(c, h.bytes[d] == s->held_bytes[d],
		      "session %u: %llu bytes on device %u, counted %llu", i,
		      (unsigned long long)s->held_bytes[d], d, (unsigned long long)h.bytes[d]);
	CHECK(c,
	      h.open == s->open_pages && h.private_pages == s->private_pages &&
		      h.pinned == s->pinned_pages,
	      "session %u: open %u, private %u, pinned %u", i, s->open_pages, s->private_pages,
	      s->pinned_pages);
	CHECK(c, h.leases == s->lease_count && h.ending == s->ending,
	      "session %u: %u leases, counted %u; %u ending, counted %u", i, s->lease_count,
	      h.leases, s->ending, h.ending);
}

static void check_group(struct check *c, uint32_t g)
{
	const struct core *core = c->core;
	const struct group *group = &core->groups[g];
	uint64_t bytes[KVD_DEVICES_MAX] = {0};
	uint32_t sessions = 0;

	for (uint32_t i = 0; i < core->cfg.sessions_max; i++)
		sessions += core->sessions[i].open && core->sessions[i].group == g;
	for (uint32_t p = group->magazine.head; p != CORE_NONE; p = core->pages[p].next) {
		CHECK(c, core->pages[p].list == PAGE_MAGAZINE && core->pages[p].owner == g,
		      "page %u is in the magazine of group %u", p, g);
		bytes[machine_device(core, p)] += machine_stride(core, p);
	}
	for (uint32_t d = 0; d < KVD_DEVICES_MAX; d++)
		CHECK(c, bytes[d] == group->magazine_bytes[d],
		      "group %u: magazine of %llu bytes on device %u, counted %llu", g,
		      (unsigned long long)group->magazine_bytes[d], d,
		      (unsigned long long)bytes[d]);
	CHECK(c, sessions == group->sessions, "group %u: %u sessions, counted %u", g,
	      group->sessions, sessions);
}

static void check_quarantine(struct check *c, uint32_t g)
{
	const struct core *core = c->core;
	uint32_t count = 0;

	for (uint32_t i = 0; i < core->cfg.pages_max; i++)
		count += core->pages[i].list == PAGE_QUARANTINE && core->pages[i].owner == g;
	CHECK(c, count == core->groups[g].quarantine.count,
	      "group %u: quarantine of %u pages, counted %u", g, core->groups[g].quarantine.count,
	      count);
}

void check_users_sessions(struct check *c)
{
	const struct core *core = c->core;

	for (uint32_t i = 0; i < core->cfg.sessions_max && !c->failed; i++)
		if (core->sessions[i].open || core->sessions[i].closing)
			check_session(c, i);
	for (uint32_t g = 0; g < core->groups_max && !c->failed; g++) {
		if (core->groups[g].id == 0)
			continue;
		check_group(c, g);
		check_quarantine(c, g);
	}
}

/* --- spaces and waiting --------------------------------------------------------------------- */

/* What the space has, counted: on each device, and altogether. */
struct owned {
	struct space_part on[KVD_DEVICES_MAX];
	uint64_t pages;
	uint64_t nodes;
	uint32_t leases;
};

static void count_memory(const struct core *core, uint32_t s, struct owned *o)
{
	for (uint32_t i = 0; i < core->cfg.pages_max; i++) {
		const struct page *p = &core->pages[i];
		if (p->state == KVD_PAGE_FREE || core->slabs[p->slab].space != s)
			continue;
		o->pages++;
		o->on[machine_device(core, i)].used_bytes += machine_stride(core, i);
	}
	for (uint32_t i = 0; i < core->slabs_max; i++) {
		const struct geometry *g = &core->geometries[core->slabs[i].geometry];
		if (core->slabs[i].state != SLAB_NONE && core->slabs[i].space == s)
			o->on[g->device].slab_bytes += g->slab_bytes;
	}
}

static void count_tree(const struct core *core, uint32_t s, struct owned *o)
{
	for (uint32_t i = 0; i < core->node_slots; i++) {
		const struct node *n = &core->nodes[i];
		const struct format *f = &core->formats[n->format];
		if (n->state == NODE_FREE || n->state == NODE_ROOT || f->space != s)
			continue;
		o->nodes++;
		for (uint32_t d = 0; d < core->cfg.device_count; d++)
			o->on[d].anchored_bytes += n->anchors ? f->device_bytes[d] : 0;
	}
	for (uint32_t i = 0; i < core->cfg.leases_max; i++) {
		const struct lease *l = &core->leases[i];
		const struct format *f = &core->formats[l->format];
		if (l->life == LEASE_FREE || f->space != s)
			continue;
		o->leases++;
		for (uint32_t d = 0; d < core->cfg.device_count; d++)
			o->on[d].promised_bytes += l->promised_blocks * f->device_bytes[d];
	}
}

static void check_part(struct check *c, uint32_t s, uint32_t device, const struct space_part *o)
{
	const struct space_part *has = &c->core->spaces[s].on[device];

	CHECK(c, o->used_bytes == has->used_bytes && o->slab_bytes == has->slab_bytes,
	      "space %u, device %u: %llu bytes used, counted %llu; slabs of %llu, counted %llu", s,
	      device, (unsigned long long)has->used_bytes, (unsigned long long)o->used_bytes,
	      (unsigned long long)has->slab_bytes, (unsigned long long)o->slab_bytes);
	CHECK(c,
	      o->promised_bytes == has->promised_bytes && o->anchored_bytes == has->anchored_bytes,
	      "space %u, device %u: promised %llu, counted %llu; anchored %llu, counted %llu", s,
	      device, (unsigned long long)has->promised_bytes,
	      (unsigned long long)o->promised_bytes, (unsigned long long)has->anchored_bytes,
	      (unsigned long long)o->anchored_bytes);
	CHECK(c, o->used_bytes <= has->ceiling_bytes, "space %u is above its ceiling on device %u",
	      s, device);
	CHECK(c, o->waiting == has->waiting && o->waiting_to_run == has->waiting_to_run,
	      "space %u, device %u: %u requests wait, counted %u", s, device, has->waiting,
	      o->waiting);
}

static void count_waiting(const struct core *core, uint32_t s, struct owned *o)
{
	for (uint32_t i = core->waiter_head; i != CORE_NONE; i = core->waiters[i].next) {
		const struct waiter *w = &core->waiters[i];
		if (w->own_limit || core->sessions[w->session].space != s)
			continue;
		for (uint32_t d = 0; d < core->cfg.device_count; d++) {
			o->on[d].waiting += w->devices >> d & 1;
			o->on[d].waiting_to_run +=
				w->req.op != KVD_OP_ACQUIRE && (w->devices >> d & 1);
		}
	}
}

static void check_space(struct check *c, uint32_t s)
{
	const struct core *core = c->core;
	const struct space *space = &core->spaces[s];
	struct owned o = {0};

	count_memory(core, s, &o);
	count_tree(core, s, &o);
	count_waiting(core, s, &o);
	CHECK(c, o.pages == space->used_pages && o.nodes == space->nodes,
	      "space %u: %llu pages used, counted %llu; %llu nodes, counted %llu", s,
	      (unsigned long long)space->used_pages, (unsigned long long)o.pages,
	      (unsigned long long)space->nodes, (unsigned long long)o.nodes);
	CHECK(c, o.leases == space->leases, "space %u: %u leases, counted %u", s, space->leases,
	      o.leases);
	for (uint32_t d = 0; d < core->cfg.device_count; d++)
		check_part(c, s, d, &o.on[d]);
}

void check_users_spaces(struct check *c)
{
	for (uint32_t s = 0; s < c->core->space_count && !c->failed; s++)
		check_space(c, s);
}

/* The most blocks that the request can need; EXTEND's are not known without an attempt. */
static uint64_t blocks_most(const struct format *f, const struct kvd_req *req)
{
	if (req->op == KVD_OP_TOPUP)
		return req->n;
	return bits_div_ceil(req->n, f->page_tokens) + (uint64_t)req->arg32;
}

static bool fits_on(const struct core *core, const struct waiter *w, const struct format *f,
		    uint32_t device)
{
	const struct space_part *has = &core->spaces[f->space].on[device];
	uint64_t blocks = blocks_most(f, &w->req);
	uint64_t bytes = blocks * f->device_bytes[device];

	for (uint32_t part = 0; part < f->part_count; part++) {
		const struct shelf *shelf = machine_part_shelf(core, f, part);
		uint32_t parts = 0;
		for (uint32_t i = 0; i < f->part_count; i++)
			parts += f->geometry[i] == f->geometry[part];
		if (shelf->free < shelf->promised + blocks * parts)
			return false;
	}
	return core->sessions[w->session].held_bytes[device] + bytes <=
		       session_share_bytes(core, device) &&
	       has->used_bytes + has->promised_bytes + bytes <= has->ceiling_bytes;
}

/* Nobody is before it, there is memory for it wherever it wants some, and nobody has told it. */
static bool forgotten(const struct core *core, const struct waiter *w)
{
	const struct format *f = &core->formats[w->req.format];

	if (core->wait_round || (core->retry & w->devices) || w->req.op == KVD_OP_EXTEND)
		return false;
	for (uint32_t left = w->devices; left; left &= left - 1)
		if (!fits_on(core, w, f, (uint32_t)__builtin_ctz(left)))
			return false;
	return true;
}

/* The one whose turn it is in the space: the oldest, sequences that run already before others. */
static const struct waiter *first_waiter(const struct core *core, uint32_t space)
{
	const struct waiter *first = NULL;

	for (uint32_t i = core->waiter_head; i != CORE_NONE; i = core->waiters[i].next) {
		const struct waiter *w = &core->waiters[i];
		if (w->own_limit || core->sessions[w->session].space != space)
			continue;
		if (w->req.op != KVD_OP_ACQUIRE)
			return w;
		first = first ? first : w;
	}
	return first;
}

static void check_turns(struct check *c)
{
	for (uint32_t s = 0; s < c->core->space_count; s++) {
		const struct waiter *w = first_waiter(c->core, s);
		CHECK(c, !w || !forgotten(c->core, w),
		      "space %u: a request waits for memory that is free", s);
	}
}

static void check_bank_waiting(struct check *c, uint32_t device)
{
	const struct core *core = c->core;
	uint32_t turner = core->banks[device].turner;
	uint32_t count = 0;
	bool queued = turner == CORE_NONE;

	for (uint32_t i = core->waiter_head; i != CORE_NONE; i = core->waiters[i].next) {
		bool wants = core->waiters[i].devices >> device & 1;
		count += wants;
		queued |= wants && i == turner;
	}
	CHECK(c, count == core->banks[device].waiter_count,
	      "device %u: %u requests wait, counted %u", device, core->banks[device].waiter_count,
	      count);
	CHECK(c, queued, "device %u: slabs are turned over for nobody that waits", device);
}

void check_users_waiting(struct check *c)
{
	const struct core *core = c->core;
	uint32_t count = 0;

	for (uint32_t d = 0; d < core->cfg.device_count && !c->failed; d++)
		check_bank_waiting(c, d);
	check_turns(c);

	for (uint32_t i = core->waiter_head; i != CORE_NONE; i = core->waiters[i].next) {
		const struct waiter *w = &core->waiters[i];
		CHECK(c, core->sessions[w->session].open, "a request of session %u waits",
		      w->session);
		CHECK(c, ++count <= core->waiter_count, "the queue is longer than it says");
	}
	CHECK(c, count == core->waiter_count, "%u requests wait, counted %u", core->waiter_count,
	      count);
	for (uint32_t s = 0; s < core->cfg.sessions_max; s++) {
		uint32_t waiting = 0;
		for (uint32_t i = core->waiter_head; i != CORE_NONE; i = core->waiters[i].next)
			waiting += core->waiters[i].session == s;
		CHECK(c, !core->sessions[s].open || waiting == core->sessions[s].waiting,
		      "session %u: %u requests wait, counted %u", s, core->sessions[s].waiting,
		      waiting);
	}
}
