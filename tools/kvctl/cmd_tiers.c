/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kvctl tiers: where blocks lie that left the devices, how fast they come back, and what came of
 * kvd's choices between loading and computing. From the status file alone.
 */
#include "tools/kvctl/cmd_status.h"
#include "tools/kvctl/fields.h"
#include "tools/kvctl/source.h"
#include "tools/kvctl/watch.h"

#include <base/bits.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* First minor of a status file that tells of tiers. */
#define CMD_TIERS_MINOR 2

static const enum kvd_counter cmd_tiers_counters[] = {
	KVD_C_LOADS_CHOSEN,  KVD_C_COMPUTES_CHOSEN,   KVD_C_LOAD_ESTIMATE_NS,  KVD_C_LOAD_ACTUAL_NS,
	KVD_C_LOADED_TOKENS, KVD_C_PREFETCHED_TOKENS, KVD_C_RECOMPUTED_TOKENS, KVD_C_LOST_TOKENS,
	KVD_C_DEMOTED_PAGES, KVD_C_EVICTED_PAGES,     KVD_C_UNSTORED_BLOCKS,
};

static json_t *cmd_tiers_json(const struct kvd_status *s, enum source_life life)
{
	json_t *o = json_object(), *decisions = json_object();

	for (size_t i = 0; i < ARRAY_LEN(cmd_tiers_counters); i++) {
		const char *name = NULL;
		uint64_t v = cmd_status_counter(s, cmd_tiers_counters[i], &name);
		json_object_set_new(decisions, name, json_integer((json_int_t)v));
	}
	json_object_set_new(o, "alive", json_boolean(life == SOURCE_ALIVE));
	json_object_set_new(
		o, "tiers",
		json_out_records(fields_area, s->areas, cmd_status_areas(s), sizeof(s->areas[0])));
	json_object_set_new(o, "decisions", decisions);
	return o;
}

static void cmd_tiers_decisions(const uint64_t *c)
{
	double estimate_s = (double)c[KVD_C_LOAD_ESTIMATE_NS] / 1e9;
	double actual_s = (double)c[KVD_C_LOAD_ACTUAL_NS] / 1e9;

	printf("decisions      %" PRIu64 " requests loaded, %" PRIu64 " computed what they could "
	       "have loaded\n",
	       c[KVD_C_LOADS_CHOSEN], c[KVD_C_COMPUTES_CHOSEN]);
	if (c[KVD_C_LOAD_ESTIMATE_NS] > 0)
		printf("loading        %.3f s expected, %.3f s taken (%.0f %%)\n", estimate_s,
		       actual_s, 100 * actual_s / estimate_s);
	printf("tokens         %" PRIu64 " loaded for requests, %" PRIu64 " prefetched, %" PRIu64
	       " recomputed because that is faster, %" PRIu64 " lost\n",
	       c[KVD_C_LOADED_TOKENS], c[KVD_C_PREFETCHED_TOKENS], c[KVD_C_RECOMPUTED_TOKENS],
	       c[KVD_C_LOST_TOKENS]);
	printf("evictions      %" PRIu64 " of %" PRIu64 " evicted pages stayed in a tier\n",
	       c[KVD_C_DEMOTED_PAGES], c[KVD_C_EVICTED_PAGES]);
	printf("writes         %" PRIu64 " blocks not written: no use of them is expected\n",
	       c[KVD_C_UNSTORED_BLOCKS]);
}

static void cmd_tiers_text(const struct kvctl *k, const struct kvd_status *s)
{
	uint32_t count = cmd_status_areas(s);

	if (count == 0) {
		printf("the kvd at %s has no tiers: what it evicts must be computed again\n",
		       k->path);
		return;
	}
	table_print(fields_area, s->areas, count, sizeof(s->areas[0]));
	putchar('\n');
	cmd_tiers_decisions(s->counters);
}

static int cmd_tiers_screen(void *ctx)
{
	static struct kvd_status s;
	const struct kvctl *k = ctx;
	enum source_life life;
	int err = source_status(k, &s, &life);

	if (err < 0)
		return err;
	if (s.minor < CMD_TIERS_MINOR) {
		fprintf(stderr,
			"kvctl: the kvd at %s is an older one (protocol %u.%u) and knows no "
			"tiers\n",
			k->path, s.major, s.minor);
		return -EPROTO;
	}
	if (k->json)
		json_out_print(cmd_tiers_json(&s, life));
	else
		cmd_tiers_text(k, &s);
	if (life == SOURCE_ALIVE)
		return 0;
	fprintf(stderr, "kvctl: the daemon died; these are its last figures\n");
	return -ESRCH;
}

static int cmd_tiers_run(struct kvctl *k, int argc, char **argv)
{
	const char *values[3] = {NULL, "1000", "0"};

	if (args_read(&cmd_tiers, argc, argv, values) != 0)
		return EXIT_USAGE;
	int64_t interval_ms = args_number(values[1], "--interval", 50, 60000);
	int64_t count = args_number(values[2], "--count", 0, 1000000);
	if (interval_ms < 0 || count < 0)
		return EXIT_USAGE;
	struct watch w = {.screen = cmd_tiers_screen,
			  .ctx = k,
			  .interval_ms = (uint64_t)interval_ms,
			  .count = values[0] ? (uint64_t)count : 1,
			  .clear = values[0] && !k->json};
	return watch_run(&w) < 0 ? EXIT_FAILED : EXIT_OK;
}

static const struct kvctl_option cmd_tiers_options[] = {
	{"--watch", NULL, "again and again; leave with q or ^C"},
	{"--interval", "MS", "with --watch: milliseconds between screens; default 1000"},
	{"--count", "N", "with --watch: leave after N screens; default 0: never"},
	{0},
};

const struct kvctl_command cmd_tiers = {
	.name = "tiers",
	.args = "[--watch [--interval MS] [--count N]]",
	.summary = "DRAM and file tiers: what they hold, how fast, and was it worth it",
	.text = "One line per area (a file of the file tier, or the DRAM). HITS are blocks loaded\n"
		"because a request wanted them, LOADING and STORING the bandwidth of late while "
		"it\n"
		"did that, each followed by the best that was measured. QUEUE are transfers under\n"
		"way and waiting, DROPPED blocks that made room for others, ERRORS failed "
		"transfers,\n"
		"BAD blocks that were not what they should be (see `verify`). STATE is degraded "
		"while\n"
		"an area cannot be used (see `doctor`).\n"
		"Below: for how many requests loading or computing was chosen, how long loading "
		"was\n"
		"expected to take and took, tokens that were loaded, prefetched, computed again "
		"because\n"
		"that was estimated to be faster, or lost because they could not be read, and "
		"blocks\n"
		"that were not written because nobody is expected to want them.\n"
		"JSON: {alive, tiers: [...], decisions: {...}}; with --watch one such object a "
		"screen.\n",
	.options = cmd_tiers_options,
	.run = cmd_tiers_run,
};
