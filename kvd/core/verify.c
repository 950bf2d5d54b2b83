/* SPDX-License-Identifier: Apache-2.0 */
/*
 * VERIFY: a cursor over the nodes. One request reads VERIFY_BLOCKS blocks at most and is answered
 * with what it found and where the next shall go on, so that progress can be seen and a client that
 * leaves leaves nothing behind. One at a time, for the disks' sake. The core's thread only.
 */
#include "kvd/core/verify.h"

#include "kvd/core/call.h"
#include "kvd/core/mutant.h"
#include "kvd/core/rest.h"
#include "kvd/core/tier.h"
#include "kvd/core/transfer.h"

#include <errno.h>

#define VERIFY_BLOCKS MUTANT_SHORT(64u, 6u)
#define VERIFY_DEPTH 8u /* transfers at once: requests have the rest of the depth */

static uint32_t tier_of(const struct kvd_req *req)
{
	return req->arg32 == KVD_TIER_FILE ? CORE_TIER_FILE : CORE_TIER_DRAM;
}

int verify_run(struct core *core, struct call *call)
{
	const struct kvd_req *req = call->req;
	struct verify *v = &core->verify;

	if (req->out_bytes < sizeof(struct kvd_verify) ||
	    (req->arg32 != KVD_TIER_FILE && req->arg32 != KVD_TIER_DRAM))
		return -EINVAL;
	if (!tier_there(core, tier_of(req)))
		return -ENODEV;
	if (v->busy)
		return -EBUSY;
	*v = (struct verify){.busy = true,
			     .has_session = true,
			     .session = call->session,
			     .req = *req,
			     .cursor = (uint32_t)BITS_MIN(req->arg64, (uint64_t)core->node_slots)};
	return CALL_LATER;
}

void verify_done(struct core *core, uint64_t bytes, int result)
{
	struct verify *v = &core->verify;

	v->moving--;
	v->done.blocks++;
	v->done.bytes += bytes;
	v->done.bad += result == -EBADMSG;
	v->done.failed += result < 0 && result != -EBADMSG;
}

static void reply(struct core *core, int result)
{
	struct verify *v = &core->verify;
	const struct tier *tier = &core->tiers[tier_of(&v->req)];
	struct kvd_verify out = v->done;
	struct call call = {.req = &v->req, .session = v->session};

	for (uint32_t a = 0; a < tier->area_count; a++)
		out.total += tier->areas[a].blocks;
	call.rep.out_bytes = result == 0 ? sizeof(out) : 0;
	call.rep.aux = v->cursor < core->node_slots ? v->cursor : 0;
	call.payload = &out;
	v->busy = false;
	if (v->has_session)
		call_reply(core, &call, result);
}

/* What another transfer uses is being read or written anyway. */
static bool can_read(const struct core *core, uint32_t node, uint32_t tier)
{
	uint8_t state = core->nodes[node].state;

	return state != NODE_FREE && state != NODE_ROOT && rest_in(core, node, tier) &&
	       core->rests[node].transfer[tier] == CORE_NONE &&
	       !tier_down(core, tier, core->rests[node].slot[tier]);
}

void verify_pump(struct core *core)
{
	struct verify *v = &core->verify;
	uint32_t tier = tier_of(&v->req);

	if (!v->busy)
		return;
	while (v->has_session && v->cursor < core->node_slots && core->budget > 0 &&
	       v->moving < VERIFY_DEPTH && v->done.blocks + v->moving < VERIFY_BLOCKS) {
		uint32_t node = v->cursor;
		core->budget--;
		if (can_read(core, node, tier)) {
			if (transfer_verify(core, node, tier) < 0)
				break;
			v->moving++;
		}
		v->cursor++;
	}
	bool more = v->has_session && v->cursor < core->node_slots &&
		    v->done.blocks + v->moving < VERIFY_BLOCKS;
	bool stuck = more && transfer_stuck(core);
	if (v->moving == 0 && (!more || stuck))
		reply(core, stuck && v->done.blocks == 0 ? -EBUSY : 0);
}

bool verify_busy(const struct core *core)
{
	const struct verify *v = &core->verify;
	const struct tier *tier = &core->tiers[tier_of(&v->req)];

	return v->busy && v->has_session && v->moving == 0 && tier->loading < tier->depth &&
	       core->transfer_free != CORE_NONE;
}

void verify_drop_session(struct core *core, uint32_t session)
{
	if (core->verify.busy && core->verify.session == session)
		core->verify.has_session = false;
}
