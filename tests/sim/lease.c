/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease.c: what one lease is, seen from its client.
 *
 * The client learns of pages from replies only: a handle of a block that is readable is somebody's
 * (or its own sealed) page, any other is its own to write. Both are checked against what all other
 * models hold.
 */
#include "tests/sim/lease.h"

#include "tests/sim/coverage.h"
#include "tests/sim/memory.h"
#include "tests/sim/report.h"
#include "tests/sim/sequence.h"
#include "tests/sim/slabs.h"

#include <base/bits.h>
#include <string.h>

int lease_new(struct sim *sim, int session)
{
	for (int i = 0; i < (int)SIM_LEASES_MAX; i++) {
		struct sim_lease *lease = &sim->lease[i];
		if (lease->used)
			continue;
		memset(lease, 0, sizeof(*lease));
		lease->used = true;
		lease->session = session;
		lease->pending = SIM_NONE;
		return i;
	}
	return SIM_NONE;
}

const struct kvd_lease_row *lease_row(const struct sim *sim, const struct sim_lease *lease)
{
	return &sim->session[lease->session].row[KVD_LEASE_ROW(lease->id) % SIM_ROWS_MAX];
}

static void lease_take_block(struct sim *sim, int index, uint32_t b, const struct kvd_handle *pages)
{
	struct sim_lease *lease = &sim->lease[index];
	struct sim_session *session = &sim->session[lease->session];
	const struct sim_format *format = &sim->format[lease->seq.format];
	struct sim_block *block = &lease->block[b];
	bool readable = (b + 1) * format->page_tokens <= lease_row(sim, lease)->ready_tokens;
	bool own = block->state == SIM_BLOCK_OPEN || block->state == SIM_BLOCK_BOUND;

	for (uint32_t part = 0; part < format->parts; part++) {
		if (block->state == SIM_BLOCK_UNKNOWN && !readable)
			memory_grant(sim, pages[part], session->space, lease->seq.format, part,
				     index);
		else
			memory_show(sim, pages[part], session->space, lease->seq.format, part);
		REPORT_REQUIRE(sim, !own || pages[part].page == block->page[part].page,
			       "lease model %d: own page of block %u changed", index, b);
		slabs_import(sim, lease->session, pages[part].page);
		if (block->state == SIM_BLOCK_UNKNOWN)
			block->page[part] = pages[part];
	}
	if (block->state != SIM_BLOCK_UNKNOWN)
		return;
	REPORT_REQUIRE(sim, readable || (b + 1) * format->page_tokens > lease->build_from,
		       "lease model %d: page of block %u, which others compute", index, b);
	block->state = readable ? SIM_BLOCK_READ : SIM_BLOCK_OPEN;
	block->published = readable;
}

void lease_take_handles(struct sim *sim, int index, uint32_t first, uint32_t count,
			const struct kvd_handle *handles)
{
	uint32_t parts = sim->format[sim->lease[index].seq.format].parts;

	REPORT_REQUIRE(sim, count % parts == 0 && first + count / parts <= SIM_BLOCKS_MAX,
		       "%u handles from block %u", count, first);
	for (uint32_t i = 0; i < count / parts; i++)
		if (handles[i * parts].page != KVD_PAGE_NONE)
			lease_take_block(sim, index, first + i, &handles[i * parts]);
}

static void lease_take_tail(struct sim *sim, int index, const struct kvd_rep_lease *at)
{
	struct sim_lease *lease = &sim->lease[index];
	const struct sim_format *format = &sim->format[lease->seq.format];

	lease->tail_tokens = 0;
	if (!at->tail_tokens)
		return;
	REPORT_REQUIRE(sim, at->tail_tokens < format->page_tokens, "a tail of %u tokens",
		       at->tail_tokens);
	memory_show(sim, at->tail, sim->session[lease->session].space, lease->seq.format, 0);
	slabs_import(sim, lease->session, at->tail.page);
	lease->tail_tokens = at->tail_tokens;
	lease->tail[0] = at->tail;
	lease->tail_copied = false;
	coverage_count("tail");
}

void lease_adopt(struct sim *sim, int index, const struct kvd_rep *rep,
		 const struct kvd_handle *handles)
{
	struct sim_lease *lease = &sim->lease[index];
	const struct sim_format *format = &sim->format[lease->seq.format];
	uint32_t row = KVD_LEASE_ROW(rep->lease);

	REPORT_REQUIRE(sim, rep->lease && row > 0 && row < SIM_ROWS_MAX, "lease %#llx",
		       (unsigned long long)rep->lease);
	lease->id = rep->lease;
	const struct kvd_lease_row *value = lease_row(sim, lease);
	REPORT_REQUIRE(sim,
		       value->generation == KVD_LEASE_GENERATION(rep->lease) &&
			       (value->state == KVD_LEASE_OK || value->state == KVD_LEASE_CALL),
		       "lease %#llx: its row says generation %u state %u",
		       (unsigned long long)rep->lease, value->generation, value->state);
	REPORT_REQUIRE(sim,
		       rep->at.cached_tokens % format->page_tokens == 0 &&
			       rep->at.cached_tokens <= value->ready_tokens &&
			       rep->at.build_from >= rep->at.cached_tokens,
		       "cached %u, build from %u, ready %u", rep->at.cached_tokens,
		       rep->at.build_from, value->ready_tokens);
	lease->cached_tokens = rep->at.cached_tokens;
	lease->build_from = rep->at.build_from;
	lease->event_seq_seen = rep->at.event_seq;
	REPORT_REQUIRE(sim,
		       (rep->at.event == KVD_EVENT_FOLLOW) ==
			       (rep->at.build_from > value->ready_tokens),
		       "event %u, build from %u, ready %u", rep->at.event, rep->at.build_from,
		       value->ready_tokens);
	coverage_event(rep->at.event);
	lease_take_handles(sim, index, 0, rep->at.handle_count, handles);
	lease_take_tail(sim, index, &rep->at);
	memory_check_lease(sim, lease);
}

