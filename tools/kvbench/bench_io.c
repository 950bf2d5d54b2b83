/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of a live pool to a file and back, as demotion and promotion do it: headers, checksums,
 * journal and all. Prefixes are computed and let go of, which stores them; pushed out of the pool;
 * and asked for again. Beside it fio, on a file beside, in turns with ours: the disk of a virtual
 * machine is another one every few seconds. What came back is checked byte for byte, outside of
 * what is measured.
 *
 * Processor time is that of the daemon, from all of its threads and the kernel's for it.
 */
#include "tools/kvbench/bench.h"
#include "tools/kvbench/bench_fio.h"
#include "tools/kvbench/bench_tier.h"

#include <base/bits.h>
#include <base/units.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define IO_PAIRS 9u
#define IO_PAIRS_MAX 101u
#define IO_CHAINS 16u
#define IO_PAGE_TOKENS 64u
#define IO_BLOCK_BYTES 1474560u /* 64 tokens of SmolLM2-135M in bfloat16 */
#define IO_BYTES (3 * UNITS_GIB)

enum io_way { IO_WRITE, IO_READ, IO_WAYS };

struct io_engine {
	const char *name; /* in rows */
	const char *aio;  /* kvd's option */
	bool threads;
};

struct io_samples {
	double ours[IO_PAIRS_MAX]; /* bytes per second */
	double fio[IO_PAIRS_MAX];
	double ratio[IO_PAIRS_MAX];
	double cpu[IO_PAIRS_MAX]; /* seconds per byte */
};

struct io {
	const struct bench *b;
	const struct io_engine *engine;
	struct bench_tier tier;
	struct bench_set set;
	struct bench_fio fio;
	char file[512];
	char fio_file[520];
	uint64_t bytes; /* of one sample */
	struct io_samples samples[IO_WAYS];
};

/* Stores the next set, or loads it again. */
static int bench_io_ours(struct io *io, enum io_way way, double *out_s, double *out_cpu_s)
{
	struct bench_tier *t = &io->tier;
	uint64_t stores = bench_tier_area(t)->stores + io->set.chains * io->set.blocks;
	double cpu_s = bench_tier_cpu_s(t);
	int r;

	if (way == IO_READ) {
		r = bench_tier_load(t, &io->set, out_s);
	} else {
		uint64_t start_ns = units_now_ns();
		r = bench_tier_release(t, &io->set);
		if (r == 0)
			r = bench_tier_stored(t, stores, start_ns, out_s);
	}
	*out_cpu_s = bench_tier_cpu_s(t) - cpu_s;
	return r;
}

static int bench_io_pair(struct io *io, enum io_way way, uint32_t i)
{
	struct io_samples *s = &io->samples[way];
	double seconds = 1, cpu_s = 0;
	bool fio_first = i % 2;
	int r = 0;

	io->fio.write = way == IO_WRITE;
	if (fio_first)
		r = bench_fio_run(&io->fio, &s->fio[i]);
	if (r == 0)
		r = bench_io_ours(io, way, &seconds, &cpu_s);
	if (r == 0 && !fio_first)
		r = bench_fio_run(&io->fio, &s->fio[i]);
	s->ours[i] = (double)io->bytes / seconds;
	s->cpu[i] = cpu_s / (double)io->bytes;
	s->ratio[i] = s->ours[i] / s->fio[i];
	return r;
}

/* All of the set there and back. The tier is empty before and after. */
static int bench_io_round(struct io *io, uint32_t i)
{
	struct bench_tier *t = &io->tier;

	io->set.seed++;
	int r = bench_tier_fill(t, &io->set);
	if (r == 0)
		r = bench_io_pair(io, IO_WRITE, i);
	if (r == 0)
		r = bench_tier_evict(t, false);
	if (r == 0)
		r = bench_io_pair(io, IO_READ, i);
	if (r == 0)
		r = bench_tier_check(t, &io->set);
	if (r == 0)
		r = bench_tier_release(t, &io->set);
	if (r == 0)
		r = bench_tier_evict(t, false);
	return r ? r : bench_tier_evict(t, true);
}

