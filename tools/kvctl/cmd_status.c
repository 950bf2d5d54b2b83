/* SPDX-License-Identifier: Apache-2.0 */
/* kvctl status: the whole daemon on one screen, from the status file alone. */
#include "tools/kvctl/cmd_status.h"

#include "tools/kvctl/fields.h"
#include "tools/kvctl/source.h"

#include <base/bits.h>
#include <base/log.h>
#include <base/units.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const cmd_status_states[KVD_PAGE_STATES] = {"free", "open", "sealed", "filling",
							       "quarantine"};

static const char *const cmd_status_counters[] = {
	[KVD_C_ACQUIRES] = "acquires",
	[KVD_C_PROMPT_TOKENS] = "prompt_tokens",
	[KVD_C_CACHED_TOKENS] = "cached_tokens",
	[KVD_C_FOLLOWED_TOKENS] = "followed_tokens",
	[KVD_C_TAIL_TOKENS] = "tail_tokens",
	[KVD_C_SEALED_BLOCKS] = "sealed_blocks",
	[KVD_C_KEPT_BLOCKS] = "kept_blocks",
	[KVD_C_EVICTED_PAGES] = "evicted_pages",
	[KVD_C_REFUSED_FULL] = "refused_full",
	[KVD_C_WAITED] = "waited",
	[KVD_C_STALE] = "stale",
	[KVD_C_TAKES] = "takes",
	[KVD_C_CALLS] = "calls",
	[KVD_C_SESSION_DEATHS] = "session_deaths",
	[KVD_C_QUARANTINED_PAGES] = "quarantined_pages",
	[KVD_C_SLABS_MADE] = "slabs_made",
	[KVD_C_SLABS_RETIRED] = "slabs_retired",
	[KVD_C_PROTOCOL_ERRORS] = "protocol_errors",
	[KVD_C_KV_BYTES_COPIED] = "kv_bytes_copied",
	[KVD_C_LOOP_TURNS] = "loop_turns",
	[KVD_C_DEMOTED_PAGES] = "demoted_pages",
	[KVD_C_LOADED_TOKENS] = "loaded_tokens",
	[KVD_C_PREFETCHED_TOKENS] = "prefetched_tokens",
	[KVD_C_RECOMPUTED_TOKENS] = "recomputed_tokens",
	[KVD_C_LOST_TOKENS] = "lost_tokens",
	[KVD_C_LOADS_CHOSEN] = "loads_chosen",
	[KVD_C_COMPUTES_CHOSEN] = "computes_chosen",
	[KVD_C_LOAD_ESTIMATE_NS] = "load_estimate_ns",
	[KVD_C_LOAD_ACTUAL_NS] = "load_actual_ns",
	[KVD_C_UNSTORED_BLOCKS] = "unstored_blocks",
};
static_assert(ARRAY_LEN(cmd_status_counters) == KVD_C_COUNT, "each counter has a name");

double cmd_status_hit_percent(const struct kvd_status *s)
{
	uint64_t asked = s->counters[KVD_C_PROMPT_TOKENS];

	return asked ? 100.0 * (double)s->counters[KVD_C_CACHED_TOKENS] / (double)asked : 0;
}

uint64_t cmd_status_counter(const struct kvd_status *s, size_t i, const char **out_name)
{
	if (i >= ARRAY_LEN(cmd_status_counters))
		return 0;
	*out_name = cmd_status_counters[i];
	return s->counters[i];
}

const char *cmd_status_state_name(size_t state)
{
	return cmd_status_states[state];
}

/* None in the status of a kvd that does not tell. */
static uint32_t cmd_status_devices(const struct kvd_status *s)
{
	return BITS_MIN(s->device_count, KVD_DEVICES_MAX);
}

uint32_t cmd_status_areas(const struct kvd_status *s)
{
	return s->minor < 2 ? 0 : BITS_MIN(s->area_count, (uint32_t)ARRAY_LEN(s->areas));
}

