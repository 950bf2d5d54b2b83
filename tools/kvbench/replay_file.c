/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace with a file tier below the pool: what is found in either, and what was written for it, by
 * each rule for what goes to the file. Writes are compared with those of the rule that writes all.
 */
#include "tools/kvbench/bench.h"
#include "tools/kvbench/replay.h"

#include <base/bits.h>
#include <stdio.h>
#include <string.h>

static const uint32_t replay_file_sizes[] = {1000, 5000, 10000, 30000, 50000};

/* In the order of enum core_store. */
static const char *const replay_file_rules[] = {"likely", "used", "all"};

enum { REPLAY_FILE_RULES = ARRAY_LEN(replay_file_rules) };

static double replay_file_hits(const struct replay_trace *t, const struct replay_result *r)
{
	return (double)r->found / (double)t->id_count;
}

static double replay_file_avoided(const struct replay_result *r, const struct replay_result *all)
{
	return 1 - (double)r->stores / (double)all->stores;
}

static void replay_file_rows(const struct bench *b, const struct replay_trace *t, uint32_t blocks,
			     const struct replay_result *results)
{
	const struct replay_result *all = &results[CORE_STORE_ALL];
	char name[64];

	for (uint32_t i = 0; i < REPLAY_FILE_RULES; i++) {
		struct bench_row row = {.bench = "replay", .name = name, .unit = "hits"};
		snprintf(name, sizeof(name), "%u file %u %s", blocks, b->file_blocks,
			 replay_file_rules[i]);
		row.value = replay_file_hits(t, &results[i]);
		row.limit = replay_file_hits(t, all);
		row.fraction = row.limit > 0 ? row.value / row.limit : 0;
		bench_emit(b, &row);
		snprintf(name, sizeof(name), "%u file %u %s, writes avoided", blocks,
			 b->file_blocks, replay_file_rules[i]);
		row = (struct bench_row){.bench = "replay", .name = name, .unit = "of writes"};
		row.value = replay_file_avoided(&results[i], all);
		bench_emit(b, &row);
	}
}

static void replay_file_line(const struct bench *b, const struct replay_trace *t, uint32_t blocks,
			     const struct replay_result *results)
{
	printf("%8u %8u", blocks, b->file_blocks);
	for (uint32_t i = 0; i < REPLAY_FILE_RULES; i++)
		printf(" %8.2f%%", 100 * replay_file_hits(t, &results[i]));
	for (uint32_t i = 0; i < REPLAY_FILE_RULES; i++)
		printf(" %9.1f%%",
		       100 * replay_file_avoided(&results[i], &results[CORE_STORE_ALL]));
	putchar('\n');
}

static int replay_file_size(const struct bench *b, const struct replay_trace *t, const char *policy,
			    uint32_t blocks)
{
	struct replay_result results[REPLAY_FILE_RULES];
	struct replay_pool pool = {
		.policy = policy, .blocks = blocks, .file_blocks = b->file_blocks};
	int rc = 0;

	for (uint32_t i = 0; i < REPLAY_FILE_RULES && rc == 0; i++) {
		pool.store = i;
		rc = replay_core(t, &pool, &results[i]);
	}
	if (rc < 0) {
		fprintf(stderr, "kvbench: replay: %u blocks: %s\n", blocks, strerror(-rc));
		return rc;
	}
	if (b->json)
		replay_file_rows(b, t, blocks, results);
	else
		replay_file_line(b, t, blocks, results);
	fflush(stdout);
	return 0;
}

int replay_file(const struct bench *b, const struct replay_trace *t, const char *policy)
{
	int rc = 0;

	if (!b->json)
		printf("%s, by what is written to the file\n%8s %8s %29s %32s\n%8s %8s %9s %9s %9s "
		       "%10s %10s %10s\n",
		       policy, "", "", "HITS", "WRITES AVOIDED", "POOL", "FILE", "likely", "used",
		       "all", "likely", "used", "all");
	for (uint32_t i = 0; i < ARRAY_LEN(replay_file_sizes) && rc == 0 && !b->blocks; i++)
		rc = replay_file_size(b, t, policy, replay_file_sizes[i]);
	if (b->blocks)
		rc = replay_file_size(b, t, policy, b->blocks);
	return rc;
}
