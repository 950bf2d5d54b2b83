/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.c: answers, each compared with what an honest client may expect.
 *
 * For each op there is a list of results that honest use can lead to; any other is a fault. What
 * the answer says is then taken into the models, where it meets everything else that is known.
 */
#include "tests/sim/client.h"

#include "tests/sim/coverage.h"
#include "tests/sim/memory.h"
#include "tests/sim/model.h"
#include "tests/sim/orders.h"
#include "tests/sim/prompt.h"
#include "tests/sim/report.h"
#include "tests/sim/wire.h"

#include <base/bits.h>
#include <errno.h>
#include <string.h>

#define CLIENT_RESULTS_MAX 8u

/* Besides 0. */
static const int16_t client_results[KVD_OP_COUNT][CLIENT_RESULTS_MAX] = {
	[KVD_OP_FORMAT] = {-ENOSPC},
	[KVD_OP_ACQUIRE] = {KVD_FULL, KVD_BUSY, KVD_DRAINING, -ECANCELED, -E2BIG, -ENOSPC},
	[KVD_OP_EXTEND] = {KVD_FULL, KVD_BUSY, -ECANCELED, -E2BIG},
	[KVD_OP_SEAL] = {KVD_KEPT},
	[KVD_OP_FORK] = {KVD_FULL, KVD_DRAINING, -ENOSPC, -E2BIG},
	[KVD_OP_RELEASE] = {0},
	[KVD_OP_TOPUP] = {KVD_FULL, KVD_BUSY, -ECANCELED, -E2BIG},
	[KVD_OP_RETURN] = {0},
	[KVD_OP_HANDOFF] = {0},
	[KVD_OP_CLAIM] = {KVD_MISS, -ENOSPC},
	[KVD_OP_PREFETCH] = {-E2BIG},
	[KVD_OP_PIN] = {KVD_MISS, KVD_FULL, -E2BIG},
	[KVD_OP_UNPIN] = {KVD_MISS},
	[KVD_OP_EVICT] = {0},
	[KVD_OP_CANCEL] = {KVD_MISS},
	[KVD_OP_WHY] = {-E2BIG},
	[KVD_OP_VERIFY] = {-EBUSY, -ENODEV, -EINVAL},
};

static void client_allowed(struct sim *sim, const struct sim_pending *p, int result)
{
	bool allowed = result == 0;

	/* A rank died while it waited. */
	if (p->req.op == KVD_OP_EXTEND && result == KVD_STALE)
		allowed = model_row(sim, &sim->lease[p->lease])->state == KVD_LEASE_REVOKED;
	for (uint32_t i = 0; i < CLIENT_RESULTS_MAX; i++)
		allowed |= client_results[p->req.op][i] == result;
	REPORT_REQUIRE(sim, allowed, "an honest %s is answered with %d",
		       coverage_op_name(p->req.op), result);
}

/* The most pages of the format that one of its devices can have left. */
static uint64_t client_pages_most(struct sim *sim, const struct sim_format *f)
{
	uint64_t stride = bits_align_up(f->wire.parts[0].page_bytes, sim->config.page_align_bytes);
	uint64_t most = 0;

	for (uint32_t part = 0; part < f->parts; part++) {
		uint32_t device = f->wire.parts[part].device;
		uint64_t left = sim->config.pool_bytes[device] - memory_held_bytes(sim, device);
		most = BITS_MAX(most, left / stride);
	}
	return most;
}

/* The format that the request is about. */
static const struct sim_format *client_format(const struct sim *sim, const struct sim_pending *p)
{
	if (p->req.op == KVD_OP_TOPUP)
		return &sim->format[p->aux];
	if (p->req.op == KVD_OP_PIN)
		return NULL;
	return &sim->format[sim->lease[p->lease].seq.format];
}