static void bench_io_rows(struct io *io, enum io_way way, uint32_t pairs)
{
	struct io_samples *s = &io->samples[way];
	const char *what = way == IO_WRITE ? "write" : "read";
	char name[64];

	snprintf(name, sizeof(name), "%s %s", io->engine->name, what);
	bench_emit(io->b, &(struct bench_row){.bench = "io",
					      .name = name,
					      .value = bench_median(s->ours, pairs) / 1e9,
					      .unit = "GB/s",
					      .limit = bench_median(s->fio, pairs) / 1e9,
					      .fraction = bench_median(s->ratio, pairs)});
	snprintf(name, sizeof(name), "%s %s, processor", io->engine->name, what);
	bench_emit(io->b, &(struct bench_row){.bench = "io",
					      .name = name,
					      .value = bench_median(s->cpu, pairs) * 1e9,
					      .unit = "s/GB"});
}

static void bench_io_sizes(struct io *io, struct bench_tier_args *args)
{
	uint64_t page_bytes = io->b->block_bytes ? io->b->block_bytes : IO_BLOCK_BYTES;
	uint64_t bytes = io->b->file_bytes ? io->b->file_bytes : IO_BYTES;
	uint64_t slot_bytes = 4096 + bits_align_up(page_bytes, 4096);
	uint64_t blocks = BITS_MAX(bytes / slot_bytes / IO_CHAINS, 1ull);

	io->set.chains = IO_CHAINS;
	io->set.blocks = (uint32_t)BITS_MIN(blocks, KVD_REQUEST_TOKENS_MAX / IO_PAGE_TOKENS);
	io->bytes = slot_bytes * io->set.chains * io->set.blocks;
	args->page_tokens = IO_PAGE_TOKENS;
	args->page_bytes = page_bytes;
	/* Slabs and segments are cut into whole pages and slots: room for what that wastes. */
	args->pool_bytes = io->bytes + io->bytes / 16 + 256 * UNITS_MIB;
	args->file_bytes = io->bytes + io->bytes / 16 + 512 * UNITS_MIB;
	io->fio = (struct bench_fio){.file = io->fio_file,
				     .block_bytes = slot_bytes,
				     .blocks = io->set.chains * io->set.blocks,
				     .threads = io->engine->threads};
}

static int bench_io_engine(struct io *io, uint32_t pairs)
{
	struct bench_tier_args args = {
		.program = io->b->kvd_program, .file = io->file, .aio = io->engine->aio};

	bench_io_sizes(io, &args);
	int r = bench_tier_start(&io->tier, &args);
	/* The first round makes extents of both files and slabs; it does not count. */
	for (uint32_t i = 0; i <= pairs && r == 0; i++)
		r = bench_io_round(io, i ? i - 1 : 0);
	bench_tier_stop(&io->tier);
	for (int way = 0; way < IO_WAYS && r == 0; way++)
		bench_io_rows(io, way, pairs);
	return r;
}

int bench_io_run(const struct bench *b)
{
	static const struct io_engine engines[] = {{"uring", "io_uring", false},
						   {"threads", "threads", true}};
	uint32_t pairs = BITS_MIN(b->repeat ? b->repeat : IO_PAIRS, IO_PAIRS_MAX);
	struct io *io = calloc(1, sizeof(*io));
	int r = io ? 0 : -ENOMEM;

	if (r < 0)
		return 1;
	io->b = b;
	snprintf(io->file, sizeof(io->file), "%s", b->file ? b->file : "/var/tmp/kvbench.tier");
	snprintf(io->fio_file, sizeof(io->fio_file), "%s.fio", io->file);
	for (size_t i = 0; i < ARRAY_LEN(engines) && r == 0; i++) {
		io->engine = &engines[i];
		if (bench_wanted(b, engines[i].name))
			r = bench_io_engine(io, pairs);
	}
	unlink(io->fio_file);
	free(io);
	return r ? 1 : 0;
}