static void cmd_status_area(const struct kvd_area_stat *a)
{
	char used[32], size[32], load[32], store[32], path[104];

	printf("%-14s %s, %s of %s used, %" PRIu64 " blocks, %" PRIu64
	       " hit; loading %s/s, storing %s/s, %u queued%s%s\n",
	       fields_tier(a->tier), a->state == KVD_AREA_OK ? "ok" : "DEGRADED",
	       units_format_bytes(a->used_bytes, used, sizeof(used)),
	       units_format_bytes(a->bytes, size, sizeof(size)), a->blocks, a->hit_blocks,
	       units_format_bytes(a->load_bytes_per_s, load, sizeof(load)),
	       units_format_bytes(a->store_bytes_per_s, store, sizeof(store)), a->queue,
	       a->path[0] ? "; " : "", log_safe(a->path, sizeof(a->path), path, sizeof(path)));
}

static void cmd_status_device(const struct kvd_device_stat *d)
{
	char pool[32], slabs[32], used[32];

	printf("  device %-5u  pool %s, %s of it made into slabs, %s used; %" PRIu64
	       " pages promised, %" PRIu64 " evictable, %u requests waiting\n",
	       d->device, units_format_bytes(d->pool_bytes, pool, sizeof(pool)),
	       units_format_bytes(d->slab_bytes, slabs, sizeof(slabs)),
	       units_format_bytes(d->used_bytes, used, sizeof(used)), d->promised_pages,
	       d->evictable_pages, d->waiting_requests);
}

void cmd_status_screen(const struct kvd_status *s)
{
	char a[32], b[32];
	uint64_t pages = 0;

	for (size_t i = 0; i < KVD_PAGE_STATES; i++)
		pages += s->pages_by_state[i];
	printf("device memory  %.32s, pool %s, %s of it made into slabs\n", s->device_memory,
	       units_format_bytes(s->pool_bytes, a, sizeof(a)),
	       units_format_bytes(s->slab_bytes, b, sizeof(b)));
	for (uint32_t d = 0; d < cmd_status_devices(s) && cmd_status_devices(s) > 1; d++)
		cmd_status_device(&s->devices[d]);
	printf("pages         ");
	for (size_t i = 0; i < KVD_PAGE_STATES; i++)
		printf(" %s %" PRIu64 " (%s)%s", cmd_status_states[i], s->pages_by_state[i],
		       units_format_bytes(s->bytes_by_state[i], a, sizeof(a)),
		       i + 1 < KVD_PAGE_STATES ? "," : "\n");
	printf("               %" PRIu64 " in slabs, %" PRIu64 " promised, %" PRIu64 " evictable\n",
	       pages, s->promised_pages, s->evictable_pages);
	for (uint32_t i = 0; i < cmd_status_areas(s); i++)
		cmd_status_area(&s->areas[i]);
	printf("index          %" PRIu64 " of %" PRIu64 " nodes, %" PRIu64 " of %" PRIu64
	       " tokens\n",
	       s->nodes, s->nodes_max, s->index_tokens, s->index_tokens_max);
	printf("work           %u sessions, %" PRIu64 " leases, %" PRIu64 " requests waiting%s\n",
	       s->session_count, s->leases, s->waiting_requests, s->draining ? ", draining" : "");
	printf("hits           %" PRIu64 " of %" PRIu64 " prompt tokens (%.1f %%), %" PRIu64
	       " followed, %" PRIu64 " from tails\n",
	       s->counters[KVD_C_CACHED_TOKENS], s->counters[KVD_C_PROMPT_TOKENS],
	       cmd_status_hit_percent(s), s->counters[KVD_C_FOLLOWED_TOKENS],
	       s->counters[KVD_C_TAIL_TOKENS]);
	printf("copied         %" PRIu64 " KV bytes to share prefixes\n",
	       s->counters[KVD_C_KV_BYTES_COPIED]);
	printf("loop           turn p50 %.1f us, p99 %.1f us\n", (double)s->loop_p50_ns / 1e3,
	       (double)s->loop_p99_ns / 1e3);
}

