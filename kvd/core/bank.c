/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Banks. The page records are cut into one range for each device, as long as its pool is large,
 * so that no device ever lacks records because of another's slabs.
 *
 * Invariants: ranges do not overlap and cover all records. bytes <= the configured pool. What is
 * given for the daemon as a whole is divided so that the parts are never more than the whole. The
 * core's thread only.
 */
#include "kvd/core/bank.h"

#include <base/units.h>

__extension__ typedef unsigned __int128 bank_wide;

/* value * part / whole, without overflow where part <= whole. */
static uint64_t scale(uint64_t value, uint64_t part, uint64_t whole)
{
	return (uint64_t)((bank_wide)value * part / whole);
}

uint64_t core_pool_bytes(const struct core_config *config)
{
	uint64_t bytes = 0;

	for (uint32_t d = 0; d < config->device_count; d++)
		bytes += config->pool_bytes[d];
	return bytes;
}

/* The first record of the device; of the device behind the last: the end of all. */
static uint32_t first_record(const struct core_config *config, uint32_t device)
{
	uint64_t before = 0;

	for (uint32_t d = 0; d < device; d++)
		before += config->pool_bytes[d];
	return (uint32_t)scale(config->pages_max, before, core_pool_bytes(config));
}

const char *bank_wrong(const struct core_config *config)
{
	if (config->device_count == 0 || config->device_count > KVD_DEVICES_MAX)
		return "device_count";
	for (uint32_t d = 0; d < config->device_count; d++)
		if (config->pool_bytes[d] < config->slab_align_bytes ||
		    config->pool_bytes[d] > CORE_POOL_BYTES_MAX)
			return "pool_bytes";
	for (uint32_t d = 0; d < config->device_count; d++)
		if (first_record(config, d) == first_record(config, d + 1))
			return "pages_max";
	return NULL;
}

static uint64_t smallest_slab(const struct core_config *config, uint32_t device)
{
	uint64_t pool = config->pool_bytes[device];
	uint64_t usual = BITS_MAX(64 * UNITS_MIB, pool / 256);
	uint64_t least = config->slab_bytes_min ? config->slab_bytes_min : usual;

	least = bits_align_up(BITS_MIN(least, pool), config->slab_align_bytes);
	return BITS_MIN(least, pool);
}

uint32_t bank_init(struct core *core)
{
	const struct core_config *c = &core->cfg;
	uint64_t slabs = 0;

	for (uint32_t d = 0; d < c->device_count; d++) {
		struct bank *b = &core->banks[d];
		*b = (struct bank){
			.bytes = c->pool_bytes[d],
			.first_page = first_record(c, d),
			.slab_bytes_min = smallest_slab(c, d),
			.turner = CORE_NONE,
		};
		b->end_page = first_record(c, d + 1);
		slabs += BITS_MIN(b->bytes / b->slab_bytes_min,
				  (uint64_t)b->end_page - b->first_page);
	}
	return (uint32_t)slabs;
}

uint64_t bank_part(const struct core *core, uint32_t device, uint64_t bytes)
{
	return scale(bytes, core->cfg.pool_bytes[device], core_pool_bytes(&core->cfg));
}

void bank_lower(struct core *core, uint32_t device)
{
	struct bank *b = &core->banks[device];

	b->bytes = b->slab_bytes;
	b->retry_ns = core->now_ns + UNITS_NS_PER_S;
}

static bool lowered(const struct core *core, uint32_t device)
{
	return core->banks[device].bytes < core->cfg.pool_bytes[device];
}

void bank_time(struct core *core)
{
	for (uint32_t d = 0; d < core->cfg.device_count; d++) {
		if (!lowered(core, d) || core->banks[d].retry_ns > core->now_ns)
			continue;
		core->banks[d].bytes = core->cfg.pool_bytes[d];
		machine_wake(core, d);
	}
}

uint64_t bank_deadline_ns(const struct core *core)
{
	uint64_t deadline = UINT64_MAX;

	for (uint32_t d = 0; d < core->cfg.device_count; d++)
		if (core->banks[d].waiter_count > 0 && lowered(core, d))
			deadline = BITS_MIN(deadline, core->banks[d].retry_ns);
	return deadline;
}
