/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the benches of kvbench share. A bench measures, finds the physical limit in the same run,
 * and emits rows; a table for people and one JSON object a line come from the same rows. Medians,
 * and ratios within one run: machines are shared and noisy.
 */
#ifndef TOOLS_KVBENCH_BENCH_H
#define TOOLS_KVBENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bench_row {
	const char *bench;
	const char *name; /* the JSON key is "case" */
	double value;
	const char *unit;
	double limit;	 /* in the same unit; 0: none */
	double fraction; /* of the limit, 1 is the limit; 0: none */
};

/* What all benches get; options of one bench alone are read by itself from argv. */
struct bench {
	bool json;
	uint32_t threads;	 /* 0: one per core */
	const char *device;	 /* of kernels_open(); NULL: the processor */
	uint32_t rows;		 /* of one step; 0: the bench's own choice */
	const char *model;	 /* GGUF path, or NULL */
	const char *kvd_program; /* the daemon's binary */
	uint32_t repeat;	 /* samples for a median; 0: the bench's own choice */
	const char *trace;	 /* of replay */
	const char *policy;	 /* of replay; NULL: the daemon's */
	uint32_t blocks;	 /* of replay: the pool; 0: several sizes */
	uint32_t file_blocks;	 /* of replay: a file tier below it; 0: none */
	const char *file;	 /* of the tiers' benches: made, and removed; NULL: in /var/tmp */
	uint64_t file_bytes;	 /* what a sample of io moves; 0: the bench's own choice */
	uint64_t block_bytes;	 /* a page of io; 0: the bench's own choice */
	const char *only;	 /* run the cases of this name alone; NULL: all */
};

/* Prints the row: on the first one a heading too, in the people's form. */
void bench_emit(const struct bench *b, const struct bench_row *row);
/* True if the case was asked for. */
bool bench_wanted(const struct bench *b, const char *name);
/* Sorts the samples and returns their median. count > 0. */
double bench_median(double *samples, size_t count);
/* Keeps the optimiser from dropping the computation of v. */
static inline void bench_use(const void *v)
{
	__asm__ volatile("" : : "g"(v) : "memory");
}

struct kernel_ops;
/* The kernels that were asked for; NULL, and a message. */
const struct kernel_ops *bench_kernels(const struct bench *b);

/* Each returns an exit status. */
int bench_gemm_run(const struct bench *b);
int bench_attention_run(const struct bench *b);
int bench_prefill_run(const struct bench *b);
int bench_decode_run(const struct bench *b);
int bench_acquire_run(const struct bench *b);
int bench_ring_run(const struct bench *b);
int bench_ops_run(const struct bench *b);
int bench_replay_run(const struct bench *b);
int bench_io_run(const struct bench *b);
int bench_offload_run(const struct bench *b);
int bench_restart_run(const struct bench *b);

#endif
