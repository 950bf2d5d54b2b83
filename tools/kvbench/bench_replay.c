/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policies of eviction, judged by a trace of requests: how many of its blocks are found in
 * pools of several sizes, by the policy that was asked for, by the others, and by who knows the
 * future. Nothing is found by chance of the clock: the same trace gives the same numbers. The
 * second half is shown alone too, when pools are full and what is learned has been learned.
 */
#include "tools/kvbench/bench.h"
#include "tools/kvbench/replay.h"

#include <base/bits.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static const uint32_t bench_replay_sizes[] = {1000, 5000, 10000, 30000, 50000};
static const char *const bench_replay_names[] = {"lru", "s3fifo", "cost"};

enum { BENCH_REPLAY_POLICIES = ARRAY_LEN(bench_replay_names) };

/* What one size of pool gives: a row for each policy, and the optimum. */
struct bench_replay_size {
	uint32_t blocks;
	struct replay_result policy[BENCH_REPLAY_POLICIES];
	struct replay_result optimum;
};

static double bench_replay_hits(const struct replay_trace *t, const struct replay_result *r,
				bool late)
{
	return late ? (double)r->late_found / (double)r->late_count
		    : (double)r->found / (double)t->id_count;
}

static double bench_replay_rate(const struct replay_trace *t, const struct replay_result *r)
{
	return (double)t->id_count / r->seconds;
}

/* "10000" is the policy that was asked for; "10000 lru", "10000 lru, second half" the rest. */
static void bench_replay_rows(const struct bench *b, const struct replay_trace *t,
			      const struct bench_replay_size *s, uint32_t chosen)
{
	char name[64];
	struct bench_row row = {.bench = "replay", .name = name, .unit = "hits"};

	for (uint32_t i = 0; i < 2 * BENCH_REPLAY_POLICIES + 1; i++) {
		bool late = i > BENCH_REPLAY_POLICIES;
		uint32_t policy = i == 0 ? chosen : (i - 1) % BENCH_REPLAY_POLICIES;
		snprintf(name, sizeof(name), i ? "%u %s%s" : "%u", s->blocks,
			 bench_replay_names[policy], late ? ", second half" : "");
		row.value = bench_replay_hits(t, &s->policy[policy], late);
		row.limit = bench_replay_hits(t, &s->optimum, late);
		row.fraction = row.limit > 0 ? row.value / row.limit : 0;
		bench_emit(b, &row);
	}
	snprintf(name, sizeof(name), "%u speed", s->blocks);
	bench_emit(b, &(struct bench_row){.bench = "replay",
					  .name = name,
					  .value = bench_replay_rate(t, &s->policy[chosen]),
					  .unit = "pages/s"});
}

static void bench_replay_line(const struct replay_trace *t, const struct bench_replay_size *s,
			      uint32_t chosen, bool late)
{
	printf("%8u %-12s", s->blocks, late ? "second half" : "whole trace");
	printf(" %8.2f%%", 100 * bench_replay_hits(t, &s->policy[chosen], late));
	for (uint32_t i = 0; i < BENCH_REPLAY_POLICIES; i++)
		printf(" %7.2f%%", 100 * bench_replay_hits(t, &s->policy[i], late));
	printf(" %7.2f%%", 100 * bench_replay_hits(t, &s->optimum, late));
	if (!late)
		printf(" %12.0f", bench_replay_rate(t, &s->policy[chosen]));
	putchar('\n');
}

static int bench_replay_size(const struct bench *b, const struct replay_trace *t, uint32_t blocks,
			     uint32_t chosen)
{
	struct bench_replay_size s = {.blocks = blocks};
	int rc = replay_optimum(t, blocks, &s.optimum);

	for (uint32_t i = 0; i < BENCH_REPLAY_POLICIES && rc == 0; i++)
		rc = replay_core(
			t, &(struct replay_pool){.policy = bench_replay_names[i], .blocks = blocks},
			&s.policy[i]);
	if (rc < 0) {
		fprintf(stderr, "kvbench: replay: %u blocks: %s\n", blocks, strerror(-rc));
		return rc;
	}
	if (b->json) {
		bench_replay_rows(b, t, &s, chosen);
	} else {
		bench_replay_line(t, &s, chosen, false);
		bench_replay_line(t, &s, chosen, true);
	}
	fflush(stdout);
	return 0;
}

static int bench_replay_trace(const struct bench *b, uint32_t chosen)
{
	struct replay_trace trace;
	int rc = replay_trace_read(b->trace, &trace);

	if (rc < 0)
		return rc;
	if (b->file_blocks) {
		rc = replay_file(b, &trace, bench_replay_names[chosen]);
		replay_trace_free(&trace);
		return rc;
	}
	if (!b->json)
		printf("%s: %u requests, %llu blocks\n%8s %-12s %9s %8s %8s %8s %8s %12s\n",
		       b->trace, trace.request_count, (unsigned long long)trace.id_count, "POOL",
		       "PART", bench_replay_names[chosen], "lru", "s3fifo", "cost", "optimum",
		       "PAGES/S");
	for (uint32_t i = 0; i < ARRAY_LEN(bench_replay_sizes) && rc == 0 && !b->blocks; i++)
		rc = bench_replay_size(b, &trace, bench_replay_sizes[i], chosen);
	if (b->blocks)
		rc = bench_replay_size(b, &trace, b->blocks, chosen);
	replay_trace_free(&trace);
	return rc;
}

int bench_replay_run(const struct bench *b)
{
	const char *policy = b->policy ? b->policy : "cost";
	uint32_t chosen = 0;

	while (chosen < BENCH_REPLAY_POLICIES && strcmp(bench_replay_names[chosen], policy) != 0)
		chosen++;
	if (!b->trace || chosen == BENCH_REPLAY_POLICIES) {
		fprintf(stderr, "kvbench: usage: kvbench replay TRACE [--policy lru|s3fifo|cost] "
				"[--blocks N] [--file-blocks N] [--json]\n");
		return 2;
	}
	return bench_replay_trace(b, chosen) < 0 ? 1 : 0;
}
