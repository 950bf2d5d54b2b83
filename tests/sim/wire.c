/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.c: requests out, replies in, each exactly once.
 *
 * Every request gets a slot and a tag that names it. A reply must fit a slot in use: a second
 * reply, a reply to a closed session, one that is longer than the room that was reserved, or none
 * at all is a fault. Lease rows are compared with the ones before: generations and events never go
 * back, and what was readable stays readable.
 */
#include "tests/sim/wire.h"

#include "tests/sim/client.h"
#include "tests/sim/coverage.h"
#include "tests/sim/journal.h"
#include "tests/sim/life.h"
#include "tests/sim/orders.h"
#include "tests/sim/report.h"
#include "tests/sim/tiers.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

struct sim_pending *wire_pending(struct sim *sim, uint32_t tag)
{
	struct sim_pending *p = &sim->pending[tag % SIM_PENDING_MAX];

	return p->used && p->req.tag == tag ? p : NULL;
}

static struct sim_pending *wire_slot(struct sim *sim)
{
	for (uint32_t i = 0; i < SIM_PENDING_MAX; i++) {
		sim->next_tag++;
		struct sim_pending *p = &sim->pending[sim->next_tag % SIM_PENDING_MAX];
		if (!p->used)
			return p;
	}
	report_fail(sim, "no slot left: too many requests are never answered");
}

/* The devices on which the request may need memory: of garbage, all. */
static uint32_t wire_devices(const struct sim *sim, const struct sim_pending *p)
{
	uint32_t f = p->lease == SIM_NONE ? 0 : sim->lease[p->lease].seq.format;
	bool prefetches = p->req.op == KVD_OP_PREFETCH && sim->has_tiers;
	uint32_t devices = 0;

	if (p->req.op != KVD_OP_ACQUIRE && p->req.op != KVD_OP_EXTEND && p->req.op != KVD_OP_FORK &&
	    p->req.op != KVD_OP_TOPUP && !prefetches)
		return 0;
	if (p->silent)
		return UINT32_MAX;
	if (p->req.op == KVD_OP_TOPUP || prefetches)
		f = (uint32_t)p->aux;
	for (uint32_t part = 0; part < sim->format[f].parts; part++)
		devices |= 1u << sim->format[f].wire.parts[part].device;
	return devices;
}

/*
 * The request ends. Who was not served at once was short of memory, for all that is known; of a
 * PREFETCH nobody is told.
 */
static void wire_end(struct sim *sim, struct sim_pending *p, int result)
{
	p->used = false;
	if (result == 0 && !p->waits && p->req.op != KVD_OP_PREFETCH)
		return;
	for (uint32_t d = 0; d < sim->config.device_count; d++)
		if (p->devices >> d & 1)
			sim->short_step[d] = sim->step;
}

bool wire_short_since(const struct sim *sim, uint32_t device, uint64_t step)
{
	bool is_short = sim->short_step[device] >= step;

	for (uint32_t i = 0; i < SIM_PENDING_MAX; i++)
		is_short |= sim->pending[i].used && (sim->pending[i].devices >> device & 1);
	return is_short;
}

void wire_forget(struct sim *sim, int session)
{
	for (uint32_t i = 0; i < SIM_PENDING_MAX; i++)
		if (sim->pending[i].used && sim->pending[i].session == session)
			wire_end(sim, &sim->pending[i], -ECANCELED);
}

bool wire_send(struct sim *sim, int session, struct kvd_req req, const void *in, int lease, int aux)
{
	struct sim_pending *p = wire_slot(sim);
	uint8_t bytes[CORE_RANDOM_BYTES];

	req.tag = sim->next_tag;
	p->used = true;
	p->silent = lease == WIRE_SILENT;
	p->faulty = p->silent && sim->next_faulty;
	sim->next_faulty = false;
	p->req = req;
	p->session = session;
	p->lease = lease < 0 ? SIM_NONE : lease;
	p->aux = aux;
	p->tokens_after = p->lease == SIM_NONE ? 0 : sim->lease[lease].known_tokens + req.n;
	p->devices = wire_devices(sim, p);
	p->waits = false;
	p->due_ns = sim->now_ns + req.deadline_ms * 1000000ull;
	if (req.in_bytes && req.in_bytes <= SIM_IN_MAX)
		memcpy(p->in, in, req.in_bytes);
	if (p->lease != SIM_NONE)
		sim->lease[p->lease].pending = (int)(p - sim->pending);
	for (uint32_t i = 0; i < CORE_RANDOM_BYTES; i++)
		bytes[i] = (uint8_t)random_u64(&sim->random);
	int rc = core_request(sim->core, sim->session[session].number, &req, bytes, sim->now_ns);
	p->waits = p->req.tag == req.tag && p->used;
	if (rc == 0)
		return true;
	REPORT_REQUIRE(sim, rc == -EPROTO || rc == -EFAULT, "core_request returned %d", rc);
	REPORT_REQUIRE(sim, wire_pending(sim, req.tag) == p,
		       "a request was answered and refused as well");
	REPORT_REQUIRE(sim, p->silent, "%s of an honest client refused with %d",
		       coverage_op_name(req.op), rc);
	coverage_refused(rc);
	life_break(sim, session);
	return false;
}

static int wire_payload(void *ctx, uint32_t session, const struct kvd_req *req, void *out)
{
	struct sim *sim = ctx;
	struct sim_pending *p = wire_pending(sim, req->tag);

	REPORT_REQUIRE(sim, p, "payload of an unknown request is asked for");
	REPORT_REQUIRE(sim, sim->by_number[session] == p->session,
		       "payload asked for in another session's name");
	if (req->in_bytes > SIM_IN_MAX || p->faulty)
		return -EFAULT;
	memcpy(out, p->in, req->in_bytes);
	return 0;
}

