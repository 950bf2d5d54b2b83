/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostile.c: lies, of two kinds.
 *
 * A wrong request differs from a right one in exactly one place, and must be refused, or its
 * session be found broken; in either case nothing else may change. Garbage is anything at all, and
 * comes from sessions that have a namespace to themselves: it may have any effect there, and none
 * anywhere else.
 */
#include "tests/sim/hostile.h"

#include "tests/sim/coverage.h"
#include "tests/sim/life.h"
#include "tests/sim/model.h"
#include "tests/sim/prompt.h"
#include "tests/sim/report.h"
#include "tests/sim/wire.h"

#include <base/bits.h>
#include <string.h>

/* What is wrong, and what it makes of the request. False: not possible now. */
struct hostile_lie {
	const char *name;
	bool fatal; /* mostly found to break the session */
	bool (*tell)(struct sim *sim, int session, struct kvd_req *req, uint8_t *in);
};

static const struct sim_lease *hostile_lease_of(struct sim *sim, int session, bool own)
{
	uint32_t first = random_below(&sim->random, SIM_LEASES_MAX);

	for (uint32_t i = 0; i < SIM_LEASES_MAX; i++) {
		const struct sim_lease *lease = &sim->lease[(first + i) % SIM_LEASES_MAX];
		if (lease->used && lease->id && !lease->moving &&
		    (lease->session == session) == own)
			return lease;
	}
	return NULL;
}

static void hostile_about_lease(struct sim *sim, struct kvd_req *req, uint64_t id)
{
	static const uint16_t ops[] = {KVD_OP_EXTEND, KVD_OP_SEAL, KVD_OP_FORK, KVD_OP_RELEASE,
				       KVD_OP_HANDOFF};

	*req = (struct kvd_req){.op = ops[random_below(&sim->random, ARRAY_LEN(ops))], .lease = id};
	req->out_bytes = 64;
	if (req->op == KVD_OP_SEAL || req->op == KVD_OP_EXTEND)
		req->m = 1;
	if (req->op == KVD_OP_HANDOFF)
		req->arg32 = 10;
}

static bool hostile_stale_lease(struct sim *sim, int session, struct kvd_req *req, uint8_t *in)
{
	const struct sim_lease *lease = hostile_lease_of(sim, session, true);

	if (!lease)
		return false;
	uint32_t generation = KVD_LEASE_GENERATION(lease->id);
	generation += random_percent(&sim->random, 50) ? 1 : UINT32_MAX;
	hostile_about_lease(sim, req, KVD_LEASE_ID(KVD_LEASE_ROW(lease->id), generation));
	return true;
}

static bool hostile_row_outside(struct sim *sim, int session, struct kvd_req *req, uint8_t *in)
{
	static const uint32_t rows[] = {0, SIM_ROWS_MAX, 4096, UINT32_MAX};

	hostile_about_lease(sim, req, KVD_LEASE_ID(rows[random_below(&sim->random, 4)], 1));
	return true;
}

static bool hostile_return_one(struct sim *sim, struct kvd_req *req, uint8_t *in,
			       struct kvd_handle page)
{
	*req = (struct kvd_req){.op = KVD_OP_RETURN, .n = 1, .in_bytes = sizeof(page)};
	memcpy(in, &page, sizeof(page));
	return true;
}

static bool hostile_return_stale(struct sim *sim, int session, struct kvd_req *req, uint8_t *in)
{
	const struct sim_group *group = &sim->group[sim->session[session].group];

	for (uint32_t f = 0; f < sim->format_count; f++)
		if (group->count[f]) {
			struct kvd_handle page = group->block[f][0].page[0];
			page.generation += random_percent(&sim->random, 50) ? 1 : UINT32_MAX;
			return hostile_return_one(sim, req, in, page);
		}
	return false;
}

static bool hostile_return_foreign(struct sim *sim, int session, struct kvd_req *req, uint8_t *in)
{
	for (int g = 0; g < (int)SIM_GROUPS_MAX; g++)
		for (uint32_t f = 0; f < sim->format_count; f++)
			if (sim->group[g].used && g != sim->session[session].group &&
			    sim->group[g].count[f])
				return hostile_return_one(sim, req, in,
							  sim->group[g].block[f][0].page[0]);
	return false;
}

