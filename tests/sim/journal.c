/* SPDX-License-Identifier: Apache-2.0 */
/*
 * journal.c: records of blocks in the file tier.
 *
 * Each area has a journal of its own, as each is a file of its own: what is durable of one says
 * nothing about the others. A checkpoint is written while the core goes on, in pieces; it stands
 * for what was recorded before it was begun, and what was recorded since is read again on top of
 * it.
 */
#include "tests/sim/journal.h"

#include "tests/sim/coverage.h"
#include "tests/sim/report.h"
#include "tests/sim/tiers.h"

#include <string.h>

/* What lies in an area, by first cell. */
struct journal_map {
	const struct sim_record *at[SIM_CELLS_MAX];
};

static uint32_t journal_place(const struct core_record *record)
{
	return (uint32_t)(record->slot.offset_bytes / TIERS_CELL_BYTES);
}

static void journal_copy(struct sim *sim, const struct core_record *record, struct sim_record *out)
{
	*out = (struct sim_record){.record = *record};
	REPORT_REQUIRE(sim,
		       record->slot.tier == CORE_TIER_FILE && record->slot.area < SIM_AREAS_MAX &&
			       journal_place(record) < SIM_CELLS_MAX && record->slot.generation,
		       "a record of area %u, offset %u, generation %u", record->slot.area,
		       (uint32_t)record->slot.offset_bytes, (uint32_t)record->slot.generation);
	if (!record->put)
		return;
	REPORT_REQUIRE(sim,
		       record->token_count <= SIM_CELL_WORDS &&
			       record->extra_count <= KVD_EXTRAS_PER_BLOCK && record->depth > 0,
		       "a record of %u tokens, %u extras, depth %u", record->token_count,
		       record->extra_count, record->depth);
	memcpy(out->tokens, record->tokens, record->token_count * sizeof(uint32_t));
	if (record->extra_count)
		memcpy(out->extras, record->extras, record->extra_count * 5 * sizeof(uint32_t));
}

void journal_record(struct sim *sim, const struct core_record *record)
{
	REPORT_REQUIRE(sim, record->slot.area < SIM_AREAS_MAX, "a record of area %u",
		       record->slot.area);
	struct sim_journal *j = &sim->journal[record->slot.area];

	REPORT_REQUIRE(sim, j->count < SIM_JOURNAL_MAX, "a journal that is too long");
	report_trace(sim, "  record: area %u at %u %s, generation %u, depth %u", record->slot.area,
		     (uint32_t)record->slot.offset_bytes, record->put ? "put" : "drop",
		     (uint32_t)record->slot.generation, record->depth);
	journal_copy(sim, record, &j->entry[j->count++]);
}

/* The checkpoint and the first `count` records after it. */
static void journal_replay(const struct sim_journal *j, uint32_t count, struct journal_map *out)
{
	*out = (struct journal_map){0};
	for (uint32_t i = 0; i < j->base_count; i++)
		out->at[journal_place(&j->base[i].record)] = &j->base[i];
	for (uint32_t i = 0; i < count; i++) {
		const struct sim_record *r = &j->entry[i];
		out->at[journal_place(&r->record)] = r->record.put ? r : NULL;
	}
}

/* --- checkpoints ---------------------------------------------------------------------------- */

static void journal_take(void *ctx, const struct core_record *record)
{
	struct sim *sim = ctx;
	struct sim_journal *j = &sim->journal[record->slot.area];

	REPORT_REQUIRE(sim, record->put, "a checkpoint with a record that is no block");
	REPORT_REQUIRE(sim, j->next_count < SIM_RECORDS_MAX, "a checkpoint without end");
	journal_copy(sim, record, &j->next[j->next_count++]);
}

static void journal_walk(struct sim *sim, uint32_t area, uint32_t count)
{
	struct sim_journal *j = &sim->journal[area];

	if (!j->walking) {
		j->walking = true;
		j->cursor = 0;
		j->next_count = 0;
		j->from = j->count;
	}
	if (core_records(sim->core, area, &j->cursor, count, journal_take, sim))
		return;
	j->walking = false;
	memcpy(j->base, j->next, j->next_count * sizeof(j->base[0]));
	j->base_count = j->next_count;
	j->count -= j->from;
	memmove(j->entry, j->entry + j->from, j->count * sizeof(j->entry[0]));
	j->durable = j->durable > j->from ? j->durable - j->from : 0;
	coverage_count("checkpoint");
}

static void journal_of_area(struct sim *sim, uint32_t area)
{
	struct sim_journal *j = &sim->journal[area];

	if (random_percent(&sim->depths, 2))
		j->durable += random_below(&sim->depths, j->count - j->durable + 1);
	if (j->count > SIM_JOURNAL_MAX / 4)
		journal_walk(sim, area, UINT32_MAX);
	else if (j->walking || random_below(&sim->depths, 400) == 0)
		journal_walk(sim, area, random_range(&sim->depths, 1, 60));
}

void journal_step(struct sim *sim)
{
	for (uint32_t a = 0; a < sim->config.tiers[CORE_TIER_FILE].area_count; a++)
		journal_of_area(sim, a);
	if (sim->has_tiers && random_percent(&sim->depths, 4))
		journal_check(sim);
}

/* --- is it true? ---------------------------------------------------------------------------- */

