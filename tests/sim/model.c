/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.c: what one lease is, seen from its client.
 *
 * The client learns of pages from replies only: a handle of a block that is readable is somebody's
 * (or its own sealed) page, any other is its own to write. Both are checked against what all other
 * models hold.
 */
#include "tests/sim/model.h"

#include "tests/sim/coverage.h"
#include "tests/sim/memory.h"
#include "tests/sim/oracle.h"
#include "tests/sim/orders.h"
#include "tests/sim/prompt.h"
#include "tests/sim/report.h"

#include <base/bits.h>
#include <string.h>

int model_new(struct sim *sim, int session)
{
	for (int i = 0; i < (int)SIM_LEASES_MAX; i++) {
		struct sim_lease *lease = &sim->lease[i];
		if (lease->used)
			continue;
		memset(lease, 0, sizeof(*lease));
		lease->used = true;
		lease->session = session;
		lease->pending = SIM_NONE;
		lease->parent = SIM_NONE;
		return i;
	}
	return SIM_NONE;
}

const struct kvd_lease_row *model_row(const struct sim *sim, const struct sim_lease *lease)
{
	return &sim->session[lease->session].row[KVD_LEASE_ROW(lease->id) % SIM_ROWS_MAX];
}

static void model_take_block(struct sim *sim, int index, uint32_t b, const struct kvd_handle *pages)
{
	struct sim_lease *lease = &sim->lease[index];
	struct sim_session *session = &sim->session[lease->session];
	const struct sim_format *format = &sim->format[lease->seq.format];
	struct sim_block *block = &lease->block[b];
	bool readable = (b + 1) * format->page_tokens <= model_row(sim, lease)->ready_tokens;
	bool own = block->state == SIM_BLOCK_OPEN || block->state == SIM_BLOCK_BOUND;

	for (uint32_t part = 0; part < format->parts; part++) {
		if (block->state == SIM_BLOCK_UNKNOWN && !readable)
			memory_grant(sim, pages[part], session->space, lease->seq.format, part,
				     index);
		else
			memory_show(sim, pages[part], session->space, lease->seq.format, part);
		REPORT_REQUIRE(sim, !own || pages[part].page == block->page[part].page,
			       "lease model %d: own page of block %u changed", index, b);
		orders_import(sim, lease->session, pages[part].page);
		if (block->state == SIM_BLOCK_UNKNOWN)
			block->page[part] = pages[part];
	}
	if (block->state != SIM_BLOCK_UNKNOWN)
		return;
	REPORT_REQUIRE(sim, readable || (b + 1) * format->page_tokens > lease->build_from,
		       "lease model %d: page of block %u, which others compute", index, b);
	block->state = readable ? SIM_BLOCK_READ : SIM_BLOCK_OPEN;
	if (readable && b == lease->tail_block)
		lease->tail_tokens = 0; /* somebody else was faster */
	block->published = readable && lease->parent == SIM_NONE;
}

void model_take_handles(struct sim *sim, int index, uint32_t first, uint32_t count,
			const struct kvd_handle *handles)
{
	uint32_t parts = sim->format[sim->lease[index].seq.format].parts;

	REPORT_REQUIRE(sim, count % parts == 0 && first + count / parts <= SIM_BLOCKS_MAX,
		       "%u handles from block %u", count, first);
	for (uint32_t i = 0; i < count / parts; i++)
		if (handles[i * parts].page != KVD_PAGE_NONE)
			model_take_block(sim, index, first + i, &handles[i * parts]);
}

static void model_take_tail(struct sim *sim, int index, const struct kvd_rep_lease *at,
			    const struct kvd_handle *more)
{
	struct sim_lease *lease = &sim->lease[index];
	const struct sim_format *format = &sim->format[lease->seq.format];

	lease->tail_tokens = 0;
	if (!at->tail_tokens)
		return;
	REPORT_REQUIRE(sim, at->tail_tokens < format->page_tokens, "a tail of %u tokens",
		       at->tail_tokens);
	for (uint32_t part = 0; part < format->parts; part++) {
		struct kvd_handle page = format->parts > 1 ? more[part] : at->tail;
		memory_show(sim, page, sim->session[lease->session].space, lease->seq.format, part);
		orders_import(sim, lease->session, page.page);
		lease->tail[part] = page;
	}
	lease->tail_block = lease->build_from / format->page_tokens;
	lease->tail_tokens = at->tail_tokens;
	lease->tail_copied = false;
	coverage_count("tail");
}