/* A page of a lease, own or not, is not the magazine's to return. */
static bool hostile_return_leased(struct sim *sim, int session, struct kvd_req *req, uint8_t *in)
{
	const struct sim_lease *lease =
		hostile_lease_of(sim, session, random_percent(&sim->random, 50));

	for (uint32_t b = 0; lease && b < SIM_BLOCKS_MAX; b++)
		if (lease->block[b].state != SIM_BLOCK_UNKNOWN &&
		    lease->block[b].state != SIM_BLOCK_BOUND && random_percent(&sim->random, 50))
			return hostile_return_one(sim, req, in, lease->block[b].page[0]);
	return false;
}

static bool hostile_return_nonsense(struct sim *sim, int session, struct kvd_req *req, uint8_t *in)
{
	struct kvd_handle page = {.page = SIM_PAGES_MAX, .generation = 1};

	if (random_percent(&sim->random, 50))
		page.page = (uint32_t)random_u64(&sim->random) | 0x100;
	return hostile_return_one(sim, req, in, page);
}

/* Is the page, for all that kvd knows, of the magazine of this group? */
static bool hostile_in_magazine(const struct sim *sim, uint32_t page, int group)
{
	int writer = sim->page[page].writer;

	if (writer >= (int)SIM_LEASES_MAX)
		return writer - (int)SIM_LEASES_MAX == group;
	if (writer == SIM_NONE || sim->lease[writer].moving)
		return false;
	return sim->session[sim->lease[writer].session].group == group;
}

/* The next block of an own lease, with a page that is not of this session's magazine. */
static bool hostile_seal_foreign(struct sim *sim, int session, struct kvd_req *req, uint8_t *in)
{
	const struct sim_lease *lease = hostile_lease_of(sim, session, true);
	struct kvd_handle page = {.page = random_below(&sim->random, SIM_PAGES_MAX)};

	if (!lease || lease->pending != SIM_NONE || sim->format[lease->seq.format].parts > 1)
		return false;
	uint32_t page_tokens = sim->format[lease->seq.format].page_tokens;
	uint32_t block = lease->granted_blocks;
	if (lease->known_tokens > block * page_tokens || block + 1 >= SIM_BLOCKS_MAX ||
	    hostile_in_magazine(sim, page.page, sim->session[session].group))
		return false;
	page.generation = sim->page[page.page].generation;
	*req = (struct kvd_req){.op = KVD_OP_SEAL, .lease = lease->id, .first = block, .m = 1};
	req->n = (block + 1) * page_tokens - lease->known_tokens;
	req->arg32 = 1;
	memcpy(in, lease->seq.tokens + lease->known_tokens, req->n * sizeof(uint32_t));
	memcpy(in + req->n * sizeof(uint32_t), &page, sizeof(page));
	req->in_bytes = req->n * (uint32_t)sizeof(uint32_t) + (uint32_t)sizeof(page);
	return true;
}

static bool hostile_seal_nothing(struct sim *sim, int session, struct kvd_req *req, uint8_t *in)
{
	const struct sim_lease *lease = hostile_lease_of(sim, session, true);

	if (!lease)
		return false;
	*req = (struct kvd_req){.op = KVD_OP_SEAL, .lease = lease->id, .m = 1};
	req->first = random_percent(&sim->random, 50) ? SIM_BLOCKS_MAX + 1 : UINT32_MAX;
	return true;
}

