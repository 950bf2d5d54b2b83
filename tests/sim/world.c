/* SPDX-License-Identifier: Apache-2.0 */
/*
 * world.c: sizes and names.
 *
 * Everything is small, so that everything runs out: 16 to 64 pages, slabs of a few pages, an index
 * that can be full, few rows, few formats. The last namespace belongs to the hostile sessions.
 *
 * Half of the worlds have more devices than one, with pools of different size, and formats whose
 * parts lie on one or on two of them. What has to do with that comes from a source of chance of its
 * own, so that a world of one device is the same history whatever is done here. So does the policy
 * of evictions: a world of lru is the same history whatever others there are.
 *
 * Most of the worlds have tiers: one to three areas of files, of a few segments of a few slots,
 * sometimes DRAM, or DRAM alone. A third source of chance does all that has to do with them.
 */
#include "tests/sim/world.h"

#include "tests/sim/coverage.h"
#include "tests/sim/report.h"
#include "tests/sim/tiers.h"
#include "tests/sim/wire.h"

#include <base/bits.h>
#include <errno.h>
#include <string.h>

#define WORLD_PAGE_BYTES 256u
#define WORLD_POLICY 0x706f6c696379ull /* "policy" */
#define WORLD_PLACES 0x706c61636573ull /* "places" */
#define WORLD_DEPTHS 0x646570746873ull /* "depths" */

static const struct {
	uint32_t page_tokens;
	uint32_t parts;
	uint64_t page_bytes;
} world_formats[SIM_FORMATS_MAX] = {
	{16, 1, WORLD_PAGE_BYTES},
	{32, 1, 2 * WORLD_PAGE_BYTES},
	{16, 2, WORLD_PAGE_BYTES - 56},
	{64, 1, WORLD_PAGE_BYTES},
};

static void world_config(struct sim *sim)
{
	struct random *r = &sim->random;

	sim->config = (struct core_config){
		.device_count = 1,
		.pool_bytes = {random_range(r, 16, SIM_PAGES_MAX) * WORLD_PAGE_BYTES},
		.pages_max = SIM_PAGES_MAX,
		.nodes_max = random_range(r, 24, 120),
		.index_tokens_max = random_range(r, 1024, 4096),
		.sessions_max = random_range(r, 4, SIM_SESSIONS_MAX),
		.leases_max = random_range(r, 8, SIM_LEASES_MAX),
		.formats_max = random_range(r, 6, 12),
		.geometries_max = random_range(r, 2, 4),
		.spaces_max = SIM_SPACES_MAX,
		.request_tokens_max = random_range(r, 300, 400),
		.slab_bytes_min = random_range(r, 4, 16) * WORLD_PAGE_BYTES,
		.slab_align_bytes = WORLD_PAGE_BYTES,
		.page_align_bytes = WORLD_PAGE_BYTES,
		.session_share_permille = random_range(r, 400, 1000),
		.magazine_permille = random_range(r, 100, 400),
		.retire_grace_ns = random_range(r, 5, 60) * 1000000ull,
	};
}

/* Each policy has a third of the worlds. */
static void world_policy(struct sim *sim, uint64_t seed)
{
	static const char *const names[] = {"lru", "s3fifo", "cost"};
	static const char *const words[] = {"world of lru", "world of s3fifo", "world of cost"};
	struct random r = {.state = random_mix(seed ^ WORLD_POLICY)};
	uint32_t policy = random_below(&r, 3);

	sim->config.policy = names[policy];
	report_trace(sim, "policy %s", names[policy]);
	coverage_count(words[policy]);
}

/* More devices, the last of them large. They share the records, sometimes too few of them. */
static void world_devices(struct sim *sim)
{
	struct random *r = &sim->places;
	struct core_config *c = &sim->config;

	if (random_percent(r, 50)) {
		coverage_count("world of one device");
		return;
	}
	c->device_count = random_range(r, 2, SIM_DEVICES_MAX);
	for (uint32_t d = 0; d + 1 < c->device_count; d++)
		c->pool_bytes[d] = random_range(r, 8, 20) * WORLD_PAGE_BYTES;
	c->pool_bytes[c->device_count - 1] = random_range(r, 24, 40) * WORLD_PAGE_BYTES;
	c->slab_bytes_min = random_range(r, 2, 6) * WORLD_PAGE_BYTES;
	c->geometries_max *= c->device_count;
	report_trace(sim, "%u devices", c->device_count);
	coverage_count(c->device_count == 2 ? "world of two devices" : "world of three devices");
}

