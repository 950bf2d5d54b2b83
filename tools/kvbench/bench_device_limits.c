/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device's limits, through its own table: square products and copies, doubled until one takes
 * long enough that its launch is no part of it: a slow device does the least, a fast one the most.
 * Of products the best size counts; of copies the largest, because a cache may hold a smaller one.
 */
#include "tools/kvbench/bench_device.h"
#include "tools/kvbench/limits.h"

#include <base/bits.h>

#define LIMITS_SQUARE_MIN 512u
#define LIMITS_SQUARE_MAX 8192u
#define LIMITS_COPY_BYTES_MIN (32 * UNITS_MIB)
#define LIMITS_COPY_BYTES_MAX (2 * UNITS_GIB)
#define LIMITS_ENOUGH_S 1e-3

/* What a context takes at the least, and products of that width, depth and rows. */
static struct kernels_limits limits_of(uint32_t size)
{
	return (struct kernels_limits){.rows_max = size,
				       .k_max = size,
				       .n_max = size,
				       .heads_max = 1,
				       .kv_heads = 1,
				       .head_dim_max = 64,
				       .vocab = 1,
				       .sampled_max = 1,
				       .sequences_max = 1,
				       .pages_max = 1,
				       .page_tokens = BENCH_DEVICE_PAGE_TOKENS};
}

struct limits_square {
	struct bench_device d;
	struct kernel_gemm call;
};

static void run_square(void *arg, const struct kernel_batch *given, uint32_t turn)
{
	struct limits_square *s = arg;

	s->d.ops->gemm(s->d.ctx, &s->call);
}

/* Seconds of a product of that size; 0 after a message. */
static double square_seconds(struct limits_square *s, uint32_t size)
{
	const struct kernels_limits limits = limits_of(size);
	const uint64_t page = 0; /* no operation looks at it */
	const struct kernel_seq seq = {.rows = 1, .pages = &page};
	const uint32_t token = 0;
	const struct kernel_batch batch = {
		.tokens = &token, .seqs = &seq, .rows = 1, .seq_count = 1};
	struct kernel_weight w = {.kind = KERNEL_WEIGHT_PLAIN, .n = size, .k = size};
	const struct bench_load load = {run_square, s, &batch};
	double seconds = 0;

	if (bench_device_ctx(&s->d, &limits) == 0 && bench_device_weights(&s->d, &w, 0, NULL)) {
		s->call = (struct kernel_gemm){
			.w = &w,
			.x = bench_device_memory(&s->d, (size_t)size * size * sizeof(kernel_bf16)),
			.y = bench_device_memory(&s->d, (size_t)size * size * sizeof(kernel_bf16)),
			.m = size,
			.ldx = size,
			.ldy = size,
			.out = KERNEL_OUT_HALF};
		if (s->call.x && s->call.y)
			seconds = bench_device_seconds(&s->d, &load);
	}
	bench_device_release(&s->d);
	return seconds;
}

double bench_device_limits_flops(const struct bench *b, const struct kernel_ops *ops,
				 uint32_t threads)
{
	struct limits_square s = {.d = {.b = b, .bench = "limits", .ops = ops}};
	double best = 0;

	if (!ops->asynchronous)
		return limits_bf16_flops(threads);
	for (uint32_t size = LIMITS_SQUARE_MIN; size <= LIMITS_SQUARE_MAX; size *= 2) {
		double seconds = square_seconds(&s, size);

		if (seconds <= 0)
			break;
		best = BITS_MAX(best, 2.0 * size * size * size / seconds);
		if (seconds > LIMITS_ENOUGH_S)
			break;
	}
	bench_device_close(&s.d);
	return best;
}

struct limits_copy {
	struct bench_device d;
	uint64_t at;
	uint64_t bytes;
};

static void run_copy(void *arg, const struct kernel_batch *given, uint32_t turn)
{
	struct limits_copy *c = arg;

	c->d.ops->page_copy(c->d.ctx, c->at, c->at + c->bytes, c->bytes);
}

static double copy_seconds(struct limits_copy *c)
{
	const struct bench_load load = {run_copy, c, NULL};
	void *memory = c->d.ops->memory_new(c->d.ops, 2 * c->bytes);
	double seconds;

	if (!memory)
		return 0;
	c->at = (uintptr_t)memory;
	seconds = bench_device_seconds(&c->d, &load);
	c->d.ops->memory_free(c->d.ops, memory, 2 * c->bytes);
	return seconds;
}

double bench_device_limits_bytes_per_s(const struct bench *b, const struct kernel_ops *ops,
				       uint32_t threads)
{
	const struct kernels_limits limits = limits_of(LIMITS_SQUARE_MIN);
	struct limits_copy c = {.d = {.b = b, .bench = "limits", .ops = ops},
				.bytes = LIMITS_COPY_BYTES_MIN};
	double rate = 0, seconds = 0;

	if (!ops->asynchronous)
		return limits_read_bytes_per_s(threads);
	if (bench_device_ctx(&c.d, &limits) == 0)
		for (; c.bytes <= LIMITS_COPY_BYTES_MAX && seconds < LIMITS_ENOUGH_S &&
		       4 * c.bytes <= ops->memory_room(ops);
		     c.bytes *= 2) {
			seconds = copy_seconds(&c);
			if (seconds <= 0)
				break;
			rate = 2.0 * (double)c.bytes / seconds;
		}
	bench_device_close(&c.d);
	return rate;
}
