/* SPDX-License-Identifier: Apache-2.0 */
/*
 * act_session.c: what a session does besides working on its leases: new leases, the magazine,
 * tickets of others, pins, questions.
 */
#include "tests/sim/act.h"

#include "tests/sim/coverage.h"
#include "tests/sim/memory.h"
#include "tests/sim/model.h"
#include "tests/sim/prompt.h"
#include "tests/sim/report.h"
#include "tests/sim/wire.h"

#include <string.h>

static uint32_t act_session_deadline(struct sim *sim)
{
	static const uint16_t deadlines_ms[] = {0, 0, 1, 5, 20, 100};

	return deadlines_ms[random_below(&sim->random, 6)];
}

/* A format that is registered in the session's namespace, or SIM_NONE after asking for one. */
static int act_session_format(struct sim *sim, int session)
{
	uint32_t space = sim->session[session].space;
	uint32_t f = random_below(&sim->random, sim->format_count);
	struct kvd_req req = {.op = KVD_OP_FORMAT};

	if (random_percent(&sim->random, 70))
		f = sim->hot_format;
	bool known = sim->format[f].id[space] != UINT32_MAX;
	if (known && !random_percent(&sim->random, 1))
		return (int)f;
	for (uint32_t i = 0; i < sim->format_count && !known; i++)
		if (sim->format[i].id[space] != UINT32_MAX && random_percent(&sim->random, 90))
			return (int)i;
	req.in_bytes = sizeof(struct kvd_format_wire);
	report_trace(sim, "session %d: FORMAT %u", session, f);
	wire_send(sim, session, req, &sim->format[f].wire, SIM_NONE, (int)f);
	return SIM_NONE;
}

static uint32_t act_session_length(struct sim *sim, uint32_t page_tokens)
{
	uint32_t blocks_max = page_tokens == 16 ? 6 : page_tokens == 32 ? 4 : 3;
	uint32_t n = random_below(&sim->random, blocks_max) * page_tokens;

	if (random_percent(&sim->random, 65))
		n += random_below(&sim->random, page_tokens);
	if (random_percent(&sim->random, 1))
		n = SIM_TOKENS_MAX - 64;
	return n ? n : 1;
}

/* Often somebody asks for what others are just working on. */
static void act_session_prompt(struct sim *sim, struct sim_sequence *out, uint32_t space,
			       uint32_t f)
{
	uint32_t first = random_below(&sim->random, SIM_LEASES_MAX);

	/* What nobody has now may lie in a tier. */
	if (sim->has_tiers && random_percent(&sim->depths, 50)) {
		prompt_make(sim, space, f, out);
		return;
	}
	for (uint32_t i = 0; i < SIM_LEASES_MAX && random_percent(&sim->random, 97); i++) {
		const struct sim_lease *other = &sim->lease[(first + i) % SIM_LEASES_MAX];
		if (!other->used || !other->id || &other->seq == out || other->seq.space != space ||
		    other->seq.format != f || other->seq.extra_count)
			continue;
		*out = other->seq;
		return;
	}
	prompt_make(sim, space, f, out);
}

void act_session_acquire(struct sim *sim, int session)
{
	struct sim_session *s = &sim->session[session];
	int f = act_session_format(sim, session);
	int index = f == SIM_NONE || !s->open ? SIM_NONE : model_new(sim, session);
	struct kvd_req req = {.op = KVD_OP_ACQUIRE};
	uint8_t in[SIM_IN_MAX];

	if (index == SIM_NONE)
		return;
	struct sim_lease *lease = &sim->lease[index];
	act_session_prompt(sim, &lease->seq, s->space, (uint32_t)f);
	req.n = act_session_length(sim, sim->format[f].page_tokens);
	prompt_add_extras(sim, &lease->seq, req.n);
	req.format = sim->format[f].id[s->space];
	req.m = lease->seq.extra_count;
	req.arg32 = random_below(&sim->random, 3);
	req.deadline_ms = act_session_deadline(sim);
	req.out_bytes =
		random_percent(&sim->random, 85) ? SIM_OUT_MAX : 8 * random_below(&sim->random, 6);
	if (random_percent(&sim->random, 6)) {
		req.flags = KVD_ACQUIRE_NO_HIT;
		lease->no_hit = true;
	}
	uint32_t token_bytes = req.n * (uint32_t)sizeof(uint32_t);
	req.in_bytes = token_bytes + req.m * (uint32_t)sizeof(struct kvd_extra);
	memcpy(in, lease->seq.tokens, token_bytes);
	memcpy(in + token_bytes, lease->seq.extras, req.in_bytes - token_bytes);
	report_trace(sim,
		     "session %d: ACQUIRE to lease %d, format %d, %u tokens, %u extras, "
		     "decode %u, flags %u, deadline %u",
		     session, index, f, req.n, req.m, req.arg32, req.flags, req.deadline_ms);
	wire_send(sim, session, req, in, index, SIM_NONE);
}

