/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c: sim, the deterministic simulation of kvd/core.
 *
 *   sim [--steps N] [--history-steps N] [--seed S] [--verbose]     many histories
 *   sim --replay SEED [--history-steps N] [--verbose]              one of them again
 *
 * A run of 10^6 steps or more must also reach everything that coverage_table.h names.
 */
#include "tests/sim/coverage.h"
#include "tests/sim/history.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAIN_COVERAGE_STEPS 1000000u

struct main_options {
	uint64_t steps;
	uint64_t history_steps;
	uint64_t seed;
	uint64_t replay;
	bool replays;
	bool verbose;
};

static int main_usage(void)
{
	fprintf(stderr, "usage: sim [--steps N] [--history-steps N] [--seed S] [--verbose]\n"
			"       sim --replay SEED [--history-steps N] [--verbose]\n");
	return 2;
}

static bool main_number(const char *text, uint64_t *out)
{
	char *end;

	*out = strtoull(text ? text : "", &end, 0);
	return text && *text && !*end;
}

static bool main_parse(int argc, char **argv, struct main_options *o)
{
	for (int i = 1; i < argc; i++) {
		bool ok = true;
		if (strcmp(argv[i], "--verbose") == 0)
			o->verbose = true;
		else if (strcmp(argv[i], "--steps") == 0)
			ok = main_number(argv[++i], &o->steps);
		else if (strcmp(argv[i], "--history-steps") == 0)
			ok = main_number(argv[++i], &o->history_steps);
		else if (strcmp(argv[i], "--seed") == 0)
			ok = main_number(argv[++i], &o->seed);
		else if (strcmp(argv[i], "--replay") == 0)
			ok = o->replays = main_number(argv[++i], &o->replay);
		else
			ok = false;
		if (!ok)
			return false;
	}
	return o->history_steps > 0;
}

/* A history that is run twice must say the same twice, or nothing can be replayed. */
static bool main_repeats(const struct main_options *o, uint64_t seed)
{
	uint64_t done = 0;
	uint64_t first = history_run(seed, o->history_steps, false, &done);

	return history_run(seed, o->history_steps, false, &done) == first;
}

static int main_run(const struct main_options *o)
{
	struct random seeds = {.state = o->seed};
	uint64_t done = 0;

	printf("sim: seed %" PRIu64 ", %" PRIu64 " steps, %" PRIu64 " a history\n", o->seed,
	       o->steps, o->history_steps);
	fflush(stdout);
	if (!main_repeats(o, random_u64(&seeds) >> 16)) {
		fprintf(stderr, "sim: FAILED: the first history is not the same twice\n");
		return 1;
	}
	while (done < o->steps)
		history_run(random_u64(&seeds) >> 16, o->history_steps, o->verbose, &done);
	bool full = coverage_print(o->steps >= MAIN_COVERAGE_STEPS ? COVERAGE_TIMES_MIN : 0);
	printf("sim: %" PRIu64 " steps clean\n", done);
	fflush(stdout);
	if (!full)
		fprintf(stderr, "sim: FAILED: the run with seed %" PRIu64 " is hollow\n", o->seed);
	return full ? 0 : 1;
}

int main(int argc, char **argv)
{
	struct main_options o = {.steps = 1000000, .history_steps = 2000};
	uint64_t done = 0;

	o.seed = (uint64_t)time(NULL);
	if (!main_parse(argc, argv, &o))
		return main_usage();
	if (o.replays) {
		uint64_t digest = history_run(o.replay, o.history_steps, o.verbose, &done);
		printf("sim: seed %" PRIu64 ": %" PRIu64 " steps, digest %016" PRIx64 "\n",
		       o.replay, done, digest);
		return 0;
	}
	return main_run(&o);
}
