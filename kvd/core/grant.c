/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer about a lease. Handles are entries [block][part]; with several parts those of the
 * tail follow them. What does not fit is left for EXTEND. The core's thread only.
 */
#include "kvd/core/grant.h"

#include "kvd/core/block.h"
#include "kvd/core/lease.h"
#include "kvd/core/node.h"

#include <string.h>

/* Who builds the first block that is not readable yet, or CORE_NONE. */
static uint32_t next_builder(const struct core *core, const struct lease *l)
{
	if (l->ready >= core->nodes[l->last].depth)
		return CORE_NONE;
	return core->nodes[l->edge].builder;
}

static void fill_followed(const struct core *core, struct call *call, const struct lease *l)
{
	uint32_t builder = next_builder(core, l);

	call->rep.at.event = KVD_EVENT_FOLLOW;
	if (builder == CORE_NONE)
		return;
	if (machine_is_haul(core, builder))
		call->rep.at.event = KVD_EVENT_LOAD;
	call->rep.at.follows_own = core->leases[builder].session == l->session;
}

static void fill_place(const struct core *core, struct call *call, uint32_t lease)
{
	const struct lease *l = &core->leases[lease];
	uint32_t page_tokens = core->formats[l->format].page_tokens;
	uint32_t readable = lease_readable(core, lease);

	call->rep.lease = lease_id(core, lease);
	call->rep.at.cached_tokens = readable * page_tokens;
	/* Who has begun to compute goes on: EXTEND tells nobody to skip what another was faster
	 * with. */
	uint32_t from = l->build_from;
	if (call->req->op != KVD_OP_EXTEND)
		from = BITS_MAX(from, readable);
	call->rep.at.build_from = BITS_MIN(from * page_tokens, l->token_count);
	call->rep.at.event_seq = l->event_seq;
	if (call->rep.at.build_from > call->rep.at.cached_tokens)
		fill_followed(core, call, l);
}

void grant_fill(struct core *core, struct call *call, uint32_t lease, uint32_t first,
		uint32_t count, const struct kvd_handle *tail, uint32_t tail_tokens)
{
	uint32_t parts = core->formats[core->leases[lease].format].part_count;
	uint64_t room = BITS_MIN(call->req->out_bytes / sizeof(struct kvd_handle),
				 (uint64_t)core->handles_max);
	uint32_t tail_entries = tail && parts > 1 ? parts : 0;

	fill_place(core, call, lease);
	if (tail && tail_entries <= room) {
		call->rep.at.tail = tail[0];
		call->rep.at.tail_tokens = tail_tokens;
		room -= tail_entries;
	} else {
		tail_entries = 0;
	}
	count = (uint32_t)BITS_MIN((uint64_t)count, room / parts);
	block_handles(core, lease, first, count, core->handles);
	if (tail_entries > 0)
		memcpy(core->handles + (size_t)count * parts, tail, parts * sizeof(*tail));
	call->rep.at.handle_count = count * parts;
	call->rep.out_bytes = (count * parts + tail_entries) * (uint32_t)sizeof(struct kvd_handle);
	call->payload = core->handles;
}