static json_t *cmd_status_json(const struct kvd_status *s, enum source_life life)
{
	json_t *o = json_pack("{s:b, s:I, s:s%, s:s%, s:f, s:I, s:I, s:I, s:I}", "alive",
			      life == SOURCE_ALIVE, "pid", (json_int_t)s->pid, "version",
			      s->version, strnlen(s->version, sizeof(s->version)), "device_memory",
			      s->device_memory, strnlen(s->device_memory, sizeof(s->device_memory)),
			      "age_s", (double)(units_now_ns() - s->start_ns) / 1e9, "pool_bytes",
			      (json_int_t)s->pool_bytes, "slab_bytes", (json_int_t)s->slab_bytes,
			      "promised_pages", (json_int_t)s->promised_pages, "evictable_pages",
			      (json_int_t)s->evictable_pages);
	json_t *pages = json_object(), *bytes = json_object(), *counters = json_object();

	for (size_t i = 0; i < KVD_PAGE_STATES; i++) {
		json_object_set_new(pages, cmd_status_states[i],
				    json_integer((json_int_t)s->pages_by_state[i]));
		json_object_set_new(bytes, cmd_status_states[i],
				    json_integer((json_int_t)s->bytes_by_state[i]));
	}
	for (size_t i = 0; i < ARRAY_LEN(cmd_status_counters); i++)
		json_object_set_new(counters, cmd_status_counters[i],
				    json_integer((json_int_t)s->counters[i]));
	json_object_set_new(o, "pages", pages);
	json_object_set_new(o, "bytes", bytes);
	json_object_set_new(o, "counters", counters);
	json_object_set_new(o, "nodes", json_integer((json_int_t)s->nodes));
	json_object_set_new(o, "index_tokens", json_integer((json_int_t)s->index_tokens));
	json_object_set_new(o, "leases", json_integer((json_int_t)s->leases));
	json_object_set_new(o, "waiting_requests", json_integer((json_int_t)s->waiting_requests));
	json_object_set_new(o, "draining", json_boolean(s->draining));
	json_object_set_new(o, "loop_p50_ns", json_integer((json_int_t)s->loop_p50_ns));
	json_object_set_new(o, "loop_p99_ns", json_integer((json_int_t)s->loop_p99_ns));
	json_object_set_new(o, "sessions",
			    json_out_records(fields_session, s->sessions,
					     BITS_MIN(s->session_count, KVD_STATUS_SESSIONS),
					     sizeof(s->sessions[0])));
	json_object_set_new(o, "devices",
			    json_out_records(fields_device, s->devices, cmd_status_devices(s),
					     sizeof(s->devices[0])));
	json_object_set_new(
		o, "tiers",
		json_out_records(fields_area, s->areas, cmd_status_areas(s), sizeof(s->areas[0])));
	json_object_set_new(o, "spaces",
			    json_out_records(fields_space, s->spaces,
					     BITS_MIN(s->space_count, KVD_STATUS_SPACES),
					     sizeof(s->spaces[0])));
	return o;
}

static int cmd_status_run(struct kvctl *k, int argc, char **argv)
{
	static struct kvd_status s;
	enum source_life life;

	if (args_read(&cmd_status, argc, argv, NULL) != 0)
		return EXIT_USAGE;
	if (source_status(k, &s, &life) < 0)
		return EXIT_FAILED;
	if (k->json) {
		json_out_print(cmd_status_json(&s, life));
	} else {
		char version[32];
		log_safe(s.version, sizeof(s.version), version, sizeof(version));
		printf("kvd %s, pid %u, %s%" PRIu64 " s, %s\n", version, s.pid,
		       life == SOURCE_ALIVE ? "up " : "DEAD, last seen after ",
		       ((life == SOURCE_ALIVE ? units_now_ns() : s.updated_ns) - s.start_ns) /
			       (uint64_t)UNITS_NS_PER_S,
		       k->path);
		cmd_status_screen(&s);
	}
	if (life == SOURCE_DEAD)
		fprintf(stderr, "kvctl: the daemon died; these are its last figures\n");
	return life == SOURCE_ALIVE ? EXIT_OK : EXIT_FAILED;
}

const struct kvctl_command cmd_status = {
	.name = "status",
	.summary = "the daemon on one screen",
	.text = "Reads the status file beside the socket, without asking the daemon: it also "
		"tells\n"
		"what was there when a daemon died, and then exits with 1.\n",
	.run = cmd_status_run,
};
