/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dispatch. Everything in a request is a stranger's: flags that do not exist, sizes that do not
 * fit their fields and ops that are not for the core break the client; wrong values get an error.
 *
 * Invariants: each request is answered exactly once, here or from the queue in wait.c, unless its
 * session ends. A handler that returns KVD_FULL has changed nothing. The core's thread only.
 */
#include "kvd/core/call.h"

#include "kvd/core/acquire.h"
#include "kvd/core/admin.h"
#include "kvd/core/extend.h"
#include "kvd/core/fork.h"
#include "kvd/core/format.h"
#include "kvd/core/lease.h"
#include "kvd/core/list.h"
#include "kvd/core/pin.h"
#include "kvd/core/release.h"
#include "kvd/core/seal.h"
#include "kvd/core/ticket.h"
#include "kvd/core/topup.h"
#include "kvd/core/verify.h"
#include "kvd/core/wait.h"
#include "kvd/core/why.h"

#include <errno.h>

struct handler {
	int (*run)(struct core *core, struct call *call);
	uint16_t flags;
	bool admin;
	bool waits; /* KVD_FULL means: wait, if the deadline allows */
};

static const struct handler handlers[KVD_OP_COUNT] = {
	[KVD_OP_FORMAT] = {.run = admin_format},
	[KVD_OP_ACQUIRE] = {.run = acquire_run, .flags = KVD_ACQUIRE_NO_HIT, .waits = true},
	[KVD_OP_EXTEND] = {.run = extend_run,
			   .flags = KVD_EXTEND_TAKE | KVD_EXTEND_CALL,
			   .waits = true},
	[KVD_OP_SEAL] = {.run = seal_run},
	[KVD_OP_FORK] = {.run = fork_run},
	[KVD_OP_RELEASE] = {.run = release_run, .flags = KVD_RELEASE_KEEP_TAIL},
	[KVD_OP_TOPUP] = {.run = topup_run, .waits = true},
	[KVD_OP_RETURN] = {.run = topup_return},
	[KVD_OP_HANDOFF] = {.run = ticket_handoff},
	[KVD_OP_CLAIM] = {.run = ticket_claim},
	[KVD_OP_PREFETCH] = {.run = acquire_prefetch, .flags = KVD_ACQUIRE_NO_HIT},
	[KVD_OP_PIN] = {.run = pin_run},
	[KVD_OP_UNPIN] = {.run = pin_undo},
	[KVD_OP_EVICT] = {.run = admin_evict,
			  .flags = KVD_EVICT_ALL_SPACES | KVD_EVICT_TIERS,
			  .admin = true},
	[KVD_OP_CANCEL] = {.run = admin_cancel},
	[KVD_OP_STAT] = {.run = admin_stat},
	[KVD_OP_WHY] = {.run = why_run},
	[KVD_OP_LIST] = {.run = list_run, .admin = true},
	[KVD_OP_CHECK] = {.run = admin_check, .admin = true},
	[KVD_OP_RATE] = {.run = admin_rate},
	[KVD_OP_SLAB_GONE] = {.run = admin_slab_gone},
	[KVD_OP_DRAIN] = {.run = admin_drain, .admin = true},
	[KVD_OP_VERIFY] = {.run = verify_run, .admin = true},
};

int call_payload(struct core *core, const struct call *call, uint64_t bytes)
{
	if (call->req->in_bytes != bytes)
		return -EPROTO;
	if (bytes > core->in_max)
		return -E2BIG;
	if (bytes == 0)
		return 0;
	return core->ops.payload(core->ctx, call->session, call->req, core->in) < 0 ? -EFAULT : 0;
}

static bool extras_valid(const struct index_prompt *prompt)
{
	uint32_t in_block = 0;

	for (uint32_t i = 0; i < prompt->extra_count; i++) {
		const struct kvd_extra *e = &prompt->extras[i];
		if (e->token_pos >= prompt->token_count || e->reserved)
			return false;
		if (i > 0 && e->token_pos < e[-1].token_pos)
			return false;
		bool same = i > 0 && e->token_pos / prompt->page_tokens ==
					     e[-1].token_pos / prompt->page_tokens;
		in_block = same ? in_block + 1 : 1;
		if (in_block > KVD_EXTRAS_PER_BLOCK)
			return false;
	}
	return true;
}

