/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The status: everything in it is counted as it happens, nothing is searched. The fields of the
 * process (pid, nonce, times, version, loop) are the shell's and are left alone. The core's thread
 * only.
 */
#include "kvd/core/status.h"

#include "kvd/core/list.h"
#include "kvd/core/space.h"

#include <string.h>

static void fill_lists(const struct core *core, struct kvd_status *out)
{
	out->session_count = out->space_count = 0;
	for (uint32_t s = 0; s < core->cfg.sessions_max; s++)
		if (core->sessions[s].open && out->session_count < KVD_STATUS_SESSIONS)
			list_session(core, s, &out->sessions[out->session_count++]);
	for (uint32_t s = 0; s < core->space_count && s < KVD_STATUS_SPACES; s++)
		space_stat(core, s, &out->spaces[out->space_count++]);
}

static void fill_device(const struct core *core, uint32_t device, struct kvd_device_stat *out)
{
	*out = (struct kvd_device_stat){
		.device = device,
		.waiting_requests = core->banks[device].waiter_count,
		.pool_bytes = core->banks[device].bytes,
		.slab_bytes = core->banks[device].slab_bytes,
	};
	for (uint32_t s = 0; s < core->space_count; s++) {
		out->used_bytes += core->spaces[s].on[device].used_bytes;
		for (uint32_t g = 0; g < core->geometry_count; g++) {
			const struct shelf *shelf = machine_shelf(core, s, g);
			if (core->geometries[g].device != device)
				continue;
			out->promised_pages += shelf->promised;
			out->evictable_pages += shelf->evictable;
		}
	}
}

/* All devices, and what they are together. */
static void fill_devices(const struct core *core, struct kvd_status *out)
{
	out->device_count = core->cfg.device_count;
	out->pool_bytes = out->slab_bytes = out->promised_pages = out->evictable_pages = 0;
	for (uint32_t d = 0; d < core->cfg.device_count; d++) {
		fill_device(core, d, &out->devices[d]);
		out->pool_bytes += out->devices[d].pool_bytes;
		out->slab_bytes += out->devices[d].slab_bytes;
		out->promised_pages += out->devices[d].promised_pages;
		out->evictable_pages += out->devices[d].evictable_pages;
	}
}

static void fill_area(const struct core *core, uint32_t t, uint32_t a, struct kvd_area_stat *out)
{
	const struct tier *tier = &core->tiers[t];
	const struct area *area = &tier->areas[a];

	*out = (struct kvd_area_stat){
		.tier = t == CORE_TIER_FILE ? KVD_TIER_FILE : KVD_TIER_DRAM,
		.area = a,
		.state = area->down ? KVD_AREA_DEGRADED : KVD_AREA_OK,
		.queue = area->moving,
		.bytes = (area->end_segment - area->first_segment) * tier->segment_bytes,
		.used_bytes = area->used_bytes,
		.blocks = area->blocks,
		.hit_blocks = area->hit_blocks,
		.loads = area->loads,
		.stores = area->stores,
		.loaded_bytes = area->loaded_bytes,
		.stored_bytes = area->stored_bytes,
		.bad_blocks = area->bad_blocks,
		.dropped_blocks = area->dropped_blocks,
		.load_bytes_per_s = area->load.bytes_per_s,
		.store_bytes_per_s = area->store.bytes_per_s,
		.load_peak_bytes_per_s = area->load.peak_bytes_per_s,
		.store_peak_bytes_per_s = area->store.peak_bytes_per_s,
	};
}

/* DRAM first, if there is such a tier. */
static void fill_areas(const struct core *core, struct kvd_status *out)
{
	out->area_count = 0;
	for (uint32_t t = 0; t < CORE_TIERS; t++)
		for (uint32_t a = 0; a < core->tiers[t].area_count; a++)
			if (out->area_count < ARRAY_LEN(out->areas))
				fill_area(core, t, a, &out->areas[out->area_count++]);
}

void status_fill(const struct core *core, struct kvd_status *out)
{
	memcpy(out->pages_by_state, core->pages_by_state, sizeof(out->pages_by_state));
	memcpy(out->bytes_by_state, core->bytes_by_state, sizeof(out->bytes_by_state));
	out->nodes = core->node_count;
	out->nodes_max = core->cfg.nodes_max;
	out->index_tokens = core->arena_tokens;
	out->index_tokens_max = core->cfg.index_tokens_max;
	out->leases = core->lease_count;
	out->waiting_requests = core->waiter_count;
	out->draining = core->draining;
	memset(out->counters, 0, sizeof(out->counters));
	memcpy(out->counters, core->counters, sizeof(core->counters));
	fill_devices(core, out);
	fill_areas(core, out);
	fill_lists(core, out);
}