void model_adopt(struct sim *sim, int index, const struct kvd_rep *rep,
		 const struct kvd_handle *handles)
{
	struct sim_lease *lease = &sim->lease[index];
	const struct sim_format *format = &sim->format[lease->seq.format];
	uint32_t row = KVD_LEASE_ROW(rep->lease);

	REPORT_REQUIRE(sim, rep->lease && row > 0 && row < SIM_ROWS_MAX, "lease %#llx",
		       (unsigned long long)rep->lease);
	lease->id = rep->lease;
	const struct kvd_lease_row *value = model_row(sim, lease);
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
		       (rep->at.event != KVD_EVENT_COMPUTE) ==
			       (rep->at.build_from > value->ready_tokens),
		       "event %u, build from %u, ready %u", rep->at.event, rep->at.build_from,
		       value->ready_tokens);
	coverage_event(rep->at.event);
	if (rep->at.event == KVD_EVENT_LOAD)
		coverage_count("follow, of a load");
	model_take_handles(sim, index, 0, rep->at.handle_count, handles);
	model_take_tail(sim, index, &rep->at, handles + rep->at.handle_count);
	memory_check_lease(sim, lease);
}

void model_unbind(struct sim *sim, struct sim_lease *lease, uint32_t b)
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

void model_drop_useless(struct sim *sim, int index)
{
	struct sim_lease *lease = &sim->lease[index];
	const struct sim_format *format = &sim->format[lease->seq.format];
	uint32_t ready = model_row(sim, lease)->ready_tokens / format->page_tokens;

	for (uint32_t b = 0; b < BITS_MIN(ready, SIM_BLOCKS_MAX); b++) {
		if (lease->block[b].state != SIM_BLOCK_OPEN)
			continue;
		for (uint32_t part = 0; part < format->parts; part++)
			memory_drop(sim, lease->block[b].page[part]);
		lease->block[b] = (struct sim_block){.state = SIM_BLOCK_UNKNOWN};
	}
}

void model_drop(struct sim *sim, int index)
{
	struct sim_lease *lease = &sim->lease[index];
	uint32_t parts = sim->format[lease->seq.format].parts;

	for (uint32_t b = 0; b < SIM_BLOCKS_MAX; b++) {
		struct sim_block *block = &lease->block[b];
		if (block->state == SIM_BLOCK_BOUND)
			model_unbind(sim, lease, b);
		for (uint32_t part = 0; part < parts && block->state == SIM_BLOCK_OPEN; part++)
			memory_drop(sim, block->page[part]);
	}
	lease->used = false;
}

uint64_t model_open_pages(const struct sim *sim, const struct sim_lease *lease)
{
	uint32_t parts = sim->format[lease->seq.format].parts;
	uint64_t pages = 0;

	for (uint32_t b = 0; b < SIM_BLOCKS_MAX; b++) {
		const struct sim_block *block = &lease->block[b];
		if (block->state != SIM_BLOCK_OPEN && block->state != SIM_BLOCK_BOUND)
			continue;
		for (uint32_t part = 0; part < parts; part++)
			pages |= 1ull << block->page[part].page;
	}
	return pages;
}

uint64_t model_lose(struct sim *sim, int index)
{
	struct sim_lease *lease = &sim->lease[index];
	uint64_t pages = model_open_pages(sim, lease);
	uint32_t block = model_first_open(sim, lease);
	uint32_t page_tokens = sim->format[lease->seq.format].page_tokens;

	if (block < SIM_BLOCKS_MAX && (block + 1) * page_tokens <= lease->known_tokens &&
	    !lease->seq.extra_count && !lease->no_hit) {
		sim->lost_seq = lease->seq;
		sim->lost_tokens = (block + 1) * page_tokens;
	}
	for (uint64_t left = pages; left; left &= left - 1)
		sim->page[__builtin_ctzll(left)].writer = SIM_NONE;
	lease->used = false;
	return pages;
}

uint32_t model_published(const struct sim *sim, const struct sim_lease *lease)
{
	uint32_t b = lease->hit_blocks;

	while (b < SIM_BLOCKS_MAX && lease->block[b].published)
		b++;
	return b;
}

uint32_t model_first_open(const struct sim *sim, const struct sim_lease *lease)
{
	uint32_t b = lease->build_from / sim->format[lease->seq.format].page_tokens;

	while (b < SIM_BLOCKS_MAX && lease->block[b].state != SIM_BLOCK_OPEN &&
	       lease->block[b].state != SIM_BLOCK_BOUND)
		b++;
	return b;
}

static uint32_t model_floor_pins(const struct sim *sim, const struct sim_sequence *seq, uint32_t n)
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

uint32_t model_floor(const struct sim *sim, const struct sim_sequence *seq, uint32_t n, int except)
{
	uint32_t page_tokens = sim->format[seq->format].page_tokens;
	uint32_t found = model_floor_pins(sim, seq, n);

	for (int i = 0; i < (int)SIM_LEASES_MAX; i++) {
		const struct sim_lease *lease = &sim->lease[i];
		if (!lease->used || !lease->id || lease->no_hit || i == except)
			continue;
		uint32_t held = model_published(sim, lease) * page_tokens;
		uint32_t same = prompt_common(&lease->seq, seq, BITS_MIN(held, n));
		found = BITS_MAX(found, same / page_tokens * page_tokens);
	}
	return found;
}
