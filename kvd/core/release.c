/* SPDX-License-Identifier: Apache-2.0 */
/* RELEASE, and the tail that may stay. The core's thread only. */
#include "kvd/core/release.h"

#include "kvd/core/block.h"
#include "kvd/core/call.h"
#include "kvd/core/lease.h"
#include "kvd/core/session.h"
#include "kvd/core/tail.h"
#include "kvd/core/topup.h"
#include "kvd/core/unsealed.h"

#include <errno.h>

int release_bind(struct core *core, const struct call *call, uint32_t lease)
{
	const struct kvd_req *req = call->req;
	const struct format *f = &core->formats[core->leases[lease].format];
	struct kvd_handle handle = {.page = (uint32_t)req->arg64,
				    .generation = (uint32_t)(req->arg64 >> 32)};
	uint32_t page;

	if (req->arg64 == 0)
		return 0;
	if (f->part_count == 1 && block_matches(core, lease, req->first, &handle))
		return 0;
	if (f->part_count > 1 || block_owned(core, lease, req->first) ||
	    req->first < lease_readable(core, lease) || req->first >= core->cfg.pages_max)
		return -EINVAL;
	int rc = topup_find(core, call->session, handle, f, 0, &page);
	if (rc != 0)
		return rc;
	topup_bind(core, lease, req->first, 0, page);
	return 0;
}

/* Turns the lease's own pages of the block into a partial node. */
static bool keep_tail(struct core *core, uint32_t lease, uint32_t block, uint32_t valid)
{
	struct lease *l = &core->leases[lease];
	uint32_t depth = core->nodes[l->last].depth;
	uint32_t pages[KVD_PARTS_MAX];
	struct index_key key;

	if (valid < KVD_TAIL_RUN_MIN || block != depth || l->ready != depth || l->forks > 0 ||
	    !unsealed_key(core, lease, valid, &key) || !block_pull(core, lease, block, pages))
		return false;
	if (tail_keep(core, lease, &key, pages))
		return true;
	for (uint32_t part = 0; part < core->formats[l->format].part_count; part++)
		block_tag(core, lease, block, part, pages[part]);
	return false;
}

int release_run(struct core *core, struct call *call)
{
	const struct kvd_req *req = call->req;
	bool keep = req->flags & KVD_RELEASE_KEEP_TAIL;
	const uint32_t *tokens;
	uint32_t lease;
	int rc = call_tokens(core, call, 0, &tokens);

	if (rc == 0)
		rc = lease_find(core, call->session, req->lease, &lease);
	if (rc == 0)
		rc = unsealed_room(core, lease, req->n);
	if (rc != 0)
		return rc;
	const struct lease *l = &core->leases[lease];
	uint32_t page_tokens = core->formats[l->format].page_tokens;
	if (keep && l->row_state != KVD_LEASE_REVOKED) {
		uint64_t end = (uint64_t)req->first * page_tokens + req->m;
		if (req->m == 0 || req->m >= page_tokens || end > (uint64_t)l->token_count + req->n)
			return -EINVAL;
		rc = release_bind(core, call, lease);
		if (rc != 0)
			return rc;
		unsealed_append(core, lease, tokens, req->n);
		lease_drop_tail(core, lease);
		call->rep.aux = keep_tail(core, lease, req->first, req->m);
	}
	lease_end(core, lease);
	return 0;
}
