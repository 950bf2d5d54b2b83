/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LIST. A cursor is the index of the next record, so that what comes and goes meanwhile is seen
 * or not, and nothing is seen twice. The core's thread only.
 */
#include "kvd/core/list.h"

#include "kvd/core/call.h"
#include "kvd/core/format.h"
#include "kvd/core/node.h"
#include "kvd/core/space.h"

#include <errno.h>
#include <string.h>

void list_session(const struct core *core, uint32_t session, struct kvd_session_stat *out)
{
	const struct session *s = &core->sessions[session];
	const struct group *g = &core->groups[s->group];

	*out = (struct kvd_session_stat){
		.session = session,
		.space = s->space,
		.pid = s->pid,
		.uid = s->uid,
		.since_ns = s->since_ns,
		.last_request_ns = s->last_request_ns,
		.requests = s->requests,
		.prompt_tokens = s->prompt_tokens,
		.cached_tokens = s->cached_tokens,
		.sealed_blocks = s->sealed_blocks,
		.leases = s->lease_count,
		.open_pages = s->open_pages,
		.pinned_pages = s->pinned_pages + s->private_pages,
		.waiting_requests = s->waiting,
		.stalled = s->stalled,
		.magazine_pages = g->magazine.count,
		.group = g->id,
	};
	memcpy(out->name, s->name, sizeof(out->name));
}

static bool put_session(const struct core *core, uint32_t i, void *out)
{
	if (!core->sessions[i].open)
		return false;
	list_session(core, i, out);
	return true;
}

static bool put_prefix(const struct core *core, uint32_t i, void *out)
{
	const struct node *n = &core->nodes[i];
	struct kvd_prefix_stat *p = out;

	if (n->state == NODE_FREE || n->state == NODE_ROOT || n->first_child != CORE_NONE)
		return false;
	const struct format *f = &core->formats[n->format];
	bool partial = n->flags & NODE_PARTIAL;
	*p = (struct kvd_prefix_stat){
		.space = f->space,
		.format = n->format,
		.blocks = n->depth,
		.tokens = (n->depth - 1) * f->page_tokens + n->valid_tokens,
		.bytes = n->depth * f->block_bytes,
		.pins = n->pins - n->anchors,
		.flags = (partial ? 1u : 0) | (n->state == NODE_BUILDING ? 2u : 0) |
			 (n->anchors ? 4u : 0) | (n->state == NODE_COLD ? 8u : 0),
		.hits = n->hits,
		.last_used_ns = n->last_used_ns,
	};
	memcpy(p->key, n->hash, sizeof(p->key));
	const struct node *first = &core->nodes[node_at_depth(core, i, 1)];
	p->shared_pins = first->pins - first->anchors;
	return true;
}

static bool put_slab(const struct core *core, uint32_t i, void *out)
{
	static const uint8_t shown[] = {
		[SLAB_LIVE] = 1, [SLAB_CLOSED] = 2, [SLAB_RETIRING] = 2, [SLAB_DESTROYING] = 2};
	const struct slab *s = &core->slabs[i];
	struct kvd_slab_stat *stat = out;

	if (s->state == SLAB_NONE)
		return false;
	const struct geometry *g = &core->geometries[s->geometry];
	*stat = (struct kvd_slab_stat){
		.slab = i,
		.space = s->space,
		.first_page = s->first_page,
		.page_count = s->page_count,
		.stride_bytes = g->stride_bytes,
		.slab_bytes = g->slab_bytes,
		.device = g->device,
		.state = s->state == SLAB_MAKING ? 0 : shown[s->state],
	};
	for (uint32_t p = 0; p < s->page_count && s->state != SLAB_MAKING; p++)
		stat->pages_by_state[core->pages[s->first_page + p].state]++;
	return true;
}

static bool put_format(const struct core *core, uint32_t i, void *out)
{
	format_stat(core, i, out);
	return true;
}

static bool put_space(const struct core *core, uint32_t i, void *out)
{
	space_stat(core, i, out);
	return true;
}

struct list_kind {
	bool (*put)(const struct core *core, uint32_t i, void *out);
	uint32_t size;
	uint32_t cost; /* of the step's budget, for one index */
};

static const struct list_kind kinds[] = {
	[KVD_LIST_SESSIONS] = {put_session, sizeof(struct kvd_session_stat), 1},
	[KVD_LIST_PREFIXES] = {put_prefix, sizeof(struct kvd_prefix_stat), 1},
	[KVD_LIST_SLABS] = {put_slab, sizeof(struct kvd_slab_stat), CORE_STEP_MAX / 8},
	[KVD_LIST_FORMATS] = {put_format, sizeof(struct kvd_format_stat), 1},
	[KVD_LIST_SPACES] = {put_space, sizeof(struct kvd_space_stat), 1},
};

static uint32_t end_of(const struct core *core, uint32_t kind)
{
	switch (kind) {
	case KVD_LIST_SESSIONS:
		return core->cfg.sessions_max;
	case KVD_LIST_PREFIXES:
		return core->node_slots;
	case KVD_LIST_SLABS:
		return core->slabs_max;
	case KVD_LIST_FORMATS:
		return core->format_count;
	default:
		return core->space_count;
	}
}

int list_run(struct core *core, struct call *call)
{
	const struct kvd_req *req = call->req;
	uint32_t kind = req->arg32;

	if (kind < KVD_LIST_SESSIONS || kind > KVD_LIST_SPACES)
		return -EINVAL;
	const struct list_kind *k = &kinds[kind];
	uint64_t room = BITS_MIN((uint64_t)req->out_bytes,
				 (uint64_t)core->handles_max * sizeof(struct kvd_handle));
	uint64_t end = end_of(core, kind);
	uint64_t i = req->arg64;
	uint32_t cost = 0;
	uint8_t *out = (uint8_t *)core->handles;
	for (; i < end && room >= k->size && cost < CORE_STEP_MAX; i++, cost += k->cost) {
		if (!k->put(core, (uint32_t)i, out + call->rep.out_bytes))
			continue;
		call->rep.out_bytes += k->size;
		room -= k->size;
	}
	call->rep.aux = i < end ? i : 0;
	call->payload = core->handles;
	return 0;
}