/* Where the parts of the formats lie. The last device has one at least. */
static void world_places(struct sim *sim)
{
	uint32_t last = sim->config.device_count - 1;

	for (uint32_t i = 0; i < sim->format_count && last > 0; i++) {
		struct kvd_part_wire *parts = sim->format[i].wire.parts;
		for (uint32_t part = 0; part < sim->format[i].parts; part++)
			parts[part].device = random_below(&sim->places, last + 1);
		if (i == sim->hot_format)
			parts[0].device = last;
	}
}

static void world_format(struct sim *sim, uint32_t index)
{
	struct sim_format *f = &sim->format[index];

	f->page_tokens = world_formats[index].page_tokens;
	f->parts = world_formats[index].parts;
	memset(f->id, 0xff, sizeof(f->id));
	memset(&f->wire, 0, sizeof(f->wire));
	f->wire.identity[0] = (uint8_t)(index + 1);
	f->wire.page_tokens = f->page_tokens;
	f->wire.part_count = f->parts;
	strcpy(f->wire.layout, "sim");
	for (uint32_t part = 0; part < f->parts; part++)
		f->wire.parts[part] = (struct kvd_part_wire){
			.page_bytes = world_formats[index].page_bytes,
			.align = 64,
			.shard = part,
		};
}

static void world_tier(struct sim *sim, enum core_tier_kind kind, uint32_t areas_max)
{
	static const uint32_t pages[] = {6, 8, 12};
	struct core_tier_config *c = &sim->config.tiers[kind];
	struct random *r = &sim->depths;

	c->area_count = random_range(r, 1, areas_max);
	for (uint32_t a = 0; a < c->area_count; a++)
		c->area_segments[a] = random_range(r, 1, random_percent(r, 50) ? 3 : 8);
	c->segment_bytes = pages[random_below(r, 3)] * WORLD_PAGE_BYTES;
	c->depth = random_range(r, 1, 5);
	report_trace(sim, "tier %u: %u areas, depth %u", kind, c->area_count, c->depth);
}

static void world_tiers(struct sim *sim)
{
	static const uint16_t patience_ms[] = {5, 20, 100};
	static const uint8_t fails_percent[] = {0, 2, 10};
	static const uint8_t rots_permille[] = {0, 20, 200};
	struct random *r = &sim->depths;
	bool dram = random_percent(r, 50);

	if (random_percent(r, 40)) {
		coverage_count("world without tiers");
		return;
	}
	sim->has_tiers = true;
	if (dram)
		world_tier(sim, CORE_TIER_DRAM, 1);
	if (!dram || random_percent(r, 80))
		world_tier(sim, CORE_TIER_FILE, SIM_AREAS_MAX);
	if (random_percent(r, 30)) {
		sim->config.nodes_max = 150;
		sim->config.index_tokens_max = 8192;
	}
	/* A small pool makes blocks come and go. */
	if (sim->config.device_count == 1 && random_percent(r, 70))
		sim->config.pool_bytes[0] =
			BITS_MAX(sim->config.pool_bytes[0] / 2, 16ull * WORLD_PAGE_BYTES);
	sim->patience_ns = patience_ms[random_below(r, 3)] * 1000000ull;
	sim->fails_percent = fails_percent[random_below(r, 3)];
	sim->hangs_percent = random_percent(r, 80) ? 3 : 50;
	sim->rots_permille = rots_permille[random_below(r, 3)];
	tiers_init(sim);
	coverage_count(dram ? "world with DRAM" : "world with files");
}

static void world_spaces(struct sim *sim)
{
	static const char *const names[SIM_SPACES_MAX] = {"default", "other", "evil"};

	sim->space_count = SIM_SPACES_MAX;
	for (uint32_t i = 0; i < sim->space_count; i++) {
		struct core_space_args *args = &sim->space_args[i];
		*args = (struct core_space_args){.name = names[i], .floor_bytes = UINT64_MAX};
		memcpy(args->secret, names[i], 4);
		args->secret_bytes = 4;
		args->key_seed[0] = (uint8_t)i;
		if (random_percent(&sim->random, 50))
			args->floor_bytes = 0;
		if (random_percent(&sim->random, 20))
			args->ceiling_bytes = core_pool_bytes(&sim->config) / 2;
		if (sim->config.device_count > 1 && random_percent(&sim->places, 50))
			args->floor_bytes = core_pool_bytes(&sim->config) / 4;
	}
}

void world_make_core(struct sim *sim)
{
	int rc = core_new(&sim->config, &wire_ops, sim, &sim->core);

	REPORT_REQUIRE(sim, rc == 0, "core_new: %d", rc);
	for (uint32_t i = 0; i < sim->space_count; i++) {
		const struct core_space_args *args = &sim->space_args[i];
		int number = core_space_add(sim->core, args);
		REPORT_REQUIRE(sim, number == (int)i, "namespace %u is number %d", i, number);
		number = core_space_find(sim->core, args->name, args->secret, 4);
		REPORT_REQUIRE(sim, number == (int)i, "namespace %u is found as %d", i, number);
	}
}

