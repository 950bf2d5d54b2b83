/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SEAL. Publishing happens from the root on: a node is sealed only under a sealed node. The core's
 * thread only.
 */
#include "kvd/core/seal.h"

#include "kvd/core/block.h"
#include "kvd/core/call.h"
#include "kvd/core/follow.h"
#include "kvd/core/lease.h"
#include "kvd/core/mutant.h"
#include "kvd/core/node.h"
#include "kvd/core/topup.h"
#include "kvd/core/unsealed.h"

#include <errno.h>

/* --- checking ------------------------------------------------------------------------------- */

static bool sealed_already(const struct core *core, uint32_t lease, uint32_t block)
{
	const struct lease *l = &core->leases[lease];

	return block < l->ready || block < lease_readable(core, lease);
}

/*
 * Looks at each handle; `bind`: takes it as the block's page. `shown` marks what was named. A page
 * that RELEASE's or FORK's arg64 has bound already may be named once more.
 */
static int use_handles(struct core *core, const struct call *call, uint32_t lease,
		       const struct kvd_handle *handles, bool bind)
{
	const struct kvd_req *req = call->req;
	const struct format *f = &core->formats[core->leases[lease].format];
	uint32_t used = 0;
	uint32_t page;

	for (uint32_t b = req->first; b < req->first + req->m; b++) {
		bool some_left = req->arg32 - used >= f->part_count;
		if (some_left && block_matches(core, lease, b, handles + used))
			used += f->part_count;
		if (block_owned(core, lease, b) || sealed_already(core, lease, b))
			continue;
		if (!some_left)
			return -EINVAL;
		for (uint32_t part = 0; part < f->part_count; part++) {
			int rc = topup_find(core, call->session, handles[used++], f, part, &page);
			if (rc != 0 || (core->pages[page].shown && !bind))
				return KVD_STALE;
			core->pages[page].shown = 1;
			if (bind)
				topup_bind(core, lease, b, part, page);
		}
	}
	return used == req->arg32 ? 0 : -EINVAL;
}

static void unmark(struct core *core, const struct call *call, const struct kvd_handle *handles)
{
	const struct kvd_req *req = call->req;

	for (uint32_t i = 0; i < req->arg32; i++)
		if (handles[i].page < core->cfg.pages_max &&
		    core->pages[handles[i].page].list == PAGE_MAGAZINE)
			core->pages[handles[i].page].shown = 0;
}

static int check(struct core *core, struct call *call, const uint32_t **out_tokens,
		 uint32_t *out_lease)
{
	const struct kvd_req *req = call->req;
	uint64_t handle_bytes = (uint64_t)req->arg32 * sizeof(struct kvd_handle);
	int rc = call_tokens(core, call, handle_bytes, out_tokens);

	if (rc == 0)
		rc = call_lease(core, call, out_lease);
	if (rc == 0)
		rc = unsealed_room(core, *out_lease, req->n);
	if (rc != 0)
		return rc;
	const struct lease *l = &core->leases[*out_lease];
	uint64_t end = (uint64_t)req->first + req->m;
	if (req->m > KVD_SEAL_BLOCKS_MAX)
		return -E2BIG;
	if (req->m == 0 ||
	    end * core->formats[l->format].page_tokens > (uint64_t)l->token_count + req->n)
		return -EINVAL;
	const struct kvd_handle *handles = (const void *)(*out_tokens + req->n);
	rc = use_handles(core, call, *out_lease, handles, false);
	unmark(core, call, handles);
	return rc;
}

/* --- publishing ----------------------------------------------------------------------------- */

static void publish(struct core *core, uint32_t lease, uint32_t node, const uint32_t *pages)
{
	uint32_t builder = core->nodes[node].builder;

	node_publish(core, node, pages, STATE_PUBLISH);
	core->counters[KVD_C_SEALED_BLOCKS]++;
	core->sessions[core->leases[lease].session].sealed_blocks++;
	follow_sealed(core, node, lease, builder);
}

/* A block of the path. True: it is published, by this lease or another. */
static bool seal_path(struct core *core, uint32_t lease, uint32_t block, const uint32_t *pages)
{
	struct lease *l = &core->leases[lease];

	if (block < l->ready) {
		block_keep(core, lease, block, pages);
		return true;
	}
	if (block != l->ready && !MUTANT(PUBLISH_ORPHAN)) {
		follow_give_up(core, lease, block);
		block_keep(core, lease, block, pages);
		return false;
	}
	publish(core, lease, block == l->ready ? l->edge : node_at_depth(core, l->last, block + 1),
		pages);
	return true;
}

/* A block behind the path. True: the path is one node longer. */
static bool seal_behind(struct core *core, uint32_t lease, uint32_t block, const uint32_t *pages)
{
	struct lease *l = &core->leases[lease];
	uint32_t depth = core->nodes[l->last].depth;
	struct index_key key;
	uint32_t node = CORE_NONE;

	if (block == depth && l->ready == depth &&
	    unsealed_key(core, lease, core->formats[l->format].page_tokens, &key)) {
		node = index_find(core, l->last, &key);
		if (node == CORE_NONE)
			node = node_new(core, l->last, &key, 0);
	}
	if (node == CORE_NONE) {
		l->private_only = true;
		block_keep(core, lease, block, pages);
		return false;
	}
	node_pin(core, node, l->session);
	if (core->nodes[node].state == NODE_COLD)
		node_revive(core, node, lease);
	l->last = node;
	unsealed_next(core, lease);
	if (core->nodes[node].state == NODE_SEALED)
		block_keep(core, lease, block, pages);
	else
		publish(core, lease, node, pages);
	return true;
}

/* Pulls the block's pages and seals them. True: the block is published. */
static bool seal_block(struct core *core, uint32_t lease, uint32_t block)
{
	struct lease *l = &core->leases[lease];
	uint32_t pages[KVD_PARTS_MAX];
	bool published;

	if (!block_pull(core, lease, block, pages))
		return block < l->ready;
	if (block < core->nodes[l->last].depth)
		published = seal_path(core, lease, block, pages);
	else
		published = seal_behind(core, lease, block, pages);
	follow_advance(core, lease);
	if (l->tail != CORE_NONE && block == l->tail_block)
		lease_drop_tail(core, lease);
	return published;
}

int seal_run(struct core *core, struct call *call)
{
	const struct kvd_req *req = call->req;
	const uint32_t *tokens;
	uint32_t used = 0;
	uint32_t published = 0;
	uint32_t lease;
	int rc = check(core, call, &tokens, &lease);

	if (rc != 0)
		return rc;
	struct lease *l = &core->leases[lease];
	use_handles(core, call, lease, (const void *)(tokens + req->n), true);
	l->blocks = BITS_MAX(l->blocks, req->first + req->m);
	for (uint32_t i = 0; i < req->m; i++) {
		if (req->first + i >= core->nodes[l->last].depth)
			used += unsealed_fill(core, lease, tokens + used, req->n - used);
		if (seal_block(core, lease, req->first + i) && published == i)
			published++;
	}
	unsealed_append(core, lease, tokens + used, req->n - used);
	call->rep.lease = req->lease;
	call->rep.at.handle_count = published;
	return published == req->m ? 0 : KVD_KEPT;
}
