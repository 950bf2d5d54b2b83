/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.c: page contents in the small.
 *
 * A page holds one word for each of its tokens: the hash of the whole prefix that ends there. A
 * reader knows its prefix, so it can tell right bytes from any others: of another sequence, of
 * another namespace, half written, or of a process that still writes to a page that was given to
 * somebody else too early. Each page has at most one writer in the models; the core must never
 * make a second one, nor give away a page that somebody reads.
 */
#include "tests/sim/memory.h"

#include "tests/sim/orders.h"
#include "tests/sim/prompt.h"
#include "tests/sim/report.h"
#include "tests/sim/tiers.h"

#include <string.h>

static bool memory_block_reads(const struct sim_block *block, uint32_t part, uint32_t page)
{
	return block->state != SIM_BLOCK_UNKNOWN && block->page[part].page == page;
}

static bool memory_lease_holds(const struct sim *sim, const struct sim_lease *lease, uint32_t page)
{
	uint32_t parts = sim->format[lease->seq.format].parts;

	for (uint32_t part = 0; part < parts; part++) {
		if (lease->tail_tokens && !lease->tail_copied && lease->tail[part].page == page)
			return true;
		for (uint32_t b = 0; b < SIM_BLOCKS_MAX; b++)
			if (memory_block_reads(&lease->block[b], part, page))
				return true;
	}
	return false;
}

/* Pages that the lease reads or writes, by bit. */
static uint64_t memory_pages(const struct sim *sim, const struct sim_lease *lease)
{
	uint32_t parts = sim->format[lease->seq.format].parts;
	uint64_t pages = 0;

	for (uint32_t part = 0; part < parts; part++) {
		if (lease->tail_tokens && !lease->tail_copied)
			pages |= 1ull << lease->tail[part].page;
		for (uint32_t b = 0; b < SIM_BLOCKS_MAX; b++)
			if (lease->block[b].state != SIM_BLOCK_UNKNOWN)
				pages |= 1ull << lease->block[b].page[part].page;
	}
	return pages;
}

uint64_t memory_held_bytes(struct sim *sim, uint32_t device)
{
	uint64_t pages = 0;
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < SIM_LEASES_MAX; i++)
		if (sim->lease[i].used)
			pages |= memory_pages(sim, &sim->lease[i]);
	for (uint32_t page = 0; page < SIM_PAGES_MAX; page++)
		if (sim->page[page].writer != SIM_NONE)
			pages |= 1ull << page;
	for (; pages; pages &= pages - 1) {
		const struct sim_slab *slab = orders_of(sim, (uint32_t)__builtin_ctzll(pages));
		if (slab && slab->make.device == device)
			bytes += slab->make.stride_bytes;
	}
	return bytes;
}

void memory_require_unwritten(struct sim *sim, uint32_t page)
{
	tiers_require_apart(sim, page, true);
	REPORT_REQUIRE(sim, sim->page[page].writer == SIM_NONE,
		       "page %u given away while writer %d holds it", page, sim->page[page].writer);
	for (uint32_t i = 0; i < SIM_PROCESSES_MAX; i++)
		REPORT_REQUIRE(sim,
			       !sim->process[i].used || !(sim->process[i].scribbles >> page & 1),
			       "page %u given away while process %u may still write it", page, i);
}

void memory_require_idle(struct sim *sim, uint32_t page)
{
	memory_require_unwritten(sim, page);
	tiers_require_apart(sim, page, false);
	for (uint32_t i = 0; i < SIM_LEASES_MAX; i++)
		REPORT_REQUIRE(
			sim, !sim->lease[i].used || !memory_lease_holds(sim, &sim->lease[i], page),
			"page %u given away while lease model %u holds it", page, i);
}

void memory_show(struct sim *sim, struct kvd_handle page, uint32_t space, uint32_t format,
		 uint32_t part)
{
	REPORT_REQUIRE(sim, page.page < SIM_PAGES_MAX, "page %u does not exist", page.page);
	const struct sim_slab *slab = orders_of(sim, page.page);
	REPORT_REQUIRE(sim, slab && slab->live && !slab->retiring,
		       "page %u given from a slab that is not live", page.page);
	REPORT_REQUIRE(sim, slab->make.space == space, "page %u of namespace %u given to %u",
		       page.page, slab->make.space, space);
	REPORT_REQUIRE(sim,
		       slab->make.stride_bytes >= sim->format[format].wire.parts[part].page_bytes,
		       "page %u is too small for format %u", page.page, format);
	REPORT_REQUIRE(sim, slab->make.device == sim->format[format].wire.parts[part].device,
		       "page %u of device %u given for part %u of format %u", page.page,
		       slab->make.device, part, format);
	tiers_require_apart(sim, page.page, true);
	REPORT_REQUIRE(sim, page.generation >= sim->page[page.page].generation,
		       "page %u: generation %u after %u", page.page, page.generation,
		       sim->page[page.page].generation);
	sim->page[page.page].generation = page.generation;
}