static void client_full(struct sim *sim, const struct sim_pending *p, const struct kvd_rep *rep)
{
	const struct sim_format *f = client_format(sim, p);
	uint64_t most = f ? client_pages_most(sim, f) : SIM_PAGES_MAX;

	REPORT_REQUIRE(sim,
		       rep->full.needed_pages > 0 &&
			       rep->full.free_pages + rep->full.evictable_pages <= most,
		       "a refusal with needed %llu, free %llu, evictable %llu, of %llu at most",
		       (unsigned long long)rep->full.needed_pages,
		       (unsigned long long)rep->full.free_pages,
		       (unsigned long long)rep->full.evictable_pages, (unsigned long long)most);
	if (f && f->wire.parts[0].device > 0)
		coverage_count("refusal, another device");
	if (f && f->wire.parts[0].device != f->wire.parts[f->parts - 1].device)
		coverage_count("refusal, two devices");
}

static void client_acquired(struct sim *sim, const struct sim_pending *p, const struct kvd_rep *rep,
			    const struct kvd_handle *handles)
{
	struct sim_lease *lease = &sim->lease[p->lease];

	if (rep->result != 0) {
		lease->used = false;
		return;
	}
	uint32_t floor = lease->no_hit ? 0 : model_floor(sim, &lease->seq, p->req.n, p->lease);
	REPORT_REQUIRE(sim, rep->at.cached_tokens >= floor,
		       "cached %u tokens of %u, though %u are held", rep->at.cached_tokens,
		       p->req.n, floor);
	REPORT_REQUIRE(sim, !lease->no_hit || (rep->at.cached_tokens == 0 && !rep->at.tail_tokens),
		       "a cold run is given a hit");
	REPORT_REQUIRE(sim, rep->at.cached_tokens <= p->req.n && rep->at.build_from <= p->req.n,
		       "cached %u, build from %u of %u", rep->at.cached_tokens, rep->at.build_from,
		       p->req.n);
	lease->known_tokens = p->req.n;
	uint32_t page_tokens = sim->format[lease->seq.format].page_tokens;
	lease->granted_blocks = (uint32_t)bits_div_ceil(p->req.n, page_tokens) + p->req.arg32;
	lease->hit_blocks = rep->at.cached_tokens / page_tokens;
	model_adopt(sim, p->lease, rep, handles);
	REPORT_REQUIRE(sim, lease->tail_tokens <= p->req.n - lease->build_from,
		       "a tail of %u tokens from %u of %u", lease->tail_tokens, lease->build_from,
		       p->req.n);
}

static void client_claimed(struct sim *sim, const struct sim_pending *p, const struct kvd_rep *rep,
			   const struct kvd_handle *handles)
{
	struct sim_ticket *ticket = p->aux == SIM_NONE ? NULL : &sim->ticket[p->aux];
	bool valid = ticket && ticket->used && ticket->space == sim->session[p->session].space;

	REPORT_REQUIRE(sim, rep->result != 0 || valid, "a ticket that is not valid is accepted");
	REPORT_REQUIRE(sim, rep->result != KVD_MISS || !valid, "a valid ticket is refused");
	if (rep->result != 0)
		return;
	struct sim_lease *lease = &sim->lease[ticket->lease];
	lease->session = p->session;
	lease->moving = false;
	lease->id = rep->lease;
	REPORT_REQUIRE(sim, rep->aux >> 32 == lease->known_tokens, "a claim of %u tokens, not %u",
		       (uint32_t)(rep->aux >> 32), lease->known_tokens);
	model_drop_useless(sim, ticket->lease);
	model_adopt(sim, ticket->lease, rep, handles);
	ticket->used = false;
	memcpy(sim->spent_ticket, ticket->bytes, sizeof(sim->spent_ticket));
	coverage_count("ticket claimed");
}

