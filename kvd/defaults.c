/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defaults that depend on the host or on each other, and how they are told to a person. What is
 * printed at start is what --check-config prints: one function. Runs at start.
 */
#include "kvd/defaults.h"
#include "base/bits.h"
#include "base/log.h"
#include "base/units.h"
#include "kvd/devprobe.h"
#include "kvd/entropy.h"
#include "kvd/hostmem.h"
#include "kvd/server.h"
#include "kvd/tenants.h"
#include "kvd/tiers.h"
#include <errno.h>
#include <unistd.h>

#define DEFAULTS_PAGES_MIN 16384u
#define DEFAULTS_PAGES_MAX (4u << 20)
#define DEFAULTS_TIER_BLOCK (256 * UNITS_KIB)
#define DEFAULTS_TIER_BLOCKS_MAX (16ull << 20)
#define DEFAULTS_SPIN_US 20u
#define DEFAULTS_SLAB_BYTES (64 * UNITS_MIB)
#define DEFAULTS_SLAB_ALIGN (2 * UNITS_MIB)

/*
 * A slab is given whole to one namespace and one size of page. In a small pool the usual 64 MiB
 * would leave nothing for the second of them: there a quarter of each namespace's part is enough.
 */
static uint64_t defaults_slab_bytes_min(uint64_t pool_bytes, uint32_t space_count)
{
	uint64_t quarter = pool_bytes / (4ull * BITS_MAX(space_count, 1u));
	uint64_t usual = BITS_MAX(DEFAULTS_SLAB_BYTES, pool_bytes / 256);

	quarter = quarter / DEFAULTS_SLAB_ALIGN * DEFAULTS_SLAB_ALIGN;
	return BITS_MAX(BITS_MIN(usual, quarter), DEFAULTS_SLAB_ALIGN);
}

static uint64_t defaults_pool_bytes(const struct options *o, uint64_t device_bytes)
{
	if (o->pool_bytes)
		return o->pool_bytes;
	return device_bytes ? device_bytes : hostmem_pool_default();
}

/* What suits the smallest pool, but no larger one is cut into more than 256 slabs. */
static uint64_t defaults_slab_bytes(const struct core_config *c, uint32_t space_count)
{
	uint64_t least = UINT64_MAX, most = 0;

	for (uint32_t d = 0; d < c->device_count; d++) {
		least = BITS_MIN(least, c->pool_bytes[d]);
		most = BITS_MAX(most, c->pool_bytes[d]);
	}
	uint64_t bytes = defaults_slab_bytes_min(least, space_count);
	return most > least ? BITS_MAX(bytes, most / 256) : bytes;
}

static uint64_t defaults_tier_bytes(const struct core_tier_config *tier)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < tier->area_count; i++)
		bytes += tier->area_segments[i] * tier->segment_bytes;
	return bytes;
}

void defaults_index(const struct options *o, struct core_config *c)
{
	uint64_t blocks = 0;

	for (uint32_t t = 0; t < CORE_TIERS; t++)
		blocks += defaults_tier_bytes(&c->tiers[t]) / DEFAULTS_TIER_BLOCK;
	blocks = BITS_MIN(blocks, DEFAULTS_TIER_BLOCKS_MAX);
	c->nodes_max = (uint32_t)(o->index_max ? o->index_max : 2ull * c->pages_max + blocks);
	c->index_tokens_max =
		o->index_tokens_max ? o->index_tokens_max : 64 * (c->pages_max + blocks);
}

struct core_config defaults_config(const struct options *o, const uint64_t *device_bytes,
				   uint32_t device_count)
{
	struct core_config c = {
		.device_count = device_count,
		.sessions_max = (uint32_t)o->sessions_max + SERVER_ADMINS_MAX,
		.leases_max = (uint32_t)o->leases_max,
		.formats_max = (uint32_t)o->formats_max,
		.geometries_max = 64,
		.spaces_max = (uint32_t)o->namespaces_max,
		.request_tokens_max = KVD_REQUEST_TOKENS_MAX,
		.session_share_permille = (uint32_t)o->session_share * 10,
		.policy = o->policy,
		.store = (enum core_store)options_store(o),
	};

	for (uint32_t d = 0; d < device_count; d++)
		c.pool_bytes[d] = defaults_pool_bytes(o, device_bytes[d]);
	c.slab_bytes_min = defaults_slab_bytes(&c, o->space_count);
	uint64_t pages = core_pool_bytes(&c) / (64 * UNITS_KIB);
	pages = BITS_MAX(pages, (uint64_t)DEFAULTS_PAGES_MIN * device_count);
	pages = BITS_MIN(pages, DEFAULTS_PAGES_MAX);
	c.pages_max = (uint32_t)(o->pages_max ? o->pages_max : pages);
	return c;
}