static struct sim_record journal_now[SIM_RECORDS_MAX];
static uint32_t journal_now_count;

static void journal_look(void *ctx, const struct core_record *record)
{
	struct sim *sim = ctx;

	REPORT_REQUIRE(sim, journal_now_count < SIM_RECORDS_MAX, "more blocks than slots");
	journal_copy(sim, record, &journal_now[journal_now_count++]);
}

/*
 * A parent that is not there now may have been there when a was written; of one that is on its way
 * the children are told when it has arrived.
 */
static bool journal_same_parent(const struct sim *sim, const struct sim_record *a,
				const struct sim_record *b)
{
	uint64_t generation = b->record.parent_generation;
	bool moves = false;

	for (uint32_t i = 0; i < SIM_TRANSFERS_MAX; i++)
		moves |= sim->transfer[i].used &&
			 sim->transfer[i].order.kind == CORE_TRANSFER_STORE &&
			 sim->transfer[i].order.slot.generation == generation;
	return generation == 0 || moves || a->record.parent_generation == generation;
}

static bool journal_same(const struct sim *sim, const struct sim_record *a,
			 const struct sim_record *b)
{
	return journal_same_parent(sim, a, b) &&
	       a->record.slot.generation == b->record.slot.generation &&
	       a->record.slot.bytes == b->record.slot.bytes &&
	       a->record.format == b->record.format && a->record.depth == b->record.depth &&
	       a->record.token_count == b->record.token_count &&
	       a->record.extra_count == b->record.extra_count &&

	       memcmp(a->record.key, b->record.key, sizeof(a->record.key)) == 0 &&
	       memcmp(a->record.parent_key, b->record.parent_key, sizeof(a->record.key)) == 0 &&
	       memcmp(a->tokens, b->tokens, sizeof(a->tokens)) == 0 &&
	       memcmp(a->extras, b->extras, sizeof(a->extras)) == 0;
}

static void journal_check_area(struct sim *sim, uint32_t area)
{
	struct sim_journal *j = &sim->journal[area];
	struct journal_map map;
	uint32_t cursor = 0;

	journal_replay(j, j->count, &map);
	journal_now_count = 0;
	while (core_records(sim->core, area, &cursor, 7, journal_look, sim))
		;
	for (uint32_t i = 0; i < journal_now_count; i++) {
		uint32_t at = journal_place(&journal_now[i].record);
		REPORT_REQUIRE(sim, map.at[at] && journal_same(sim, map.at[at], &journal_now[i]),
			       "area %u: the journal does not know of the block at %u", area, at);
		map.at[at] = NULL;
	}
	for (uint32_t at = 0; at < SIM_CELLS_MAX; at++)
		REPORT_REQUIRE(sim, !map.at[at] || map.at[at]->stale,
			       "area %u: the journal has a block at %u, the core has not", area,
			       at);
}

/* Is it there, among what journal_now holds? */
static bool journal_has_parent(const struct sim_record *child)
{
	for (uint32_t i = 0; i < journal_now_count; i++) {
		const struct core_record *r = &journal_now[i].record;
		if (r->slot.generation == child->record.parent_generation &&
		    r->depth + 1 == child->record.depth &&
		    memcmp(r->key, child->record.parent_key, sizeof(r->key)) == 0)
			return true;
	}
	return false;
}

/* Where nothing failed, chains are whole: what has no parent there is lost with the daemon. */
static void journal_check_chains(struct sim *sim)
{
	journal_now_count = 0;
	for (uint32_t a = 0; a < sim->config.tiers[CORE_TIER_FILE].area_count; a++) {
		uint32_t cursor = 0;
		core_records(sim->core, a, &cursor, UINT32_MAX, journal_look, sim);
	}
	for (uint32_t i = 0; i < journal_now_count; i++) {
		const struct sim_record *s = &journal_now[i];
		REPORT_REQUIRE(sim, s->record.depth == 1 || journal_has_parent(s),
			       "the block at %u of area %u is stored without its parent",
			       journal_place(&s->record), s->record.slot.area);
	}
	coverage_count("chains, whole");
}

void journal_check(struct sim *sim)
{
	for (uint32_t a = 0; a < sim->config.tiers[CORE_TIER_FILE].area_count; a++)
		journal_check_area(sim, a);
	if (!sim->failed && !tiers_pending(sim, true))
		journal_check_chains(sim);
}

/* --- death ---------------------------------------------------------------------------------- */

void journal_cut(struct sim *sim)
{
	static struct sim_record kept[SIM_RECORDS_MAX];
	struct journal_map map;

	for (uint32_t a = 0; a < SIM_AREAS_MAX; a++) {
		struct sim_journal *j = &sim->journal[a];
		uint32_t count = j->durable + random_below(&sim->depths, j->count - j->durable + 1);
		if (count < j->count)
			coverage_count("restart, journal cut");
		journal_replay(j, count, &map);
		j->base_count = 0;
		for (uint32_t at = 0; at < SIM_CELLS_MAX; at++)
			if (map.at[at])
				kept[j->base_count++] = *map.at[at];
		memcpy(j->base, kept, j->base_count * sizeof(kept[0]));
		j->count = j->durable = 0;
		j->walking = false;
	}
}

void journal_lose_disk(struct sim *sim, uint32_t area)
{
	sim->journal[area].base_count = 0;
}
