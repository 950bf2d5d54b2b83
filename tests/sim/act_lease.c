/* SPDX-License-Identifier: Apache-2.0 */
/*
 * act_lease.c: one move of a lease, as an engine makes it.
 *
 * Write a part of the next block, seal what is full, in order or not; ask for handles; put a
 * magazine page behind the last block; answer a CALL, lose patience, fork, hand over, release.
 */
#include "tests/sim/act.h"

#include "tests/sim/coverage.h"
#include "tests/sim/memory.h"
#include "tests/sim/model.h"
#include "tests/sim/oracle.h"
#include "tests/sim/prompt.h"
#include "tests/sim/report.h"
#include "tests/sim/wire.h"

#include <base/bits.h>
#include <string.h>

#define ACT_LEASE_WANT 3u

static uint32_t act_lease_page_tokens(const struct sim *sim, const struct sim_lease *lease)
{
	return sim->format[lease->seq.format].page_tokens;
}

/* An own page is there to write the block to, and there are tokens for it. */
static bool act_lease_own(const struct sim *sim, const struct sim_lease *lease, uint32_t block)
{
	return (block + 1) * act_lease_page_tokens(sim, lease) <= SIM_TOKENS_MAX &&
	       (lease->block[block].state == SIM_BLOCK_OPEN ||
		lease->block[block].state == SIM_BLOCK_BOUND);
}

/* Writes the block up to `end` tokens, after its tail was copied if there is one. */
static void act_lease_write(struct sim *sim, struct sim_lease *lease, uint32_t block, uint32_t end)
{
	if (block == lease->tail_block && lease->tail_tokens && !lease->tail_copied) {
		memory_check_lease(sim, lease);
		memory_copy_tail(sim, lease, block);
	}
	memory_write(sim, lease, block, end);
}

static uint32_t act_lease_bound(const struct sim *sim, const struct sim_lease *lease,
				uint32_t first, uint32_t count, struct kvd_handle *out)
{
	uint32_t parts = sim->format[lease->seq.format].parts;
	uint32_t used = 0;

	for (uint32_t b = first; b < first + count; b++)
		for (uint32_t part = 0; part < parts && lease->block[b].state == SIM_BLOCK_BOUND;
		     part++)
			out[used++] = lease->block[b].page[part];
	return used;
}

static void act_lease_sealed(struct sim *sim, struct sim_lease *lease, uint32_t first,
			     uint32_t count)
{
	uint32_t parts = sim->format[lease->seq.format].parts;

	for (uint32_t b = first; b < first + count; b++) {
		for (uint32_t part = 0; part < parts; part++)
			memory_drop(sim, lease->block[b].page[part]);
		lease->block[b].state = SIM_BLOCK_SEALED;
		if (b == lease->tail_block)
			lease->tail_tokens = 0;
	}
}

static void act_lease_seal(struct sim *sim, int index, uint32_t first)
{
	struct sim_lease *lease = &sim->lease[index];
	uint32_t page_tokens = act_lease_page_tokens(sim, lease);
	uint32_t count = 1;
	uint8_t in[SIM_IN_MAX];

	while (count < 4 && act_lease_own(sim, lease, first + count) &&
	       random_percent(&sim->random, 40))
		count++;
	for (uint32_t b = first; b < first + count; b++)
		act_lease_write(sim, lease, b, page_tokens);
	struct kvd_req req = {.op = KVD_OP_SEAL, .lease = lease->id, .first = first, .m = count};
	uint32_t end = (first + count) * page_tokens;
	if (end > lease->known_tokens)
		req.n = end - lease->known_tokens;
	memcpy(in, lease->seq.tokens + lease->known_tokens, req.n * sizeof(uint32_t));
	struct kvd_handle pages[4 * SIM_PARTS_MAX];
	req.arg32 = act_lease_bound(sim, lease, first, count, pages);
	memcpy(in + req.n * sizeof(uint32_t), pages, req.arg32 * sizeof(pages[0]));
	req.in_bytes = req.n * sizeof(uint32_t) + req.arg32 * sizeof(pages[0]);
	if (req.arg32)
		coverage_count("seal, magazine");
	act_lease_sealed(sim, lease, first, count);
	report_trace(sim, "lease %d: SEAL blocks %u + %u, %u tokens, %u pages", index, first, count,
		     req.n, req.arg32);
	wire_send(sim, lease->session, req, in, index, SIM_NONE);
}

static uint32_t act_lease_deadline(struct sim *sim)
{
	static const uint16_t deadlines_ms[] = {0, 0, 1, 5, 20, 100};

	return deadlines_ms[random_below(&sim->random, 6)];
}