static bool hostile_format_unknown(struct sim *sim, int session, struct kvd_req *req, uint8_t *in)
{
	static const uint16_t ops[] = {KVD_OP_ACQUIRE, KVD_OP_TOPUP, KVD_OP_WHY, KVD_OP_PIN,
				       KVD_OP_UNPIN};
	uint32_t space = sim->session[session].space;
	uint32_t format = UINT32_MAX - random_below(&sim->random, 2) * 12345;

	if (random_percent(&sim->random, 70)) {
		format = sim->format[random_below(&sim->random, sim->format_count)]
				 .id[(space + 1) % sim->space_count];
	}
	*req = (struct kvd_req){.op = ops[random_below(&sim->random, ARRAY_LEN(ops))], .n = 20};
	req->format = format;
	req->in_bytes = req->op == KVD_OP_TOPUP ? 0 : 80;
	req->out_bytes = 512;
	memset(in, 0, 80);
	return true;
}

static bool hostile_size(struct sim *sim, int session, struct kvd_req *req, uint8_t *in)
{
	static const uint16_t ops[] = {KVD_OP_ACQUIRE, KVD_OP_WHY,    KVD_OP_PIN,
				       KVD_OP_CLAIM,   KVD_OP_RETURN, KVD_OP_FORMAT};
	static const uint32_t counts[] = {0, 19, 21, 1u << 20, UINT32_MAX, 0x40000001};

	*req = (struct kvd_req){.op = ops[random_below(&sim->random, ARRAY_LEN(ops))]};
	req->format = sim->format[0].id[sim->session[session].space];
	req->n = counts[random_below(&sim->random, ARRAY_LEN(counts))];
	req->in_bytes = 80;
	req->out_bytes = 512;
	memset(in, 1, 80);
	return true;
}

static bool hostile_unreadable(struct sim *sim, int session, struct kvd_req *req, uint8_t *in)
{
	*req = (struct kvd_req){.op = KVD_OP_WHY, .n = 20, .in_bytes = 80, .out_bytes = 512};
	req->format = sim->format[0].id[sim->session[session].space];
	if (req->format == UINT32_MAX)
		return false;
	sim->next_faulty = true;
	return true;
}

/* An identity that is known, with other sizes, and formats that are none. */
static bool hostile_format(struct sim *sim, int session, struct kvd_req *req, uint8_t *in)
{
	struct kvd_format_wire wire = sim->format[0].wire;

	if (sim->format[0].id[sim->session[session].space] == UINT32_MAX)
		return false;
	switch (random_below(&sim->random, 4)) {
	case 0:
		wire.page_tokens = 17;
		break;
	case 1:
		wire.part_count = KVD_PARTS_MAX + 1;
		break;
	case 2:
		wire.parts[0].align = 3;
		break;
	default:
		wire.parts[0].page_bytes += 16;
		break;
	}
	if (sim->config.device_count > 1 && random_percent(&sim->places, 40)) {
		wire = sim->format[0].wire;
		wire.parts[0].device =
			sim->config.device_count + random_below(&sim->places, 2) * UINT16_MAX;
	}
	*req = (struct kvd_req){.op = KVD_OP_FORMAT, .in_bytes = sizeof(wire)};
	memcpy(in, &wire, sizeof(wire));
	return true;
}

static bool hostile_slab(struct sim *sim, int session, struct kvd_req *req, uint8_t *in)
{
	*req = (struct kvd_req){.op = KVD_OP_SLAB_GONE, .arg32 = SIM_SLABS_MAX};
	return true;
}

static bool hostile_unpin(struct sim *sim, int session, struct kvd_req *req, uint8_t *in)
{
	*req = (struct kvd_req){.op = KVD_OP_UNPIN, .n = 20, .in_bytes = 80};
	req->format = sim->format[0].id[sim->session[session].space];
	memset(in, 0xee, 80);
	return req->format != UINT32_MAX;
}

static bool hostile_op(struct sim *sim, int session, struct kvd_req *req, uint8_t *in)
{
	static const uint16_t ops[] = {0, KVD_OP_COUNT, 77, UINT16_MAX};

	*req = (struct kvd_req){.op = ops[random_below(&sim->random, ARRAY_LEN(ops))]};
	return true;
}

static bool hostile_flags(struct sim *sim, int session, struct kvd_req *req, uint8_t *in)
{
	*req = (struct kvd_req){.op = KVD_OP_ACQUIRE, .n = 20, .in_bytes = 80};
	req->format = sim->format[0].id[sim->session[session].space];
	req->flags = (uint16_t)(2u << random_below(&sim->random, 14));
	memset(in, 0, 80);
	return true;
}