void memory_grant(struct sim *sim, struct kvd_handle page, uint32_t space, uint32_t format,
		  uint32_t part, int writer)
{
	memory_show(sim, page, space, format, part);
	REPORT_REQUIRE(sim, page.generation > sim->page[page.page].granted,
		       "page %u granted twice with generation %u", page.page, page.generation);
	sim->page[page.page].granted = page.generation;
	memory_require_idle(sim, page.page);
	sim->page[page.page].writer = writer;
}

void memory_drop(struct sim *sim, struct kvd_handle page)
{
	if (page.page < SIM_PAGES_MAX)
		sim->page[page.page].writer = SIM_NONE;
}

void memory_write(struct sim *sim, struct sim_lease *lease, uint32_t block, uint32_t end)
{
	const struct sim_format *format = &sim->format[lease->seq.format];
	struct sim_block *b = &lease->block[block];

	for (uint32_t part = 0; part < format->parts; part++)
		for (uint32_t i = b->written; i < end; i++)
			sim->page[b->page[part].page].token[i] =
				prompt_bytes(&lease->seq, part, block * format->page_tokens + i);
	if (end > b->written)
		b->written = (uint16_t)end;
}

void memory_copy_tail(struct sim *sim, struct sim_lease *lease, uint32_t block)
{
	const struct sim_format *format = &sim->format[lease->seq.format];
	struct sim_block *b = &lease->block[block];

	for (uint32_t part = 0; part < format->parts; part++)
		memcpy(sim->page[b->page[part].page].token, sim->page[lease->tail[part].page].token,
		       format->page_tokens * sizeof(uint32_t));
	b->written = (uint16_t)lease->tail_tokens;
	lease->tail_copied = true;
}

static void memory_wrong(struct sim *sim, const struct sim_lease *lease, uint32_t page,
			 uint32_t part, uint32_t block, uint32_t count)
{
	uint32_t at = block * sim->format[lease->seq.format].page_tokens;
	uint32_t i = 0;

	while (i + 1 < count && sim->page[page].token[i] == prompt_bytes(&lease->seq, part, at + i))
		i++;
	report_fail(sim, "lease model %d (%#llx): wrong bytes in page %u, block %u token %u",
		    (int)(lease - sim->lease), (unsigned long long)lease->id, page, block, i);
}

static void memory_check_run(struct sim *sim, const struct sim_lease *lease, uint32_t page,
			     uint32_t part, uint32_t block, uint32_t count)
{
	const uint32_t *token = sim->page[page].token;
	uint32_t at = block * sim->format[lease->seq.format].page_tokens;
	uint32_t wrong = 0;

	for (uint32_t i = 0; i < count; i++)
		wrong |= token[i] ^ prompt_bytes(&lease->seq, part, at + i);
	if (__builtin_expect(wrong != 0, 0))
		memory_wrong(sim, lease, page, part, block, count);
}

void memory_check_lease(struct sim *sim, const struct sim_lease *lease)
{
	const struct sim_format *format = &sim->format[lease->seq.format];

	for (uint32_t part = 0; part < format->parts; part++) {
		if (lease->tail_tokens && !lease->tail_copied)
			memory_check_run(sim, lease, lease->tail[part].page, part,
					 lease->tail_block, lease->tail_tokens);
		for (uint32_t b = 0; b < SIM_BLOCKS_MAX; b++) {
			const struct sim_block *block = &lease->block[b];
			uint32_t count = block->written;
			if (block->state == SIM_BLOCK_READ || block->state == SIM_BLOCK_SEALED)
				count = format->page_tokens;
			if (block->state != SIM_BLOCK_UNKNOWN)
				memory_check_run(sim, lease, block->page[part].page, part, b,
						 count);
		}
	}
}

void memory_check(struct sim *sim)
{
	for (uint32_t i = 0; i < SIM_LEASES_MAX; i++)
		if (sim->lease[i].used)
			memory_check_lease(sim, &sim->lease[i]);
}

static void memory_spoil(struct sim *sim, uint32_t page)
{
	sim->page[page].token[random_below(&sim->random, SIM_PAGE_TOKENS_MAX) & 15] =
		(uint32_t)random_u64(&sim->random) | 1;
}

void memory_scribble(struct sim *sim)
{
	uint64_t pages = 0;

	for (uint32_t i = 0; i < SIM_PROCESSES_MAX; i++)
		if (sim->process[i].used && !sim->process[i].silent)
			pages |= sim->process[i].scribbles;
	for (; pages; pages &= pages - 1)
		memory_spoil(sim, (uint32_t)__builtin_ctzll(pages));
	for (uint32_t i = 0; i < SIM_GROUPS_MAX; i++) {
		struct sim_group *group = &sim->group[i];
		for (uint32_t f = 0; group->used && f < SIM_FORMATS_MAX; f++)
			if (group->count[f])
				memory_spoil(sim, group->block[f][0].page[0].page);
	}
}

void memory_renew(struct sim *sim, const struct core_order *slab)
{
	for (uint32_t i = 0; i < slab->page_count; i++) {
		struct sim_page *page = &sim->page[slab->first_page + i];
		memset(page->token, 0, sizeof(page->token));
		page->writer = SIM_NONE;
	}
}