static void wire_digest(struct sim *sim, const struct kvd_rep *rep)
{
	uint64_t words[sizeof(*rep) / sizeof(uint64_t)];

	memcpy(words, rep, sizeof(words));
	for (uint32_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		sim->digest = random_mix(sim->digest ^ words[i]) + 1;
}

static void wire_reply(void *ctx, uint32_t session, const struct kvd_req *req,
		       const struct kvd_rep *rep, const void *payload)
{
	struct sim *sim = ctx;
	struct sim_pending *p = wire_pending(sim, req->tag);

	REPORT_REQUIRE(sim, p, "reply to a request that is not in flight (%s)",
		       coverage_op_name(req->op));
	REPORT_REQUIRE(sim, sim->by_number[session] == p->session, "reply to another session (%s)",
		       coverage_op_name(req->op));
	REPORT_REQUIRE(sim, !sim->session[p->session].expelled,
		       "reply to a session that was expelled (%s)", coverage_op_name(req->op));
	REPORT_REQUIRE(sim, memcmp(req, &p->req, sizeof(*req)) == 0,
		       "the reply brings another request back");
	REPORT_REQUIRE(sim, rep->op == req->op && rep->tag == req->tag,
		       "the reply's op and tag are not the request's");
	REPORT_REQUIRE(sim, rep->out_bytes <= req->out_bytes, "%u bytes of payload, room for %u",
		       rep->out_bytes, req->out_bytes);
	REPORT_REQUIRE(sim, rep->result < KVD_OUTCOME_COUNT && rep->result != KVD_GONE,
		       "unknown outcome %d", rep->result);
	report_trace(sim, "  reply %s #%u: %d lease %#" PRIx64 " words %" PRIx64 " %" PRIx64,
		     coverage_op_name(rep->op), rep->tag, rep->result, rep->lease, rep->words[0],
		     rep->words[1]);
	coverage_reply(rep->op, rep->result);
	wire_digest(sim, rep);
	wire_end(sim, p, rep->result);
	if (p->lease != SIM_NONE)
		sim->lease[p->lease].pending = SIM_NONE;
	client_reply(sim, p, rep, payload);
}

static void wire_lease_row(void *ctx, uint32_t session, uint32_t row,
			   const struct kvd_lease_row *value)
{
	struct sim *sim = ctx;
	int s = sim->by_number[session];

	REPORT_REQUIRE(sim, s != SIM_NONE && row > 0 && row < SIM_ROWS_MAX,
		       "row %u of session %u does not exist", row, session);
	struct kvd_lease_row *old = &sim->session[s].row[row];
	REPORT_REQUIRE(sim, value->state <= KVD_LEASE_REVOKED, "row state %u", value->state);
	REPORT_REQUIRE(sim, value->generation >= old->generation, "row %u: generation %u after %u",
		       row, value->generation, old->generation);
	if (value->generation == old->generation) {
		REPORT_REQUIRE(sim, value->event_seq >= old->event_seq, "row %u: event %u after %u",
			       row, value->event_seq, old->event_seq);
		REPORT_REQUIRE(
			sim,
			value->state == KVD_LEASE_NONE || value->ready_tokens >= old->ready_tokens,
			"row %u: ready %u after %u", row, value->ready_tokens, old->ready_tokens);
	}
	if (value->state != old->state)
		coverage_row(value->state);
	if (value->state == KVD_LEASE_CALL && value->event_seq != old->event_seq && sim->moving)
		coverage_count("call, after a load");
	*old = *value;
}

static void wire_session_row(void *ctx, uint32_t session, const struct kvd_session_row *value)
{
	struct sim *sim = ctx;
	int s = sim->by_number[session];

	if (s == SIM_NONE)
		s = sim->opening;
	REPORT_REQUIRE(sim, s != SIM_NONE, "row 0 of session %u does not exist", session);
	if (value->retiring_slab && value->retiring_slab != sim->session[s].row0.retiring_slab)
		orders_require_idle(sim, value->retiring_slab - 1);
	sim->session[s].row0 = *value;
}

static void wire_order(void *ctx, const struct core_order *order)
{
	orders_order(ctx, order);
}

static void wire_transfer(void *ctx, const struct core_transfer *transfer)
{
	tiers_transfer(ctx, transfer);
}

static void wire_record(void *ctx, const struct core_record *record)
{
	journal_record(ctx, record);
}

/* Who is expelled ends after the step of the core, see life_expel(). */
static void wire_expel(void *ctx, uint32_t session)
{
	struct sim *sim = ctx;
	int s = sim->by_number[session];

	REPORT_REQUIRE(sim,
		       s != SIM_NONE && sim->session[s].open && sim->session[s].row0.retiring_slab,
		       "session %u is expelled, which was asked for no slab", session);
	report_trace(sim, "  expel session %d", s);
	sim->session[s].expelled = true;
}

static void wire_note(void *ctx, enum core_note_kind kind, const char *text)
{
	struct sim *sim = ctx;

	report_trace(sim, "  note: %s", text);
}

const struct core_ops wire_ops = {
	.payload = wire_payload,
	.reply = wire_reply,
	.lease_row = wire_lease_row,
	.session_row = wire_session_row,
	.order = wire_order,
	.transfer = wire_transfer,
	.record = wire_record,
	.expel = wire_expel,
	.note = wire_note,
};