uint32_t defaults_spin_us(const struct options *o)
{
	if (o->spin_us >= 0)
		return (uint32_t)o->spin_us;
	return sysconf(_SC_NPROCESSORS_ONLN) <= 2 ? 0 : DEFAULTS_SPIN_US;
}

uint32_t defaults_uid_sessions_max(const struct options *o)
{
	uint64_t usual = BITS_MAX(o->sessions_max * 3 / 4, 1);

	return (uint32_t)(o->uid_sessions_max ? o->uid_sessions_max : usual);
}

static void defaults_log_tiers(const struct core_config *config)
{
	const struct core_tier_config *files = &config->tiers[CORE_TIER_FILE];
	char dram[32], file[32];

	units_format_bytes(defaults_tier_bytes(&config->tiers[CORE_TIER_DRAM]), dram, sizeof(dram));
	units_format_bytes(defaults_tier_bytes(files), file, sizeof(file));
	log_info("start", "tiers: %s of DRAM, %u files of %s", dram, files->area_count, file);
}

void defaults_log(const struct options *o, const struct core_config *config,
		  const struct paths *paths, const char *memory)
{
	char pool[32], core[32];

	units_format_bytes(core_pool_bytes(config), pool, sizeof(pool));
	units_format_bytes(core_bytes(config), core, sizeof(core));
	log_info("start", "version %s, pool %s of %s memory%s, slabs are made on demand",
		 KVD_VERSION, pool, memory,
		 o->pool_bytes ? "" : " (default; --pool-bytes changes it)");
	for (uint32_t d = 0; d < config->device_count && config->device_count > 1; d++)
		log_info("start", "of it on device %u: %s", d,
			 units_format_bytes(config->pool_bytes[d], pool, sizeof(pool)));
	defaults_log_tiers(config);
	log_info("start",
		 "policy %s, at most %u pages, %u index entries, %" PRIu64
		 " index tokens, %u leases, %u formats: %s for records",
		 config->policy, config->pages_max, config->nodes_max, config->index_tokens_max,
		 config->leases_max, config->formats_max, core);
	log_info("start",
		 "at most %" PRIu64 " sessions, %u of one user, each with %" PRIu64
		 " %% of the pool; %u namespaces; spins %u us; %" PRIu64 " workers",
		 o->sessions_max, defaults_uid_sessions_max(o), o->session_share, o->space_count,
		 defaults_spin_us(o), o->workers);
	log_info("start", "socket %s, status %s, state %s",
		 paths->socket[0] ? paths->socket : "given by the parent",
		 paths->status[0] ? paths->status : "none",
		 paths->state_dir[0] ? paths->state_dir : "none");
}

static void defaults_note(void *ctx, enum core_note_kind kind, const char *text)
{
	log_write(kind == CORE_NOTE_WARN ? LOG_WARN : LOG_INFO, "core", "%s", text);
}

/* A core is made and thrown away: it alone knows whether limits and quotas fit together. */
static int defaults_check_core(const struct options *o, const struct core_config *config,
			       char *error, size_t size)
{
	static const struct core_ops ops = {.note = defaults_note};
	struct entropy entropy = {0};
	struct core *core;
	int r = core_new(config, &ops, NULL, &core);

	if (r < 0) {
		snprintf(error, size, "the limits: %s", strerror(-r));
		return r;
	}
	r = tenants_add(core, o, core_pool_bytes(config), "", &entropy, error, size);
	core_free(core);
	return r;
}

int defaults_check(struct options *o, char *error, size_t size)
{
	struct devprobe found;
	struct paths paths;
	int r = paths_init(&paths, o, error, size);

	if (r < 0)
		return r;
	r = devprobe(&found, o->device_memory, o->devices, error, size);
	if (r < 0)
		return r;
	tenants_default(o);
	uint64_t device_bytes[KVD_DEVICES_MAX];
	devprobe_pools(&found, device_bytes);
	struct core_config config = defaults_config(o, device_bytes, found.count);
	tiers_expect(o, found.ops->kind != KVD_SLAB_HOST, &config);
	defaults_index(o, &config);
	r = defaults_check_core(o, &config, error, size);
	if (r == 0)
		defaults_log(o, &config, &paths, found.ops->name);
	return r;
}
