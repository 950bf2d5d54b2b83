/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FORK. A child of a parent that is still in its prompt publishes nothing: the blocks between are
 * the parent's to build. The core's thread only.
 */
#include "kvd/core/fork.h"

#include "kvd/core/admit.h"
#include "kvd/core/block.h"
#include "kvd/core/call.h"
#include "kvd/core/follow.h"
#include "kvd/core/grant.h"
#include "kvd/core/lease.h"
#include "kvd/core/node.h"
#include "kvd/core/release.h"
#include "kvd/core/unsealed.h"

#include <errno.h>

static void share(struct core *core, uint32_t parent, uint32_t child, uint32_t tail_tokens)
{
	struct lease *p = &core->leases[parent];
	struct lease *c = &core->leases[child];
	uint32_t page_tokens = core->formats[p->format].page_tokens;

	c->last = node_at_depth(core, p->last, p->ready);
	for (uint32_t n = c->last; n != c->format; n = core->nodes[n].parent)
		node_pin(core, n, c->session);
	c->ready = p->ready;
	c->shared = lease_readable(core, parent);
	c->build_from = c->shared;
	c->no_hit = p->no_hit;
	c->private_only =
		p->private_only || c->shared > c->ready || p->ready < core->nodes[p->last].depth;
	c->parent = parent;
	p->forks++;
	uint32_t known = BITS_MIN(p->token_count, c->shared * page_tokens + tail_tokens);
	if (!c->private_only &&
	    !unsealed_copy(core, parent, child, known - c->shared * page_tokens))
		c->private_only = true;
	c->token_count = known;
}

static int check_tail(struct core *core, const struct call *call, uint32_t parent)
{
	const struct kvd_req *req = call->req;
	const struct format *f = &core->formats[core->leases[parent].format];

	if (req->m == 0)
		return 0;
	if (req->m >= f->page_tokens || req->first != lease_readable(core, parent))
		return -EINVAL;
	if (req->arg64 == 0)
		return block_owned(core, parent, req->first) ? 0 : -EINVAL;
	return release_bind(core, call, parent);
}

static int make_child(struct core *core, struct call *call, uint32_t parent, uint32_t *out_child)
{
	const struct kvd_req *req = call->req;
	uint32_t format = core->leases[parent].format;
	uint64_t pages = (uint64_t)req->arg32 + (req->m > 0);
	uint64_t blocks = lease_readable(core, parent) + pages;

	if (admit_possible(core, format, blocks) < 0)
		return -E2BIG;
	if (!lease_room(core, call->session))
		return -ENOSPC;
	int rc = admit_check(core, call, format, pages);
	if (rc == 0)
		rc = check_tail(core, call, parent);
	if (rc != 0)
		return rc;
	uint32_t child = lease_new(core, call->session, format);
	share(core, parent, child, req->m);
	core->leases[child].blocks = (uint32_t)blocks;
	rc = lease_enter(core, child, call->session);
	ASSERT(rc == 0);
	admit_promise(core, child, (uint32_t)pages);
	for (uint32_t b = core->leases[child].shared; b < blocks; b++)
		block_take(core, child, b);
	*out_child = child;
	return 0;
}

int fork_run(struct core *core, struct call *call)
{
	const struct kvd_req *req = call->req;
	struct kvd_handle tail[KVD_PARTS_MAX];
	uint32_t parent;
	uint32_t child;
	int rc = call_payload(core, call, 0);

	if (rc == 0)
		rc = call_lease(core, call, &parent);
	if (rc != 0)
		return rc;
	if (core->draining)
		return KVD_DRAINING;
	rc = make_child(core, call, parent, &child);
	if (rc != 0)
		return rc;
	follow_advance(core, child);
	if (req->m > 0)
		block_handles(core, parent, req->first, 1, tail);
	grant_fill(core, call, child, 0, core->leases[child].blocks, req->m > 0 ? tail : NULL,
		   req->m);
	return 0;
}