static void client_forked(struct sim *sim, const struct sim_pending *p, const struct kvd_rep *rep,
			  const struct kvd_handle *handles)
{
	struct sim_lease *child = &sim->lease[p->lease];

	if (rep->result != 0) {
		child->used = false;
		return;
	}
	model_adopt(sim, p->lease, rep, handles);
	REPORT_REQUIRE(sim, child->tail_tokens == p->req.m, "a fork with %u tokens of tail, not %u",
		       child->tail_tokens, p->req.m);
	coverage_count(child->tail_tokens ? "fork, tail" : "fork, no tail");
}

static void client_extended(struct sim *sim, const struct sim_pending *p, const struct kvd_rep *rep,
			    const struct kvd_handle *handles)
{
	struct sim_lease *lease = &sim->lease[p->lease];

	if (rep->result != 0)
		return;
	lease->known_tokens = BITS_MAX(lease->known_tokens, p->tokens_after);
	/* As libkvd does: the tail belonged to the block that was next. */
	if (rep->at.build_from != lease->build_from)
		lease->tail_tokens = 0;
	lease->build_from = rep->at.build_from;
	if (lease->build_from / sim->format[lease->seq.format].page_tokens > lease->tail_block)
		lease->tail_tokens = 0; /* somebody else has computed that block */
	if (p->req.flags) {
		lease->event_seq_seen = rep->at.event_seq;
		coverage_event(rep->at.event);
		coverage_count(p->req.flags & KVD_EXTEND_TAKE ? "extend, take" : "extend, call");
	}
	model_take_handles(sim, p->lease, p->req.first, rep->at.handle_count, handles);
	memory_check_lease(sim, lease);
}

static void client_sealed(struct sim *sim, const struct sim_pending *p, const struct kvd_rep *rep)
{
	struct sim_lease *lease = &sim->lease[p->lease];
	uint32_t published = rep->result == KVD_OK ? p->req.m : rep->at.handle_count;

	REPORT_REQUIRE(sim, published <= p->req.m && (rep->result == 0) == (published == p->req.m),
		       "seal of %u blocks: result %d, %u published", p->req.m, rep->result,
		       published);
	REPORT_REQUIRE(sim, !lease->no_hit || published == 0, "a cold run publishes");
	lease->known_tokens = BITS_MAX(lease->known_tokens, p->tokens_after);
	for (uint32_t i = 0; i < p->req.m; i++)
		lease->block[p->req.first + i].published = i < published;
}

static void client_topped(struct sim *sim, const struct sim_pending *p, const struct kvd_rep *rep,
			  const struct kvd_handle *handles)
{
	const struct sim_format *format = &sim->format[p->aux];
	int g = sim->session[p->session].group;
	struct sim_group *group = &sim->group[g];

	if (rep->result != 0)
		return;
	REPORT_REQUIRE(sim, rep->out_bytes == p->req.n * format->parts * sizeof(struct kvd_handle),
		       "topup of %u blocks brings %u bytes", p->req.n, rep->out_bytes);
	for (uint32_t i = 0; i < p->req.n; i++) {
		struct sim_magazine_block *block = &group->block[p->aux][group->count[p->aux]++];
		for (uint32_t part = 0; part < format->parts; part++) {
			block->page[part] = handles[i * format->parts + part];
			memory_grant(sim, block->page[part], group->space, (uint32_t)p->aux, part,
				     MEMORY_WRITER_GROUP(g));
			orders_import(sim, p->session, block->page[part].page);
		}
	}
}

static void client_ticket(struct sim *sim, const struct sim_pending *p, const struct kvd_rep *rep,
			  const void *payload)
{
	struct sim_ticket *ticket = &sim->ticket[p->aux];
	struct sim_lease *lease = &sim->lease[ticket->lease];

	REPORT_REQUIRE(sim, rep->result == 0 && rep->out_bytes == sizeof(ticket->bytes),
		       "handoff: %d, %u bytes", rep->result, rep->out_bytes);
	memcpy(ticket->bytes, payload, sizeof(ticket->bytes));
	ticket->used = true;
	lease->moving = true;
	lease->session = SIM_NONE;
}

