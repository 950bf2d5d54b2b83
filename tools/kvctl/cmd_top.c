/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kvctl top: a live screen from the status file: pool, rates since the last screen, sessions. It
 * asks the daemon nothing, so that watching costs it nothing.
 */
#include "tools/kvctl/cmd_status.h"
#include "tools/kvctl/fields.h"
#include "tools/kvctl/source.h"
#include "tools/kvctl/watch.h"

#include <base/bits.h>
#include <base/units.h>
#include <stdio.h>

/* What the screens need: the last two copies of the status. */
struct cmd_top {
	const struct kvctl *k;
	struct kvd_status now;
	struct kvd_status before;
};

static void cmd_top_bar(const struct kvd_status *s)
{
	static const char mark[KVD_PAGE_STATES] = {'.', 'o', '#', '>', 'q'};
	int width = 60;
	uint64_t total = 0, done = 0;

	for (size_t i = 0; i < KVD_PAGE_STATES; i++)
		total += s->bytes_by_state[i];
	total = BITS_MAX(total, s->pool_bytes);
	printf("[");
	static const size_t order[] = {KVD_PAGE_SEALED, KVD_PAGE_OPEN, KVD_PAGE_FILLING,
				       KVD_PAGE_QUARANTINE};
	int drawn = 0;
	for (size_t i = 0; i < ARRAY_LEN(order); i++) {
		done += s->bytes_by_state[order[i]];
		int upto = total ? (int)((double)done / (double)total * width + 0.5) : 0;
		for (; drawn < upto && drawn < width; drawn++)
			putchar(mark[order[i]]);
	}
	for (; drawn < width; drawn++)
		putchar('.');
	printf("]  # sealed  o open  q quarantine\n");
}

static void cmd_top_rates(const struct kvd_status *now, const struct kvd_status *before)
{
	double s = (double)(now->updated_ns - before->updated_ns) / 1e9;

	if (s <= 0)
		s = 1;
#define RATE(c) ((double)(now->counters[c] - before->counters[c]) / s)
	double asked = RATE(KVD_C_PROMPT_TOKENS), hit = RATE(KVD_C_CACHED_TOKENS);
	printf("now            %.1f acquires/s, %.0f prompt tokens/s, %.1f %% hits, %.0f blocks "
	       "sealed/s, %.0f evicted/s, %.1f refused/s\n\n",
	       RATE(KVD_C_ACQUIRES), asked, asked > 0 ? 100 * hit / asked : 0,
	       RATE(KVD_C_SEALED_BLOCKS), RATE(KVD_C_EVICTED_PAGES), RATE(KVD_C_REFUSED_FULL));
#undef RATE
}

static int cmd_top_screen(void *ctx)
{
	struct cmd_top *t = ctx;
	const struct kvd_status *now = &t->now;
	enum source_life life;

	t->before = t->now;
	int err = source_status(t->k, &t->now, &life);
	if (err < 0)
		return err;
	if (t->before.nonce != now->nonce)
		t->before = t->now;
	printf("kvd pid %u  %s  %s\n", now->pid, life == SOURCE_ALIVE ? "alive" : "DEAD",
	       t->k->path);
	cmd_top_bar(now);
	cmd_status_screen(now);
	cmd_top_rates(now, &t->before);
	table_print(fields_session, now->sessions,
		    BITS_MIN(now->session_count, KVD_STATUS_SESSIONS), sizeof(now->sessions[0]));
	return 0;
}

static int cmd_top_run(struct kvctl *k, int argc, char **argv)
{
	static struct cmd_top top;
	const char *values[2] = {"1000", "0"};

	if (args_read(&cmd_top, argc, argv, values) != 0)
		return EXIT_USAGE;
	int64_t interval_ms = args_number(values[0], "--interval", 50, 60000);
	int64_t count = args_number(values[1], "--count", 0, 1000000);
	if (interval_ms < 0 || count < 0)
		return EXIT_USAGE;
	top.k = k;
	struct watch w = {.screen = cmd_top_screen,
			  .ctx = &top,
			  .interval_ms = (uint64_t)interval_ms,
			  .count = (uint64_t)count,
			  .clear = true};
	return watch_run(&w) < 0 ? EXIT_FAILED : EXIT_OK;
}

static const struct kvctl_option cmd_top_options[] = {
	{"--interval", "MS", "milliseconds between screens; default 1000"},
	{"--count", "N", "leave after N screens; default 0: never"},
	{0},
};

const struct kvctl_command cmd_top = {
	.name = "top",
	.args = "[--interval MS] [--count N]",
	.summary = "a live screen: pool, sessions, hit rate, pages by state",
	.text = "Leave with q or ^C. Rates are over the last interval. Columns as in `sessions`.\n",
	.options = cmd_top_options,
	.run = cmd_top_run,
};
