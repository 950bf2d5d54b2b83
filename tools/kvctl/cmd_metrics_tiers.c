/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The areas of the tiers as metrics: one row of a table a metric, one sample an area. The labels
 * are tier, area (its number there) and path: two long paths may end alike, the number tells them
 * apart.
 */
#include "tools/kvctl/cmd_metrics.h"
#include "tools/kvctl/cmd_status.h"
#include "tools/kvctl/fields.h"

#include <base/bits.h>
#include <base/log.h>
#include <inttypes.h>

#define METRIC(name, type, key, kind, help)                                                        \
	{                                                                                          \
		"kvd_tier_" name, type, help,                                                      \
		{                                                                                  \
#key, NULL, offsetof(struct kvd_area_stat, key), kind, 0                   \
		}                                                                                  \
	}

static const struct {
	const char *name;
	const char *type;
	const char *help;
	struct field field;
} cmd_metrics_areas[] = {
	METRIC("degraded", "gauge", state, FIELD_U32, "1 while the area cannot be used"),
	METRIC("bytes", "gauge", bytes, FIELD_U64, "size of the area"),
	METRIC("used_bytes", "gauge", used_bytes, FIELD_U64, "of it, slots that hold a block"),
	METRIC("blocks", "gauge", blocks, FIELD_U64, "blocks that it holds"),
	METRIC("queue", "gauge", queue, FIELD_U32, "transfers under way and waiting"),
	METRIC("load_bytes_per_second", "gauge", load_bytes_per_s, FIELD_U64,
	       "of late, while it was loading"),
	METRIC("store_bytes_per_second", "gauge", store_bytes_per_s, FIELD_U64,
	       "of late, while it was storing"),
	METRIC("load_peak_bytes_per_second", "gauge", load_peak_bytes_per_s, FIELD_U64,
	       "the best that was measured"),
	METRIC("store_peak_bytes_per_second", "gauge", store_peak_bytes_per_s, FIELD_U64,
	       "the best that was measured"),
	METRIC("hit_blocks_total", "counter", hit_blocks, FIELD_U64,
	       "blocks loaded because a request wanted them"),
	METRIC("loads_total", "counter", loads, FIELD_U64, "blocks loaded"),
	METRIC("stores_total", "counter", stores, FIELD_U64, "blocks stored"),
	METRIC("loaded_bytes_total", "counter", loaded_bytes, FIELD_U64, "bytes loaded"),
	METRIC("stored_bytes_total", "counter", stored_bytes, FIELD_U64, "bytes stored"),
	METRIC("errors_total", "counter", errors, FIELD_U64, "transfers that failed"),
	METRIC("bad_blocks_total", "counter", bad_blocks, FIELD_U64,
	       "blocks that were not what they should be"),
	METRIC("dropped_blocks_total", "counter", dropped_blocks, FIELD_U64,
	       "blocks that made room for others"),
};

/* {tier="file",area="0",path="/ssd/kvd"}: quotes and backslashes are escaped. */
static void cmd_metrics_labels(FILE *out, const struct kvd_area_stat *a)
{
	char path[sizeof(a->path) + 1];

	log_safe(a->path, sizeof(a->path), path, sizeof(path));
	fprintf(out, "{tier=\"%s\",area=\"%u\",path=\"", fields_tier(a->tier), a->area);
	for (const char *c = path; *c; c++)
		fprintf(out, "%s%c", *c == '"' || *c == '\\' ? "\\" : "", *c);
	fprintf(out, "\"}");
}

void cmd_metrics_tiers(FILE *out, const struct kvd_status *s)
{
	uint32_t count = cmd_status_areas(s);

	for (size_t i = 0; i < ARRAY_LEN(cmd_metrics_areas) && count > 0; i++) {
		const char *name = cmd_metrics_areas[i].name;

		fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, cmd_metrics_areas[i].help, name,
			cmd_metrics_areas[i].type);
		for (uint32_t a = 0; a < count; a++) {
			fprintf(out, "%s", name);
			cmd_metrics_labels(out, &s->areas[a]);
			fprintf(out, " %" PRIu64 "\n",
				fields_number(&cmd_metrics_areas[i].field, &s->areas[a]));
		}
	}
}