static void act_session_topup(struct sim *sim, int session)
{
	int f = act_session_format(sim, session);
	struct kvd_req req = {.op = KVD_OP_TOPUP};

	if (f == SIM_NONE)
		return;
	req.format = sim->format[f].id[sim->session[session].space];
	req.n = random_range(&sim->random, 1, 3);
	req.out_bytes = req.n * sim->format[f].parts * (uint32_t)sizeof(struct kvd_handle);
	req.deadline_ms = act_session_deadline(sim);
	report_trace(sim, "session %d: TOPUP %u blocks of format %d", session, req.n, f);
	wire_send(sim, session, req, NULL, SIM_NONE, f);
}

void act_session_return(struct sim *sim, int session, uint32_t f)
{
	struct sim_group *group = &sim->group[sim->session[session].group];
	uint32_t parts = sim->format[f].parts;
	struct kvd_req req = {.op = KVD_OP_RETURN};

	if (!group->count[f])
		return;
	const struct sim_magazine_block *block = &group->block[f][--group->count[f]];
	for (uint32_t part = 0; part < parts; part++)
		memory_drop(sim, block->page[part]);
	req.n = parts;
	req.in_bytes = parts * (uint32_t)sizeof(struct kvd_handle);
	report_trace(sim, "session %d: RETURN page %u", session, block->page[0].page);
	wire_send(sim, session, req, block->page, SIM_NONE, SIM_NONE);
}

static void act_session_claim(struct sim *sim, int session)
{
	struct kvd_req req = {.op = KVD_OP_CLAIM, .in_bytes = 16, .out_bytes = SIM_OUT_MAX};
	uint32_t first = random_below(&sim->random, SIM_TICKETS_MAX);
	uint8_t bytes[16];
	int found = SIM_NONE;

	memcpy(bytes, sim->spent_ticket, sizeof(bytes));
	for (uint32_t i = 0; i < SIM_TICKETS_MAX; i++) {
		uint32_t t = (first + i) % SIM_TICKETS_MAX;
		if (sim->ticket[t].used)
			found = (int)t;
	}
	if (random_percent(&sim->random, 15))
		found = SIM_NONE;
	if (found != SIM_NONE)
		memcpy(bytes, sim->ticket[found].bytes, sizeof(bytes));
	report_trace(sim, "session %d: CLAIM ticket %d", session, found);
	wire_send(sim, session, req, bytes, SIM_NONE, found);
}

static void act_session_pin(struct sim *sim, int session)
{
	struct sim_session *s = &sim->session[session];
	int f = act_session_format(sim, session);
	struct kvd_req req = {.op = KVD_OP_PIN};
	struct sim_sequence seq;
	int slot = SIM_NONE;

	for (int i = 0; i < (int)SIM_PINS_MAX; i++)
		if (!sim->pin[i].used)
			slot = i;
	if (f == SIM_NONE || slot == SIM_NONE)
		return;
	struct sim_pin *pin = &sim->pin[slot];
	prompt_make(sim, s->space, (uint32_t)f, &seq);
	pin->space = s->space;
	pin->format = (uint32_t)f;
	pin->n = req.n = act_session_length(sim, sim->format[f].page_tokens);
	memcpy(pin->tokens, seq.tokens, req.n * sizeof(uint32_t));
	req.format = sim->format[f].id[s->space];
	req.in_bytes = req.n * (uint32_t)sizeof(uint32_t);
	report_trace(sim, "session %d: PIN %u tokens of format %d", session, req.n, f);
	wire_send(sim, session, req, pin->tokens, SIM_NONE, slot);
}

