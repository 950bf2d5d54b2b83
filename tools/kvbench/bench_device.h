/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the benches of kernels share: a device's table, its memory, the time of an operation, and
 * the device's limits. All is what the engine does: memory from the table, weights packed by it,
 * operations inside a step. A step holds many launches, so that a device is kept busy; each works
 * on memory of its own (a ring), so that no cache serves what memory would have to.
 *
 * One thread.
 */
#ifndef TOOLS_KVBENCH_BENCH_DEVICE_H
#define TOOLS_KVBENCH_BENCH_DEVICE_H

#include "tools/kvbench/bench.h"

#include <base/units.h>
#include <kernels/kernels.h>

#define BENCH_DEVICE_ALIGN 256u
/* What launches walk through before they begin again, and what a cache may hold. */
#define BENCH_DEVICE_RING_BYTES (256 * UNITS_MIB)
#define BENCH_DEVICE_CACHED_BYTES (64 * UNITS_MIB)
#define BENCH_DEVICE_PAGE_TOKENS 64u
#define BENCH_DEVICE_MEMORY_MAX 32u

struct bench_device {
	const struct bench *b;
	const char *bench; /* for rows and messages */
	const struct kernel_ops *ops;
	struct kernels_ctx *ctx; /* NULL before bench_device_ctx() */
	struct {
		void *at;
		size_t bytes;
	} memory[BENCH_DEVICE_MEMORY_MAX];
	uint32_t memory_count;
};

/* Pieces of the same size, one after the other. */
struct bench_ring {
	char *at;
	size_t stride_bytes;
	uint32_t count;
};

/* What is timed: run() launches once, on the turn'th piece of its rings. */
struct bench_load {
	void (*run)(void *arg, const struct kernel_batch *given, uint32_t turn);
	void *arg;
	const struct kernel_batch *batch; /* NULL: run between steps, with no batch */
};

/* Finds the table of b->device; closed again by _close() in any case. 0 or -errno, said. */
int bench_device_open(struct bench_device *d, const struct bench *b, const char *bench);
void bench_device_close(struct bench_device *d);
/* A context, instead of the last. 0 or -errno, said. */
int bench_device_ctx(struct bench_device *d, const struct kernels_limits *limits);
/* Memory of ordinary numbers, be they read as bf16 or as f32; NULL after a message. */
void *bench_device_memory(struct bench_device *d, size_t bytes);
/* Gives all memory back. */
void bench_device_release(struct bench_device *d);
/*
 * Packs a matrix into memory of its own, and copies beside it until all are ring_bytes; 0: none,
 * and `out_ring` is not written. Needs a context. false: said.
 */
bool bench_device_weights(struct bench_device *d, struct kernel_weight *w, size_t ring_bytes,
			  struct bench_ring *out_ring);

/* As many pieces as there are in so much memory. */
struct bench_ring bench_device_ring(void *memory, size_t bytes, size_t piece_bytes);
static inline void *bench_ring_at(const struct bench_ring *r, uint32_t turn)
{
	return r->at + turn % r->count * r->stride_bytes;
}
/* Layers of a page so that those of `tokens` tokens are a ring. */
uint32_t bench_device_layers(uint32_t tokens, uint32_t kv_heads, uint32_t head_dim);

/* Seconds of one launch, the median of some steps; 0: the device has failed, and it was said. */
double bench_device_seconds(struct bench_device *d, const struct bench_load *load);
/* A row: work a second, in GFLOP/s or GB/s; limit 0: none. 0, or 1 if seconds are 0. */
int bench_device_emit(const struct bench_device *d, const char *name, double work, double seconds,
		      bool flop, double limit);

/* The rows of the limits; 0, or 1 if one could not be measured. */
int bench_device_limit_rows(const struct bench_device *d, double flops, double bytes_per_s);

/*
 * The limits, measured now; 0 after a message. Of the processor: its instructions and its memory
 * (limits.h). Of another device: a large square product, and a copy, of which each byte is read and
 * written.
 */
double bench_device_limits_flops(const struct bench *b, const struct kernel_ops *ops,
				 uint32_t threads);
double bench_device_limits_bytes_per_s(const struct bench *b, const struct kernel_ops *ops,
				       uint32_t threads);

#endif