/* What must be refused before anything happens. */
static void world_refusals(struct sim *sim)
{
	static const uint8_t wrong[64] = "wrong";
	struct core_space_args args = {.name = "default"};
	struct core_config config = sim->config;
	struct core *none;

	REPORT_REQUIRE(sim, core_space_add(sim->core, &args) == -EEXIST, "a second \"default\"");
	args.name = "one more";
	REPORT_REQUIRE(sim, core_space_add(sim->core, &args) == -ENOSPC, "a namespace too many");
	args.name = "";
	REPORT_REQUIRE(sim, core_space_add(sim->core, &args) == -EINVAL,
		       "a namespace without name");
	REPORT_REQUIRE(sim,
		       core_space_find(sim->core, "default", wrong, 5) == -EACCES &&
			       core_space_find(sim->core, "default", wrong, 0) == -EACCES,
		       "a wrong secret is accepted");
	REPORT_REQUIRE(sim, core_space_find(sim->core, "nobody", wrong, 5) == -ENOENT,
		       "a namespace that does not exist is found");
	config.formats_max = 0;
	REPORT_REQUIRE(sim, core_new(&config, &wire_ops, sim, &none) == -EINVAL,
		       "a core without formats is made");
	config = sim->config;
	config.pool_bytes[config.device_count++] = 0;
	REPORT_REQUIRE(sim, core_new(&config, &wire_ops, sim, &none) == -EINVAL,
		       "a device without a pool is accepted");
	coverage_other(-EEXIST);
	coverage_other(-ENOSPC);
	coverage_other(-EINVAL);
	coverage_other(-EACCES);
	coverage_other(-ENOENT);
}

void world_init(struct sim *sim, uint64_t seed)
{
	memset(sim, 0, sizeof(*sim));
	sim->seed = seed;
	sim->random.state = seed;
	sim->places.state = random_mix(seed ^ WORLD_PLACES);
	sim->depths.state = random_mix(seed ^ WORLD_DEPTHS);
	sim->life = 1;
	sim->now_ns = 1000000000ull;
	sim->opening = SIM_NONE;
	sim->format_count = SIM_FORMATS_MAX;
	sim->make_fails_percent = random_percent(&sim->random, 50) ? 10 : 0;
	sim->hot_format = random_below(&sim->random, SIM_FORMATS_MAX);
	sim->hot_space = random_below(&sim->random, SIM_SPACES_MAX - 1);
	sim->pace_percent = random_range(&sim->random, 20, 100);
	for (uint32_t i = 0; i < SIM_NUMBERS_MAX; i++)
		sim->by_number[i] = SIM_NONE;
	for (uint32_t i = 0; i < SIM_PAGES_MAX; i++)
		sim->page[i].writer = SIM_NONE;
	for (uint32_t i = 0; i < sim->format_count; i++)
		world_format(sim, i);
	world_config(sim);
	world_policy(sim, seed);
	world_devices(sim);
	world_places(sim);
	world_tiers(sim);
	world_spaces(sim);
	world_make_core(sim);
	world_refusals(sim);
}

/* What the core counted must not be hollow either. */
static void world_count(struct sim *sim)
{
	static const struct {
		enum kvd_counter counter;
		const char *word;
	} counters[] = {
		{KVD_C_DEMOTED_PAGES, "pages, demoted"},
		{KVD_C_LOADED_TOKENS, "tokens, loaded"},
		{KVD_C_PREFETCHED_TOKENS, "tokens, prefetched"},
		{KVD_C_RECOMPUTED_TOKENS, "tokens, recomputed"},
		{KVD_C_LOST_TOKENS, "tokens, lost"},
		{KVD_C_LOADS_CHOSEN, "loads chosen"},
		{KVD_C_COMPUTES_CHOSEN, "computes chosen"},
		{KVD_C_UNSTORED_BLOCKS, "blocks, not stored"},
	};
	static struct kvd_status status;

	core_status(sim->core, &status);
	for (uint32_t i = 0; i < ARRAY_LEN(counters); i++)
		coverage_add(counters[i].word, status.counters[counters[i].counter]);
}

void world_end_core(struct sim *sim)
{
	coverage_states(sim->core);
	world_count(sim);
	core_free(sim->core);
	sim->core = NULL;
}

void world_fini(struct sim *sim)
{
	world_end_core(sim);
}