static void act_lease_extend(struct sim *sim, int index, uint32_t first, uint32_t flags)
{
	struct sim_lease *lease = &sim->lease[index];
	uint32_t parts = sim->format[lease->seq.format].parts;
	struct kvd_req req = {.op = KVD_OP_EXTEND, .lease = lease->id, .first = first};

	req.flags = (uint16_t)flags;
	req.m = random_range(&sim->random, 1, ACT_LEASE_WANT);
	if (first + req.m > SIM_BLOCKS_MAX)
		req.m = SIM_BLOCKS_MAX - first;
	req.out_bytes = req.m * parts * (uint32_t)sizeof(struct kvd_handle);
	if (random_percent(&sim->random, 10))
		req.out_bytes = random_below(&sim->random, req.out_bytes + 1) & ~7u;
	req.deadline_ms = act_lease_deadline(sim);
	if (flags & KVD_EXTEND_CALL)
		req.arg32 = model_row(sim, lease)->event_seq;
	if (!flags && random_percent(&sim->random, 10)) {
		req.n = random_below(&sim->random, 9);
		if (lease->known_tokens + req.n > SIM_TOKENS_MAX)
			req.n = 0;
	}
	req.in_bytes = req.n * sizeof(uint32_t);
	report_trace(sim, "lease %d: EXTEND blocks %u + %u, %u tokens, flags %u, deadline %u",
		     index, first, req.m, req.n, flags, req.deadline_ms);
	wire_send(sim, lease->session, req, lease->seq.tokens + lease->known_tokens, index,
		  SIM_NONE);
}

/* A magazine page behind the last block. False: the magazine is empty. */
static bool act_lease_bind(struct sim *sim, int index, uint32_t block)
{
	struct sim_lease *lease = &sim->lease[index];
	struct sim_group *group = &sim->group[sim->session[lease->session].group];
	uint32_t f = lease->seq.format;

	if (!group->count[f])
		return false;
	const struct sim_magazine_block *from = &group->block[f][--group->count[f]];
	lease->block[block] = (struct sim_block){.state = SIM_BLOCK_BOUND};
	for (uint32_t part = 0; part < sim->format[f].parts; part++) {
		lease->block[block].page[part] = from->page[part];
		sim->page[from->page[part].page].writer = index;
	}
	report_trace(sim, "lease %d: bind page %u to block %u", index, from->page[0].page, block);
	return true;
}

/* There is no own page to write: get one. */
static void act_lease_grow(struct sim *sim, int index)
{
	struct sim_lease *lease = &sim->lease[index];
	uint32_t page_tokens = act_lease_page_tokens(sim, lease);
	uint32_t b = lease->build_from / page_tokens;

	while (b < SIM_BLOCKS_MAX && lease->block[b].state != SIM_BLOCK_UNKNOWN)
		b++;
	if ((b + 1) * page_tokens > SIM_TOKENS_MAX - 16) {
		act_lease_release(sim, index);
		return;
	}
	if (b < lease->granted_blocks || random_percent(&sim->random, 15))
		act_lease_extend(sim, index, b, 0);
	else if (!act_lease_bind(sim, index, b) && random_percent(&sim->random, 10))
		act_lease_release(sim, index);
}

static void act_lease_compute(struct sim *sim, int index)
{
	struct sim_lease *lease = &sim->lease[index];
	uint32_t page_tokens = act_lease_page_tokens(sim, lease);
	uint32_t b = model_first_open(sim, lease);

	if (model_row(sim, lease)->ready_tokens < lease->build_from &&
	    random_percent(&sim->random, 90))
		return;
	if (b < SIM_BLOCKS_MAX && !act_lease_own(sim, lease, b)) {
		act_lease_release(sim, index);
		return;
	}
	if (b >= SIM_BLOCKS_MAX) {
		act_lease_grow(sim, index);
		return;
	}
	if (random_percent(&sim->random, 25)) {
		act_lease_write(sim, lease, b, random_below(&sim->random, page_tokens));
		return;
	}
	if (random_percent(&sim->random, 6) && act_lease_own(sim, lease, b + 1))
		b++;
	act_lease_seal(sim, index, b);
}

/* The unfinished block behind everything that is sealed or given, or SIM_BLOCKS_MAX. */
static uint32_t act_lease_live_tail(const struct sim *sim, const struct sim_lease *lease)
{
	uint32_t b = 0;

	while (b < SIM_BLOCKS_MAX && (lease->block[b].state == SIM_BLOCK_READ ||
				      lease->block[b].state == SIM_BLOCK_SEALED))
		b++;
	return act_lease_own(sim, lease, b) ? b : SIM_BLOCKS_MAX;
}