static void client_pinned(struct sim *sim, const struct sim_pending *p, const struct kvd_rep *rep)
{
	struct sim_pin *pin = &sim->pin[p->aux];

	if (rep->result != 0)
		return;
	REPORT_REQUIRE(sim, rep->at.cached_tokens > 0 && rep->at.cached_tokens <= pin->n,
		       "pinned %u tokens of %u", rep->at.cached_tokens, pin->n);
	pin->pinned = rep->at.cached_tokens;
	pin->used = true;
}

static void client_why(struct sim *sim, const struct sim_pending *p, const struct kvd_rep *rep,
		       const void *payload)
{
	struct kvd_why why;
	struct sim_sequence *seq = &sim->why_seq;
	uint32_t floor = model_floor(sim, seq, p->req.n, SIM_NONE);

	REPORT_REQUIRE(sim, rep->out_bytes == sizeof(why), "why: %u bytes", rep->out_bytes);
	memcpy(&why, payload, sizeof(why));
	REPORT_REQUIRE(sim, why.hit_tokens <= p->req.n && why.hit_tokens >= floor,
		       "why: hit of %u tokens of %u, %u are held", why.hit_tokens, p->req.n, floor);
	REPORT_REQUIRE(
		sim, why.cause <= KVD_WHY_SHORT || (why.cause == KVD_WHY_IN_TIER && sim->has_tiers),
		"why: cause %u", why.cause);
	REPORT_REQUIRE(sim, memchr(why.text, 0, sizeof(why.text)), "why: text without end");
	coverage_why(why.cause);
}

static void client_stat(struct sim *sim, const struct sim_pending *p, const struct kvd_rep *rep,
			const void *payload)
{
	uint32_t space = sim->session[p->session].space;
	struct kvd_space_stat stat;
	uint32_t sessions = 0;

	REPORT_REQUIRE(sim, rep->out_bytes == sizeof(stat), "STAT: %u bytes", rep->out_bytes);
	memcpy(&stat, payload, sizeof(stat));
	for (uint32_t i = 0; i < SIM_SESSIONS_MAX; i++)
		sessions += sim->session[i].open && sim->session[i].space == space;
	REPORT_REQUIRE(sim,
		       stat.space == space && stat.sessions == sessions &&
			       stat.pages <= SIM_PAGES_MAX &&
			       stat.cached_tokens <= stat.prompt_tokens,
		       "STAT of namespace %u: number %u, %u sessions of %u", space, stat.space,
		       stat.sessions, sessions);
}

static void client_verify(struct sim *sim, const struct kvd_rep *rep, const void *payload)
{
	struct kvd_verify found;

	if (rep->result != 0)
		return;
	REPORT_REQUIRE(sim, rep->out_bytes == sizeof(found), "VERIFY: %u bytes", rep->out_bytes);
	memcpy(&found, payload, sizeof(found));
	REPORT_REQUIRE(sim,
		       found.blocks == sim->verify.blocks && found.bytes == sim->verify.bytes &&
			       found.bad == sim->verify.bad && found.failed == sim->verify.failed,
		       "VERIFY read %u blocks, %u bad, %u failed; it says %u, %u, %u",
		       (uint32_t)sim->verify.blocks, (uint32_t)sim->verify.bad,
		       (uint32_t)sim->verify.failed, (uint32_t)found.blocks, (uint32_t)found.bad,
		       (uint32_t)found.failed);
	coverage_count(found.bad      ? "VERIFY, bad blocks"
		       : found.failed ? "VERIFY, failed blocks"
		       : found.blocks ? "VERIFY, good blocks"
				      : "VERIFY, no blocks");
	if (!rep->aux)
		coverage_count("VERIFY, all");
}

