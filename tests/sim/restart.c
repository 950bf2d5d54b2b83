/* SPDX-License-Identifier: Apache-2.0 */
/*
 * restart.c: death and recovery of the daemon.
 *
 * All memory is lost: sessions, leases, pages, what was in DRAM. What is left are the files, and of
 * each journal what had reached the disk. A new core is given the formats and the blocks, parents
 * first, and clients come back. It must take what belongs to a chain that it knows; what it does
 * not take may stay in the journal, to be offered once more to its own successor.
 */
#include "tests/sim/restart.h"

#include "kvd/core/mutant.h"
#include "tests/sim/coverage.h"
#include "tests/sim/journal.h"
#include "tests/sim/report.h"
#include "tests/sim/tiers.h"
#include "tests/sim/world.h"

#include <base/bits.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RESTART_FORMATS 16u
#define RESTART_NO_FORMAT UINT32_MAX
#define RESTART_RECORDS (SIM_AREAS_MAX * SIM_CELLS_MAX)

/* A format, as it is kept beside the records that name it. */
struct restart_format {
	uint32_t old;
	int number;
	char space[KVD_NAME_MAX];
	struct kvd_format_wire wire;
	char description[KVD_DESCRIPTION_MAX];
};

struct restart {
	uint32_t format_count;
	struct restart_format format[RESTART_FORMATS];
	uint32_t count;
	struct sim_record *record[RESTART_RECORDS];
};

static struct restart_format *restart_find(struct restart *r, uint32_t old)
{
	for (uint32_t i = 0; i < r->format_count; i++)
		if (r->format[i].old == old)
			return &r->format[i];
	return NULL;
}

/* Those that records name; the shell keeps a copy of each. */
static void restart_remember(struct sim *sim, struct restart *r)
{
	r->format_count = r->count = 0;
	for (uint32_t a = 0; a < SIM_AREAS_MAX; a++)
		for (uint32_t i = 0; i < sim->journal[a].base_count; i++) {
			struct sim_record *record = &sim->journal[a].base[i];
			r->record[r->count++] = record;
			if (restart_find(r, record->record.format))
				continue;
			REPORT_REQUIRE(sim, r->format_count < RESTART_FORMATS, "formats");
			struct restart_format *f = &r->format[r->format_count++];
			f->old = record->record.format;
			core_format_wire(sim->core, f->old, f->space, &f->wire, f->description);
		}
}

static void restart_forget(struct sim *sim)
{
	memset(sim->process, 0, sizeof(sim->process));
	memset(sim->session, 0, sizeof(sim->session));
	memset(sim->group, 0, sizeof(sim->group));
	memset(sim->lease, 0, sizeof(sim->lease));
	memset(sim->pending, 0, sizeof(sim->pending));
	memset(sim->pin, 0, sizeof(sim->pin));
	memset(sim->ticket, 0, sizeof(sim->ticket));
	memset(sim->slab, 0, sizeof(sim->slab));
	memset(sim->page, 0, sizeof(sim->page));
	memset(&sim->verify, 0, sizeof(sim->verify));
	for (uint32_t i = 0; i < SIM_NUMBERS_MAX; i++)
		sim->by_number[i] = SIM_NONE;
	for (uint32_t i = 0; i < SIM_PAGES_MAX; i++)
		sim->page[i].writer = SIM_NONE;
	for (uint32_t i = 0; i < sim->format_count; i++)
		memset(sim->format[i].id, 0xff, sizeof(sim->format[i].id));
	sim->opening = SIM_NONE;
	sim->draining = false;
	sim->lost_tokens = 0;
}

static void restart_formats(struct sim *sim, struct restart *r)
{
	uint32_t first = r->format_count ? random_below(&sim->depths, r->format_count) : 0;

	for (uint32_t i = 0; i < r->format_count; i++) {
		struct restart_format *f = &r->format[(first + i) % r->format_count];
		f->number = random_percent(&sim->depths, 8)
				    ? -ENOSPC /* it was lost */
				    : core_restore_format(sim->core, f->space, &f->wire,
							  f->description);
		/* In another order another namespace may have to pay for a geometry. */
		REPORT_REQUIRE(sim, f->number >= 0 || f->number == -ENOSPC,
			       "a format is not restored: %d", f->number);
		coverage_count(f->number < 0 ? "restore, no format" : "restore, format");
	}
}

