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

static void fill_shelves(const struct core *core, struct kvd_status *out)
{
	out->promised_pages = out->evictable_pages = 0;
	for (uint32_t s = 0; s < core->space_count; s++)
		for (uint32_t g = 0; g < core->geometry_count; g++) {
			const struct shelf *shelf = machine_shelf(core, s, g);
			out->promised_pages += shelf->promised;
			out->evictable_pages += shelf->evictable;
		}
}

static void fill_lists(const struct core *core, struct kvd_status *out)
{
	out->session_count = out->space_count = 0;
	for (uint32_t s = 0; s < core->cfg.sessions_max; s++)
		if (core->sessions[s].open && out->session_count < KVD_STATUS_SESSIONS)
			list_session(core, s, &out->sessions[out->session_count++]);
	for (uint32_t s = 0; s < core->space_count && s < KVD_STATUS_SPACES; s++)
		space_stat(core, s, &out->spaces[out->space_count++]);
}

void status_fill(const struct core *core, struct kvd_status *out)
{
	out->pool_bytes = core->pool_bytes;
	out->slab_bytes = core->slab_bytes;
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
	fill_shelves(core, out);
	fill_lists(core, out);
}