void act_session_unpin(struct sim *sim, int session, int index)
{
	struct sim_pin *pin = &sim->pin[index];
	struct kvd_req req = {.op = KVD_OP_UNPIN};

	req.n = pin->pinned;
	req.format = sim->format[pin->format].id[pin->space];
	req.in_bytes = req.n * (uint32_t)sizeof(uint32_t);
	pin->used = false;
	for (uint32_t i = 0; i < SIM_PINS_MAX; i++) {
		struct sim_pin *same = &sim->pin[i];
		if (same->used && same->space == pin->space && same->format == pin->format &&
		    same->pinned == pin->pinned &&
		    memcmp(same->tokens, pin->tokens, req.in_bytes) == 0)
			same->used = false;
	}
	report_trace(sim, "session %d: UNPIN %u tokens of format %u", session, req.n, pin->format);
	wire_send(sim, session, req, pin->tokens, SIM_NONE, SIM_NONE);
}

static void act_session_some_unpin(struct sim *sim, int session)
{
	for (int i = 0; i < (int)SIM_PINS_MAX; i++)
		if (sim->pin[i].used && sim->pin[i].space == sim->session[session].space) {
			act_session_unpin(sim, session, i);
			return;
		}
}

static void act_session_why(struct sim *sim, int session)
{
	struct sim_session *s = &sim->session[session];
	int f = act_session_format(sim, session);
	struct kvd_req req = {.op = KVD_OP_WHY, .out_bytes = sizeof(struct kvd_why)};

	if (random_percent(sim->has_tiers ? &sim->depths : &sim->random, sim->has_tiers ? 60 : 20))
		req.op = KVD_OP_PREFETCH;
	if (f == SIM_NONE)
		return;
	uint32_t other = random_below(&sim->random, sim->format_count);
	act_session_prompt(sim, &sim->why_seq, s->space,
			   random_percent(&sim->random, 60) ? other : (uint32_t)f);
	prompt_reformat(&sim->why_seq, (uint32_t)f);
	req.n = act_session_length(sim, sim->format[f].page_tokens);
	if (random_percent(&sim->random, 70) && sim->lost_tokens &&
	    sim->lost_seq.space == s->space) {
		sim->why_seq = sim->lost_seq;
		f = (int)sim->lost_seq.format;
		req.n = sim->lost_tokens;
		if (random_percent(&sim->random, 40))
			sim->lost_tokens = 0;
	}
	req.format = sim->format[f].id[s->space];
	req.in_bytes = req.n * (uint32_t)sizeof(uint32_t);
	report_trace(sim, "session %d: %s %u tokens of format %d", session,
		     coverage_op_name(req.op), req.n, f);
	wire_send(sim, session, req, sim->why_seq.tokens, SIM_NONE, f);
}

static void act_session_small(struct sim *sim, int session)
{
	uint32_t f = random_below(&sim->random, sim->format_count);
	struct kvd_req req = {.op = KVD_OP_STAT, .out_bytes = sizeof(struct kvd_space_stat)};

	if (random_percent(&sim->random, 50)) {
		req = (struct kvd_req){.op = KVD_OP_RATE, .arg64 = 1000};
		if (sim->has_tiers)
			req.arg64 = 100ull << random_below(&sim->depths, 12);
		req.format = sim->format[f].id[sim->session[session].space];
		if (req.format == UINT32_MAX)
			return;
	}
	report_trace(sim, "session %d: %s", session, coverage_op_name(req.op));
	wire_send(sim, session, req, NULL, SIM_NONE, SIM_NONE);
}

void act_session_step(struct sim *sim, int session)
{
	uint32_t choice = random_below(&sim->random, 100);

	if (sim->session[session].row0.want_back_pages && random_percent(&sim->random, 50))
		choice = 50;
	if (choice < 36)
		act_session_topup(sim, session);
	else if (choice < 51)
		act_session_return(sim, session, random_below(&sim->random, sim->format_count));
	else if (choice < 63)
		act_session_claim(sim, session);
	else if (choice < 68)
		act_session_pin(sim, session);
	else if (choice < 74)
		act_session_some_unpin(sim, session);
	else if (choice < 94)
		act_session_why(sim, session);
	else
		act_session_small(sim, session);
}
