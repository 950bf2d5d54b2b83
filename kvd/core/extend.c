/* SPDX-License-Identifier: Apache-2.0 */
/*
 * EXTEND: more handles, a CALL's answer, a follower whose patience is over. The core's thread
 * only.
 */
#include "kvd/core/extend.h"

#include "kvd/core/admit.h"
#include "kvd/core/block.h"
#include "kvd/core/call.h"
#include "kvd/core/follow.h"
#include "kvd/core/grant.h"
#include "kvd/core/lease.h"
#include "kvd/core/pool.h"
#include "kvd/core/unsealed.h"

void extend_drop_useless(struct core *core, uint32_t lease, bool hidden_only)
{
	struct lease *l = &core->leases[lease];
	uint32_t page = l->own.head;

	while (page != CORE_NONE && core->pages[page].block < l->ready) {
		uint32_t block = core->pages[page].block;
		while (page != CORE_NONE && core->pages[page].block == block)
			page = core->pages[page].next;
		if (hidden_only && !block_hidden(core, lease, block))
			continue;
		block_drop(core, lease, block);
		l->build_from = BITS_MAX(l->build_from, block + 1);
		if (l->tail_block == block)
			lease_drop_tail(core, lease);
	}
}

/* Blocks from `first` to the end of the path that have no pages of the lease's own. */
static uint32_t count_missing(const struct core *core, uint32_t lease, uint32_t first)
{
	uint32_t depth = core->nodes[core->leases[lease].last].depth;
	uint32_t missing = 0;

	for (uint32_t b = first; b < depth; b++)
		missing += !block_owned(core, lease, b);
	return missing;
}

/* Becomes the builder from block `first` on. 0, or what admission said. */
static int take_over(struct core *core, struct call *call, uint32_t lease, uint32_t first)
{
	struct lease *l = &core->leases[lease];
	uint32_t missing = count_missing(core, lease, first);

	if (missing > 0) {
		int rc = admit_possible(core, l->format, missing);
		if (rc == 0)
			rc = admit_check(core, call, l->format, missing);
		if (rc != 0)
			return rc;
		admit_promise(core, lease, missing);
	}
	follow_take_over(core, lease, first);
	for (uint32_t b = first; b < core->nodes[l->last].depth; b++)
		if (!block_owned(core, lease, b))
			block_take(core, lease, b);
	l->build_from = BITS_MIN(l->build_from, first);
	admit_spare(core, l->format);
	return 0;
}

static int change_role(struct core *core, struct call *call, uint32_t lease)
{
	struct lease *l = &core->leases[lease];
	bool take = call->req->flags & KVD_EXTEND_TAKE;
	uint32_t first = take ? l->ready : follow_first_built(core, lease);

	if (first < core->nodes[l->last].depth) {
		int rc = take_over(core, call, lease, first);
		if (rc != 0)
			return rc;
		core->counters[KVD_C_TAKES] += take;
	}
	l->row_state = KVD_LEASE_OK;
	follow_advance(core, lease);
	return 0;
}

int extend_run(struct core *core, struct call *call)
{
	const struct kvd_req *req = call->req;
	const uint32_t *tokens;
	uint32_t lease;
	int rc = call_tokens(core, call, 0, &tokens);

	if (rc == 0)
		rc = call_lease(core, call, &lease);
	if (rc == 0)
		rc = unsealed_room(core, lease, req->n);
	if (rc == 0 && req->flags)
		rc = change_role(core, call, lease);
	if (rc != 0)
		return rc;
	unsealed_append(core, lease, tokens, req->n);
	extend_drop_useless(core, lease, true);
	uint32_t blocks = core->leases[lease].blocks;
	uint32_t first = BITS_MIN(req->first, blocks);
	grant_fill(core, call, lease, first, BITS_MIN(req->m, blocks - first), NULL, 0);
	return 0;
}