static void client_prefetched(struct sim *sim, const struct sim_pending *p,
			      const struct kvd_rep *rep)
{
	if (rep->result != 0)
		return;
	REPORT_REQUIRE(sim,
		       rep->at.cached_tokens <= p->req.n &&
			       rep->at.cached_tokens >=
				       model_floor(sim, &sim->why_seq, p->req.n, SIM_NONE),
		       "prefetch: %u tokens of %u", rep->at.cached_tokens, p->req.n);
	REPORT_REQUIRE(sim, rep->at.cached_tokens + rep->aux <= p->req.n,
		       "prefetch: %u tokens are there, %u are loaded, of %u", rep->at.cached_tokens,
		       (uint32_t)rep->aux, p->req.n);
	if (rep->aux)
		coverage_count("prefetch, load");
}

static void client_admin(struct sim *sim, const struct sim_pending *p, const struct kvd_rep *rep,
			 const void *payload)
{
	switch (p->req.op) {
	case KVD_OP_EVICT:
		REPORT_REQUIRE(sim, rep->aux <= p->req.arg64, "evicted %llu pages, not %llu",
			       (unsigned long long)rep->aux, (unsigned long long)p->req.arg64);
		break;
	case KVD_OP_CHECK:
		REPORT_REQUIRE(sim, rep->out_bytes == 0, "CHECK: %.*s", (int)rep->out_bytes,
			       (const char *)payload);
		break;
	case KVD_OP_STAT:
		client_stat(sim, p, rep, payload);
		break;
	case KVD_OP_FORMAT:
		if (rep->result == 0)
			sim->format[p->aux].id[sim->session[p->session].space] = (uint32_t)rep->aux;
		break;
	default:
		break;
	}
}

/* Garbage may be answered in any way; what the answer names is kept for more garbage. */
static void client_evil(struct sim *sim, const struct sim_pending *p, const struct kvd_rep *rep,
			const void *payload)
{
	struct sim_session *s = &sim->session[p->session];
	struct kvd_handle page;

	REPORT_REQUIRE(sim, rep->result != 0 || p->aux != WIRE_MUST_FAIL, "a lie is accepted (%s)",
		       coverage_op_name(p->req.op));
	if (rep->result != 0)
		return;
	if (rep->lease)
		s->last_leases[random_below(&sim->random, 4)] = rep->lease;
	if (rep->out_bytes >= sizeof(page)) {
		memcpy(&page, payload, sizeof(page));
		s->last_pages[random_below(&sim->random, 4)] = page;
	}
}

static void client_dispatch(struct sim *sim, const struct sim_pending *p, const struct kvd_rep *rep,
			    const void *payload)
{
	switch (p->req.op) {
	case KVD_OP_ACQUIRE:
		client_acquired(sim, p, rep, payload);
		break;
	case KVD_OP_CLAIM:
		client_claimed(sim, p, rep, payload);
		break;
	case KVD_OP_FORK:
		client_forked(sim, p, rep, payload);
		break;
	case KVD_OP_EXTEND:
		client_extended(sim, p, rep, payload);
		break;
	case KVD_OP_SEAL:
		client_sealed(sim, p, rep);
		break;
	case KVD_OP_TOPUP:
		client_topped(sim, p, rep, payload);
		break;
	case KVD_OP_HANDOFF:
		client_ticket(sim, p, rep, payload);
		break;
	case KVD_OP_PIN:
		client_pinned(sim, p, rep);
		break;
	case KVD_OP_WHY:
		if (rep->result == 0)
			client_why(sim, p, rep, payload);
		break;
	case KVD_OP_PREFETCH:
		client_prefetched(sim, p, rep);
		break;
	case KVD_OP_VERIFY:
		client_verify(sim, rep, payload);
		break;
	default:
		client_admin(sim, p, rep, payload);
		break;
	}
}

void client_reply(struct sim *sim, const struct sim_pending *p, const struct kvd_rep *rep,
		  const void *payload)
{
	if (p->silent) {
		client_evil(sim, p, rep, payload);
		return;
	}
	client_allowed(sim, p, rep->result);
	if (rep->result == KVD_FULL)
		client_full(sim, p, rep);
	client_dispatch(sim, p, rep, payload);
}
