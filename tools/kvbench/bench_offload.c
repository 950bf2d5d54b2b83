/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a running stream feels while pages of others are stored. A real engine writes a long answer
 * over HTTP; another client of the same kvd has computed a gigabyte of pages; then for a while
 * nothing happens, then that client lets go of them and kvd stores them to a file. The times
 * between the pieces of the answer that lie in the quiet while are compared with those that overlap
 * the storing, in as many rounds as it takes. What happens in between, computing the next gigabyte
 * and pushing it out of the tier again, is not looked at.
 */
#include "tools/kvbench/bench.h"
#include "tools/kvbench/bench_stream.h"
#include "tools/kvbench/bench_tier.h"

#include <base/bits.h>
#include <base/units.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define OFFLOAD_SAMPLES 400u
#define OFFLOAD_SAMPLES_MAX 100000u
#define OFFLOAD_CHAINS 8u
#define OFFLOAD_BLOCKS 85u /* with the next line, 1.005 GB */
#define OFFLOAD_PAGE_BYTES 1474560u
#define OFFLOAD_PAGE_TOKENS 64u
#define OFFLOAD_SETTLE_NS (200 * UNITS_NS_PER_MS)
#define OFFLOAD_QUIET_NS (700 * UNITS_NS_PER_MS)
#define OFFLOAD_POOL_BYTES (2560 * UNITS_MIB)
#define OFFLOAD_FILE_BYTES (2 * UNITS_GIB)

struct offload_times {
	double ms[OFFLOAD_SAMPLES_MAX];
	uint32_t count;
};

struct offload {
	const struct bench *b;
	struct bench_tier tier;
	struct bench_set set;
	struct bench_stream stream;
	uint64_t piece_ns; /* when the last piece came; 0: there is none */
	uint64_t stores;
	double store_s[OFFLOAD_SAMPLES_MAX];
	uint32_t rounds;
	struct offload_times quiet;
	struct offload_times busy;
};

static void bench_offload_add(struct offload_times *t, uint64_t from_ns, uint64_t to_ns)
{
	if (t->count < OFFLOAD_SAMPLES_MAX)
		t->ms[t->count++] = (double)(to_ns - from_ns) / 1e6;
}

/* Takes the next piece if it comes soon, and its time where there is somewhere to put it. */
static int bench_offload_listen(struct offload *o, struct offload_times *times)
{
	int r = bench_stream_next(&o->stream, 2);
	uint64_t now_ns = units_now_ns();

	if (r == 1 && o->piece_ns && times)
		bench_offload_add(times, o->piece_ns, now_ns);
	if (r > 0)
		o->piece_ns = now_ns;
	if (o->stream.fd < 0)
		o->piece_ns = 0;
	return r < 0 ? r : 0;
}

static int bench_offload_pass(struct offload *o, uint64_t ns, struct offload_times *times)
{
	uint64_t end_ns = units_now_ns() + ns;
	int r = 0;

	while (r == 0 && units_now_ns() < end_ns)
		r = bench_offload_listen(o, times);
	return r;
}

/* Up to the first piece that comes after all is stored: it overlaps, too. */
static int bench_offload_store(struct offload *o)
{
	uint64_t start_ns = units_now_ns(), wanted = o->stores + o->set.chains * o->set.blocks;
	int r = bench_tier_release(&o->tier, &o->set);

	while (r == 0 && bench_tier_area(&o->tier)->stores < wanted)
		r = bench_offload_listen(o, &o->busy);
	if (r == 0)
		o->store_s[o->rounds++] = (double)(o->tier.status->updated_ns - start_ns) / 1e9;
	o->stores = wanted;
	return r;
}

static int bench_offload_round(struct offload *o)
{
	o->set.seed++;
	int r = bench_tier_fill(&o->tier, &o->set);

	/* What waits in the socket is old. */
	if (r == 0)
		r = bench_offload_pass(o, OFFLOAD_SETTLE_NS, NULL);
	if (r == 0)
		r = bench_offload_pass(o, OFFLOAD_QUIET_NS, &o->quiet);
	o->stores = bench_tier_area(&o->tier)->stores;
	if (r == 0)
		r = bench_offload_store(o);
	if (r == 0)
		r = bench_tier_evict(&o->tier, false);
	return r ? r : bench_tier_evict(&o->tier, true);
}

static double bench_offload_p99(struct offload_times *t)
{
	(void)bench_median(t->ms, t->count); /* sorts them */
	return t->ms[(uint64_t)t->count * 99 / 100];
}

static void bench_offload_rows(struct offload *o)
{
	double quiet = bench_median(o->quiet.ms, o->quiet.count);
	double busy = bench_median(o->busy.ms, o->busy.count);

	bench_emit(o->b, &(struct bench_row){.bench = "offload",
					     .name = "between tokens, median",
					     .value = busy,
					     .unit = "ms",
					     .limit = quiet,
					     .fraction = busy / quiet});
	quiet = bench_offload_p99(&o->quiet);
	busy = bench_offload_p99(&o->busy);
	bench_emit(o->b, &(struct bench_row){.bench = "offload",
					     .name = "between tokens, 99 of 100",
					     .value = busy,
					     .unit = "ms",
					     .limit = quiet,
					     .fraction = busy / quiet});
	bench_emit(o->b, &(struct bench_row){.bench = "offload",
					     .name = "times that overlap a store",
					     .value = o->busy.count,
					     .unit = "times"});
	bench_emit(o->b, &(struct bench_row){.bench = "offload",
					     .name = "1 GB stored in",
					     .value = bench_median(o->store_s, o->rounds),
					     .unit = "s"});
}

static int bench_offload_measure(struct offload *o)
{
	uint32_t wanted = o->b->repeat ? o->b->repeat : OFFLOAD_SAMPLES;
	int r = 0;

	/* The first round makes slabs and extents, and does not count. */
	r = bench_offload_round(o);
	o->quiet.count = o->busy.count = o->rounds = 0;
	wanted = BITS_MIN(wanted, OFFLOAD_SAMPLES_MAX);
	while (r == 0 && o->busy.count < wanted && o->rounds < OFFLOAD_SAMPLES_MAX)
		r = bench_offload_round(o);
	if (r == 0 && o->quiet.count == 0)
		r = -ENODATA;
	return r;
}

int bench_offload_run(const struct bench *b)
{
	struct offload *o = calloc(1, sizeof(*o));
	struct bench_tier_args args = {.program = b->kvd_program,
				       .file = b->file ? b->file : "/var/tmp/kvbench.tier",
				       .file_bytes = OFFLOAD_FILE_BYTES,
				       .aio = "auto",
				       .pool_bytes = OFFLOAD_POOL_BYTES,
				       .page_tokens = OFFLOAD_PAGE_TOKENS,
				       .page_bytes = OFFLOAD_PAGE_BYTES};

	if (!o || !b->model) {
		fprintf(stderr, "kvbench: offload needs --model\n");
		free(o);
		return o ? 2 : 1;
	}
	o->b = b;
	o->stream.fd = -1;
	o->set = (struct bench_set){.chains = OFFLOAD_CHAINS, .blocks = OFFLOAD_BLOCKS};
	int r = bench_tier_start(&o->tier, &args);
	if (r == 0)
		r = bench_stream_start(&o->stream, b->kvd_program, b->model, o->tier.daemon.socket,
				       o->tier.daemon.log);
	if (r == 0)
		r = bench_offload_measure(o);
	bench_stream_stop(&o->stream);
	bench_tier_stop(&o->tier);
	if (r == 0)
		bench_offload_rows(o);
	free(o);
	return r ? 1 : 0;
}