int call_prompt(struct core *core, const struct call *call, uint32_t extra_count,
		struct index_prompt *out)
{
	const struct kvd_req *req = call->req;
	uint64_t token_bytes = (uint64_t)req->n * sizeof(uint32_t);

	if (req->in_bytes != token_bytes + (uint64_t)extra_count * sizeof(struct kvd_extra))
		return -EPROTO;
	if (!format_valid(core, req->format, core->sessions[call->session].space) || req->n == 0)
		return -EINVAL;
	if (req->n > core->cfg.request_tokens_max)
		return -E2BIG;
	int rc = call_payload(core, call, req->in_bytes);
	if (rc < 0)
		return rc;
	*out = (struct index_prompt){
		.tokens = (const uint32_t *)(const void *)core->in,
		.token_count = req->n,
		.extras = (const struct kvd_extra *)(const void *)(core->in + token_bytes),
		.extra_count = extra_count,
		.page_tokens = core->formats[req->format].page_tokens,
	};
	return extras_valid(out) ? 0 : -EINVAL;
}

int call_tokens(struct core *core, const struct call *call, uint64_t more,
		const uint32_t **out_tokens)
{
	const struct kvd_req *req = call->req;

	*out_tokens = (const uint32_t *)(const void *)core->in;
	if (req->n > core->cfg.request_tokens_max)
		return -E2BIG;
	return call_payload(core, call, (uint64_t)req->n * sizeof(uint32_t) + more);
}

int call_lease(const struct core *core, const struct call *call, uint32_t *out_lease)
{
	int rc = lease_find(core, call->session, call->req->lease, out_lease);

	if (rc == 0 && core->leases[*out_lease].row_state == KVD_LEASE_REVOKED)
		return KVD_STALE;
	return rc;
}

int call_run(struct core *core, struct call *call)
{
	const struct handler *h = &handlers[call->req->op];

	call->rep = (struct kvd_rep){.op = call->req->op, .tag = call->req->tag};
	call->payload = NULL;
	if (h->admin && !core->sessions[call->session].admin)
		return -EPERM;
	return h->run(core, call);
}

static void count_result(struct core *core, const struct call *call, int result)
{
	if (result == KVD_STALE)
		core->counters[KVD_C_STALE]++;
	if (result != KVD_FULL)
		return;
	core->counters[KVD_C_REFUSED_FULL]++;
	core->spaces[core->sessions[call->session].space].refused_requests++;
}

void call_reply(struct core *core, struct call *call, int result)
{
	call->rep.op = call->req->op;
	call->rep.tag = call->req->tag;
	call->rep.result = result;
	if (result == KVD_FULL)
		call->rep.full = call->full;
	count_result(core, call, result);
	ASSERT(call->rep.out_bytes <= call->req->out_bytes);
	core->ops.reply(core->ctx, call->session, call->req, &call->rep, call->payload);
}

int call_request(struct core *core, uint32_t session, const struct kvd_req *req,
		 const uint8_t random[CORE_RANDOM_BYTES])
{
	struct session *s = &core->sessions[session];
	struct call call = {.req = req, .random = random, .session = session};

	if (req->op >= KVD_OP_COUNT || !handlers[req->op].run ||
	    (req->flags & ~handlers[req->op].flags))
		return -EPROTO;
	s->requests++;
	s->last_request_ns = core->now_ns;
	int result = call_run(core, &call);
	if (result == -EPROTO || result == -EFAULT)
		return result;
	if (result == KVD_FULL && handlers[req->op].waits &&
	    (req->deadline_ms > 0 || call.for_slab)) {
		result = wait_add(core, &call);
		if (result == 0)
			return 0;
	}
	if (result != CALL_LATER)
		call_reply(core, &call, result);
	return 0;
}