static bool act_lease_keep_tail(struct sim *sim, int index, struct kvd_req *req)
{
	struct sim_lease *lease = &sim->lease[index];
	uint32_t page_tokens = act_lease_page_tokens(sim, lease);
	uint32_t b = act_lease_live_tail(sim, lease);

	if (b == SIM_BLOCKS_MAX || b * page_tokens >= SIM_TOKENS_MAX - page_tokens)
		return false;
	struct sim_block *block = &lease->block[b];
	if (block->state == SIM_BLOCK_BOUND && sim->format[lease->seq.format].parts > 1)
		return false;
	act_lease_write(sim, lease, b, random_range(&sim->random, 1, page_tokens - 1));
	if (block->written == 0 || block->written >= page_tokens)
		return false;
	req->flags = KVD_RELEASE_KEEP_TAIL;
	req->first = b;
	req->m = block->written;
	if (block->state == SIM_BLOCK_BOUND)
		req->arg64 = (uint64_t)block->page[0].generation << 32 | block->page[0].page;
	uint32_t end = b * page_tokens + block->written;
	req->n = end > lease->known_tokens ? end - lease->known_tokens : 0;
	req->in_bytes = req->n * sizeof(uint32_t);
	block->state = SIM_BLOCK_OPEN;
	coverage_count(req->arg64 ? "release, tail of the magazine" : "release, tail");
	return true;
}

void act_lease_release(struct sim *sim, int index)
{
	struct sim_lease *lease = &sim->lease[index];
	struct kvd_req req = {.op = KVD_OP_RELEASE, .lease = lease->id};
	uint32_t tokens[SIM_TOKENS_MAX];

	if (model_row(sim, lease)->state != KVD_LEASE_REVOKED && !lease->no_hit &&
	    random_percent(&sim->random, 50))
		act_lease_keep_tail(sim, index, &req);
	memcpy(tokens, lease->seq.tokens + lease->known_tokens, req.in_bytes);
	report_trace(sim, "lease %d: RELEASE %#llx, flags %u, block %u, %u valid, %u tokens", index,
		     (unsigned long long)lease->id, req.flags, req.first, req.m, req.n);
	model_drop(sim, index);
	wire_send(sim, lease->session, req, tokens, SIM_NONE, SIM_NONE);
}

static void act_lease_fork(struct sim *sim, int index)
{
	struct sim_lease *lease = &sim->lease[index];
	uint32_t page_tokens = act_lease_page_tokens(sim, lease);
	uint32_t b = act_lease_live_tail(sim, lease);
	struct kvd_req req = {.op = KVD_OP_FORK, .lease = lease->id};

	if (b == SIM_BLOCKS_MAX || lease->block[b].state != SIM_BLOCK_OPEN ||
	    b * page_tokens != model_row(sim, lease)->ready_tokens)
		return;
	int fork = model_new(sim, lease->session);
	if (fork == SIM_NONE)
		return;
	struct sim_lease *child = &sim->lease[fork];
	child->seq = lease->seq;
	child->no_hit = lease->no_hit;
	req.first = b;
	req.m = lease->block[b].written % page_tokens;
	req.arg32 = random_below(&sim->random, 2);
	req.out_bytes = SIM_OUT_MAX;
	child->parent = index;
	child->known_tokens = BITS_MIN(lease->known_tokens, b * page_tokens + req.m);
	child->granted_blocks = b + req.arg32 + (req.m > 0);
	prompt_cut_extras(&child->seq, child->known_tokens);
	if (random_percent(&sim->random, 50))
		prompt_diverge(sim, &child->seq,
			       BITS_MAX(child->known_tokens, b * page_tokens + req.m));
	report_trace(sim, "lease %d: FORK to %d, block %u, tail %u", index, fork, b, req.m);
	wire_send(sim, lease->session, req, NULL, fork, index);
}

/* Forks copy the live tail before it moves away: another process may break while writing there. */
static bool act_lease_tail_wanted(const struct sim *sim, int index)
{
	for (uint32_t i = 0; i < SIM_LEASES_MAX; i++) {
		const struct sim_lease *child = &sim->lease[i];
		if (child->used && child->parent == index && child->tail_tokens &&
		    !child->tail_copied)
			return true;
	}
	return false;
}