static int restart_depth(const void *a, const void *b)
{
	const struct sim_record *x = *(struct sim_record *const *)a;
	const struct sim_record *y = *(struct sim_record *const *)b;

	if (x->record.depth != y->record.depth)
		return x->record.depth < y->record.depth ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* What is there already, and what is not what its key says. */
static void restart_lie(struct sim *sim, const struct sim_record *like)
{
	struct sim_record s = *like;
	struct core_record *record = &s.record;

	record->tokens = s.tokens;
	int rc = core_restore(sim->core, record);

	REPORT_REQUIRE(sim, rc == -EEXIST, "a block is restored twice: %d", rc);
	coverage_count("restore, there already");
	s.tokens[random_below(&sim->depths, record->token_count)] ^= 1;
	rc = core_restore(sim->core, record);
	REPORT_REQUIRE(sim, rc == -EINVAL,
		       "a block with other tokens than its key's is restored: %d", rc);
	coverage_count("restore, of a lie");
}

static void restart_block(struct sim *sim, struct restart *r, struct sim_record *s)
{
	struct core_record *record = &s->record;

	record->tokens = s->tokens;
	record->extras = record->extra_count ? s->extras : NULL;
	int number = restart_find(r, record->format)->number;
	record->format = number < 0 ? RESTART_NO_FORMAT : (uint32_t)number;
	/* No slot that is stored from now on may be taken for this one. */
	if (number >= 0)
		sim->generation = BITS_MAX(sim->generation, record->slot.generation);
	int rc = number < 0 ? -ENOENT : core_restore(sim->core, record);
	report_trace(sim, "  restore area %u at %u, generation %u, depth %u: %d", record->slot.area,
		     (uint32_t)record->slot.offset_bytes, (uint32_t)record->slot.generation,
		     record->depth, rc);
	REPORT_REQUIRE(sim, rc == 0 || rc == -ENOENT || rc == -EEXIST || rc == -ENOSPC,
		       "a block is restored with %d", rc);
	s->stale = rc != 0;
	/* A weak hash says nothing. */
	if (rc == 0 && MUTANT_HASH_MASK == UINT64_MAX && random_percent(&sim->depths, 4))
		restart_lie(sim, s);
	coverage_count(rc == 0	       ? "restore"
		       : rc == -ENOENT ? "restore, no parent"
		       : rc == -EEXIST ? "restore, there already"
				       : "restore, no room");
}

/* What the new core did not take is forgotten, or may come back one day. */
static void restart_settle(struct sim *sim)
{
	for (uint32_t a = 0; a < SIM_AREAS_MAX; a++) {
		struct sim_journal *j = &sim->journal[a];
		uint32_t left = 0;
		bool keep = random_percent(&sim->depths, 50);
		for (uint32_t i = 0; i < j->base_count; i++)
			if (!j->base[i].stale ||
			    (keep && j->base[i].record.format != RESTART_NO_FORMAT))
				j->base[left++] = j->base[i];
		j->base_count = left;
	}
}

static void restart_lose_disk(struct sim *sim)
{
	uint32_t count = sim->config.tiers[CORE_TIER_FILE].area_count;

	if (count == 0 || !random_percent(&sim->depths, 15))
		return;
	uint32_t area = random_below(&sim->depths, count);
	report_trace(sim, "the disk of area %u is lost", area);
	coverage_count("restart, disk lost");
	tiers_lose_disk(sim, area);
	journal_lose_disk(sim, area);
}

void restart_now(struct sim *sim)
{
	static const char *const policies[] = {"lru", "s3fifo", "cost"};
	static struct restart r;
	bool power = random_percent(&sim->depths, 30);

	report_trace(sim, "the daemon dies%s", power ? ", and the machine" : "");
	coverage_count(power ? "restart, machine" : "restart, daemon");
	tiers_die(sim, power);
	journal_cut(sim);
	restart_lose_disk(sim);
	restart_remember(sim, &r);
	world_end_core(sim);
	restart_forget(sim);
	sim->life++;
	sim->config.nodes_max = random_percent(&sim->depths, 50)
					? random_range(&sim->depths, 4, 9)
					: random_range(&sim->depths, 24, 150);
	if (random_percent(&sim->depths, 20))
		sim->config.policy = policies[random_below(&sim->depths, 3)];
	world_make_core(sim);
	restart_formats(sim, &r);
	qsort(r.record, r.count, sizeof(r.record[0]), restart_depth);
	for (uint32_t i = 0; i < r.count; i++)
		restart_block(sim, &r, r.record[i]);
	restart_settle(sim);
	journal_check(sim);
}