static bool hostile_extras(struct sim *sim, int session, struct kvd_req *req, uint8_t *in)
{
	struct kvd_extra extra = {.token_pos = 20 + random_below(&sim->random, 2) * 1000000};

	*req = (struct kvd_req){.op = KVD_OP_ACQUIRE, .n = 20, .m = 1, .in_bytes = 80 + 24};
	req->format = sim->format[0].id[sim->session[session].space];
	memset(in, 0, 80);
	memcpy(in + 80, &extra, sizeof(extra));
	return true;
}

static bool hostile_admin(struct sim *sim, int session, struct kvd_req *req, uint8_t *in)
{
	static const uint16_t ops[] = {KVD_OP_EVICT, KVD_OP_LIST, KVD_OP_CHECK, KVD_OP_DRAIN,
				       KVD_OP_VERIFY};

	*req = (struct kvd_req){.op = ops[random_below(&sim->random, ARRAY_LEN(ops))]};
	req->arg32 = 1;
	req->arg64 = 100;
	req->out_bytes = 512;
	return true;
}

static const struct hostile_lie hostile_lies[] = {
	{"a stale lease", false, hostile_stale_lease},
	{"a lease row that is not there", false, hostile_row_outside},
	{"RETURN of a stale page", false, hostile_return_stale},
	{"RETURN of another group's page", false, hostile_return_foreign},
	{"RETURN of a lease's page", false, hostile_return_leased},
	{"RETURN of no page", false, hostile_return_nonsense},
	{"SEAL with another's page", false, hostile_seal_foreign},
	{"SEAL of no block", false, hostile_seal_nothing},
	{"another namespace's format", false, hostile_format_unknown},
	{"a size that does not fit", true, hostile_size},
	{"no such op", true, hostile_op},
	{"no such flag", true, hostile_flags},
	{"extras beyond the tokens", false, hostile_extras},
	{"an admin request", false, hostile_admin},
	{"a payload that cannot be read", true, hostile_unreadable},
	{"no such format", false, hostile_format},
	{"UNPIN of what nobody asked for", false, hostile_unpin},
	{"SLAB_GONE of no slab", false, hostile_slab},
};

static void hostile_require_same(struct sim *sim, const struct kvd_status *a,
				 const struct kvd_status *b, const char *name)
{
	REPORT_REQUIRE(
		sim,
		memcmp(a->pages_by_state, b->pages_by_state, sizeof(a->pages_by_state)) == 0 &&
			a->promised_pages == b->promised_pages && a->nodes == b->nodes &&
			a->leases == b->leases && a->slab_bytes == b->slab_bytes &&
			a->waiting_requests == b->waiting_requests && a->draining == b->draining,
		"%s had an effect", name);
}

void hostile_wrong(struct sim *sim, int session)
{
	static struct kvd_status before;
	static struct kvd_status after;
	const struct hostile_lie *lie =
		&hostile_lies[random_below(&sim->random, ARRAY_LEN(hostile_lies))];
	struct kvd_req req;
	uint8_t in[SIM_IN_MAX] = {0};

	if ((lie->fatal && random_percent(&sim->random, 90)) || !lie->tell(sim, session, &req, in))
		return;
	/* What is about to move is no effect of the lie. */
	for (uint32_t i = 0; i < 32 && sim->has_tiers && (i == 0 || core_busy(sim->core)); i++)
		core_time(sim->core, sim->now_ns);
	life_expel(sim);
	if (!sim->session[session].open)
		return;
	coverage_count(lie->name);
	report_trace(sim, "session %d: hostile: %s (%s)", session, lie->name,
		     coverage_op_name(req.op));
	core_status(sim->core, &before);
	if (!wire_send(sim, session, req, in, WIRE_SILENT, WIRE_MUST_FAIL))
		return;
	REPORT_REQUIRE(sim, !wire_pending(sim, sim->next_tag), "a lie is left waiting");
	core_status(sim->core, &after);
	hostile_require_same(sim, &before, &after, lie->name);
}