static void act_lease_handoff(struct sim *sim, int index)
{
	static const uint16_t ttl_ms[] = {1, 10, 50, 500};
	struct sim_lease *lease = &sim->lease[index];
	struct kvd_req req = {.op = KVD_OP_HANDOFF, .lease = lease->id, .out_bytes = 16};
	int slot = SIM_NONE;

	for (int i = 0; i < (int)SIM_TICKETS_MAX; i++)
		if (!sim->ticket[i].used)
			slot = i;
	if (slot == SIM_NONE || act_lease_tail_wanted(sim, index))
		return;
	for (uint32_t b = 0; b < SIM_BLOCKS_MAX; b++)
		if (lease->block[b].state == SIM_BLOCK_BOUND)
			model_unbind(sim, lease, b);
	model_drop_useless(sim, index);
	lease->tail_tokens = 0; /* a CLAIM does not name it again */
	req.arg32 = ttl_ms[random_below(&sim->random, 4)];
	sim->ticket[slot] = (struct sim_ticket){
		.lease = index,
		.space = lease->seq.space,
		.expires_ns = sim->now_ns + req.arg32 * 1000000ull,
	};
	report_trace(sim, "lease %d: HANDOFF, %u ms", index, req.arg32);
	wire_send(sim, lease->session, req, NULL, SIM_NONE, slot);
}

static void act_lease_fetch(struct sim *sim, int index)
{
	struct sim_lease *lease = &sim->lease[index];
	uint32_t b = 0;

	while (b + 1 < SIM_BLOCKS_MAX && lease->block[b].state != SIM_BLOCK_UNKNOWN)
		b++;
	if (random_percent(&sim->random, 10))
		b = random_below(&sim->random, b + 1);
	act_lease_extend(sim, index, b, 0);
}

/* It has waited long enough. */
static void act_lease_take(struct sim *sim, int index)
{
	const struct sim_lease *lease = &sim->lease[index];
	uint32_t ready = model_row(sim, lease)->ready_tokens;

	coverage_count(oracle_computed(sim, lease) ? "take, of a lease" : "take, of a load");
	act_lease_extend(sim, index, ready / act_lease_page_tokens(sim, lease), KVD_EXTEND_TAKE);
}

static void act_lease_any(struct sim *sim, int index)
{
	struct sim_lease *lease = &sim->lease[index];
	bool follows = model_row(sim, lease)->ready_tokens < lease->build_from;
	uint32_t choice = random_below(&sim->random, 100);

	if (choice < 62 && !random_percent(&sim->random, sim->pace_percent))
		return;
	if (choice < 62)
		act_lease_compute(sim, index);
	else if (choice < 76)
		act_lease_fetch(sim, index);
	else if (choice < 80)
		act_lease_release(sim, index);
	else if (choice < 84)
		act_lease_fork(sim, index);
	else if (choice < 87)
		act_lease_handoff(sim, index);
	else if (choice < 96 && follows)
		act_lease_take(sim, index);
}

/* Writes other tokens over those of an ACQUIRE that waits: each attempt must copy them anew. */
static void act_lease_change_mind(struct sim *sim, int pending)
{
	struct sim_pending *p = &sim->pending[pending];

	if (p->req.op != KVD_OP_ACQUIRE)
		return;
	struct sim_lease *lease = &sim->lease[p->lease];
	prompt_diverge(sim, &lease->seq, random_below(&sim->random, p->req.n));
	memcpy(p->in, lease->seq.tokens, p->req.n * sizeof(uint32_t));
	coverage_count("payload, changed while it waits");
}

static void act_lease_cancel(struct sim *sim, int index)
{
	const struct sim_lease *lease = &sim->lease[index];
	struct kvd_req req = {.op = KVD_OP_CANCEL};

	if (random_percent(&sim->random, 3))
		act_lease_change_mind(sim, lease->pending);
	if (!random_percent(&sim->random, 6))
		return;
	req.arg32 = sim->pending[lease->pending].req.tag;
	report_trace(sim, "lease %d: CANCEL #%u", index, req.arg32);
	wire_send(sim, lease->session, req, NULL, SIM_NONE, SIM_NONE);
}

void act_lease_step(struct sim *sim, int index)
{
	struct sim_lease *lease = &sim->lease[index];

	if (lease->pending != SIM_NONE) {
		act_lease_cancel(sim, index);
		return;
	}
	const struct kvd_lease_row *row = model_row(sim, lease);
	REPORT_REQUIRE(sim,
		       row->generation == KVD_LEASE_GENERATION(lease->id) &&
			       row->state != KVD_LEASE_NONE,
		       "lease %#llx: its row says generation %u state %u",
		       (unsigned long long)lease->id, row->generation, row->state);
	if (row->state == KVD_LEASE_REVOKED) {
		if (random_percent(&sim->random, 40))
			act_lease_release(sim, index);
	} else if (row->state == KVD_LEASE_CALL && random_percent(&sim->random, 70)) {
		act_lease_extend(sim, index, row->ready_tokens / act_lease_page_tokens(sim, lease),
				 KVD_EXTEND_CALL);
	} else {
		act_lease_any(sim, index);
	}
}