void lease_unbind(struct sim *sim, struct sim_lease *lease, uint32_t b)
{
	int g = sim->session[lease->session].group;
	struct sim_group *group = &sim->group[g];
	struct sim_block *block = &lease->block[b];
	uint32_t f = lease->seq.format;

	REPORT_REQUIRE(sim, group->count[f] < SIM_MAGAZINE_MAX, "magazine model is full");
	struct sim_magazine_block *to = &group->block[f][group->count[f]++];
	for (uint32_t part = 0; part < sim->format[f].parts; part++) {
		to->page[part] = block->page[part];
		sim->page[block->page[part].page].writer = MEMORY_WRITER_GROUP(g);
	}
	*block = (struct sim_block){.state = SIM_BLOCK_UNKNOWN};
}

void lease_drop(struct sim *sim, int index)
{
	struct sim_lease *lease = &sim->lease[index];
	uint32_t parts = sim->format[lease->seq.format].parts;

	for (uint32_t b = 0; b < SIM_BLOCKS_MAX; b++) {
		struct sim_block *block = &lease->block[b];
		if (block->state == SIM_BLOCK_BOUND)
			lease_unbind(sim, lease, b);
		for (uint32_t part = 0; part < parts && block->state == SIM_BLOCK_OPEN; part++)
			memory_drop(sim, block->page[part]);
	}
	lease->used = false;
}

uint64_t lease_lose(struct sim *sim, int index)
{
	struct sim_lease *lease = &sim->lease[index];
	uint32_t parts = sim->format[lease->seq.format].parts;
	uint64_t pages = 0;

	for (uint32_t b = 0; b < SIM_BLOCKS_MAX; b++) {
		struct sim_block *block = &lease->block[b];
		if (block->state != SIM_BLOCK_OPEN && block->state != SIM_BLOCK_BOUND)
			continue;
		for (uint32_t part = 0; part < parts; part++) {
			memory_drop(sim, block->page[part]);
			pages |= 1ull << block->page[part].page;
		}
	}
	lease->used = false;
	return pages;
}

uint32_t lease_published(const struct sim *sim, const struct sim_lease *lease)
{
	uint32_t b = lease->cached_tokens / sim->format[lease->seq.format].page_tokens;

	while (b < SIM_BLOCKS_MAX && lease->block[b].published)
		b++;
	return b;
}

uint32_t lease_first_open(const struct sim *sim, const struct sim_lease *lease)
{
	uint32_t b = lease->build_from / sim->format[lease->seq.format].page_tokens;

	while (b < SIM_BLOCKS_MAX && lease->block[b].state != SIM_BLOCK_OPEN &&
	       lease->block[b].state != SIM_BLOCK_BOUND)
		b++;
	return b;
}

static uint32_t lease_floor_pins(const struct sim *sim, const struct sim_sequence *seq, uint32_t n)
{
	uint32_t found = 0;

	for (uint32_t i = 0; i < SIM_PINS_MAX && !seq->extra_count; i++) {
		const struct sim_pin *pin = &sim->pin[i];
		if (!pin->used || pin->space != seq->space || pin->format != seq->format ||
		    pin->pinned > n)
			continue;
		if (memcmp(pin->tokens, seq->tokens, pin->pinned * sizeof(uint32_t)) == 0)
			found = BITS_MAX(found, pin->pinned);
	}
	return found;
}

uint32_t lease_floor(const struct sim *sim, const struct sim_sequence *seq, uint32_t n, int except)
{
	uint32_t page_tokens = sim->format[seq->format].page_tokens;
	uint32_t found = lease_floor_pins(sim, seq, n);

	for (int i = 0; i < (int)SIM_LEASES_MAX; i++) {
		const struct sim_lease *lease = &sim->lease[i];
		if (!lease->used || !lease->id || lease->no_hit || i == except)
			continue;
		uint32_t held = lease_published(sim, lease) * page_tokens;
		uint32_t same = sequence_common(&lease->seq, seq, BITS_MIN(held, n));
		found = BITS_MAX(found, same / page_tokens * page_tokens);
	}
	return found;
}