static uint32_t hostile_number(struct sim *sim)
{
	static const uint32_t odd[] = {0,  0,  0,  1,  1,    1,	       2,	 3,	    7,
				       15, 16, 17, 64, 4095, 1u << 20, 1u << 31, UINT32_MAX};

	return odd[random_below(&sim->random, ARRAY_LEN(odd))];
}

static void hostile_payload(struct sim *sim, const struct sim_session *s, uint8_t *in,
			    uint32_t bytes)
{
	for (uint32_t at = 0; at + 8 <= bytes; at += 8) {
		struct kvd_handle page = s->last_pages[random_below(&sim->random, 4)];
		uint32_t tokens[2] = {random_below(&sim->random, 3), at & 3};
		if (random_percent(&sim->random, 30))
			memcpy(in + at, &page, sizeof(page));
		else
			memcpy(in + at, tokens, sizeof(tokens));
	}
}

/* Makes the counts small and the payload's size what they say, so that more is looked at. */
static void hostile_fit(struct sim *sim, struct kvd_req *req)
{
	req->n %= 70;
	req->m %= 5;
	req->first %= 6;
	req->arg32 %= 4;
	switch (req->op) {
	case KVD_OP_ACQUIRE:
		req->in_bytes = req->n * 4 + req->m * 24;
		break;
	case KVD_OP_SEAL:
		req->in_bytes = req->n * 4 + req->arg32 * 8;
		break;
	case KVD_OP_RETURN:
		req->in_bytes = req->n * 8;
		break;
	case KVD_OP_CLAIM:
		req->in_bytes = 16;
		break;
	case KVD_OP_FORMAT:
		req->in_bytes = sizeof(struct kvd_format_wire);
		break;
	case KVD_OP_EXTEND:
	case KVD_OP_RELEASE:
	case KVD_OP_PIN:
	case KVD_OP_UNPIN:
	case KVD_OP_WHY:
	case KVD_OP_PREFETCH:
		req->in_bytes = req->n * 4;
		break;
	default:
		break;
	}
}

void hostile_garbage(struct sim *sim, int session)
{
	struct sim_session *s = &sim->session[session];
	uint8_t in[SIM_IN_MAX] = {0};
	struct kvd_req req = {
		.op = (uint16_t)random_below(&sim->random, KVD_OP_COUNT + 1),
		.lease = s->last_leases[random_below(&sim->random, 4)],
		.format = sim->format[random_below(&sim->random, sim->format_count)].id[s->space],
		.n = hostile_number(sim),
		.first = hostile_number(sim),
		.m = hostile_number(sim),
		.out_bytes = SIM_OUT_MAX,
		.deadline_ms = random_below(&sim->random, 3) * 5,
		.arg32 = hostile_number(sim),
		.arg64 = hostile_number(sim),
	};
	struct kvd_handle page = s->last_pages[random_below(&sim->random, 4)];

	if (req.op == KVD_OP_HELLO || req.op == KVD_OP_SLAB || req.op == KVD_OP_BYE ||
	    req.op == KVD_OP_PIN)
		return;
	if (random_percent(&sim->random, 20))
		req.flags = (uint16_t)random_below(&sim->random, 4);
	if (random_percent(&sim->random, 5))
		req.lease += 1ull << 32;
	if (random_percent(&sim->random, 30))
		req.arg64 = (uint64_t)page.generation << 32 | page.page;
	if (random_percent(&sim->random, 80))
		hostile_fit(sim, &req);
	else
		req.in_bytes = hostile_number(sim);
	if (req.in_bytes <= SIM_IN_MAX)
		hostile_payload(sim, s, in, req.in_bytes);
	report_trace(sim, "session %d: garbage %s n %u first %u m %u arg %u bytes %u", session,
		     coverage_op_name(req.op), req.n, req.first, req.m, req.arg32, req.in_bytes);
	wire_send(sim, session, req, in, WIRE_SILENT, SIM_NONE);
}
