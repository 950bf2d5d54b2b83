/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device under measurement. The memory is remembered here and given back together; what is
 * written to it are ordinary numbers, because what arithmetic costs may depend on them.
 */
#include "tools/kvbench/bench_device.h"

#include <base/bits.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICE_PIECE_BYTES (4 * UNITS_MIB)
#define DEVICE_PACK_ROWS 64u
#define DEVICE_ENOUGH_NS (5 * UNITS_NS_PER_MS)
#define DEVICE_TURNS_MAX 4096u
#define DEVICE_SAMPLES 9u
#define DEVICE_SAMPLES_MAX 1001u

static void said(const struct bench_device *d, const char *what)
{
	fprintf(stderr, "kvbench: %s: %s: %s\n", d->bench, d->ops->name, what);
}

int bench_device_open(struct bench_device *d, const struct bench *b, const char *bench)
{
	*d = (struct bench_device){.b = b, .bench = bench, .ops = bench_kernels(b)};
	return d->ops ? 0 : -ENODEV;
}

void bench_device_close(struct bench_device *d)
{
	kernels_ctx_free(d->ctx);
	d->ctx = NULL;
	bench_device_release(d);
}

int bench_device_ctx(struct bench_device *d, const struct kernels_limits *limits)
{
	kernels_ctx_free(d->ctx);
	d->ctx = NULL;
	int err = kernels_ctx_new(d->ops, limits, d->b->threads, &d->ctx);

	if (err)
		said(d, strerror(-err));
	return err;
}

/* --- memory ------------------------------------------------------------------------------------
 */

static float ordinary(size_t i)
{
	return kernel_bf16_to_f32((kernel_bf16)((i & 1 ? 0xbc00 : 0x3c00) + i * 7919 % 997));
}

static int fill(const struct bench_device *d, char *memory, size_t bytes)
{
	size_t piece_bytes = BITS_MIN(bytes, DEVICE_PIECE_BYTES);
	kernel_bf16 *piece = malloc(piece_bytes);
	int err = piece ? 0 : -ENOMEM;

	for (size_t i = 0; !err && i < piece_bytes / sizeof(*piece); i++)
		piece[i] = kernel_f32_to_bf16(ordinary(i));
	for (size_t at = 0; !err && at < bytes; at += piece_bytes)
		err = d->ops->memory_write(d->ops, memory + at, piece,
					   BITS_MIN(piece_bytes, bytes - at));
	free(piece);
	return err;
}

/* Zeroed, and remembered. */
static void *memory_new(struct bench_device *d, size_t bytes)
{
	void *at = NULL;

	if (d->memory_count < BENCH_DEVICE_MEMORY_MAX)
		at = d->ops->memory_new(d->ops, bytes);
	if (at) {
		d->memory[d->memory_count].at = at;
		d->memory[d->memory_count++].bytes = bytes;
	}
	return at;
}

void *bench_device_memory(struct bench_device *d, size_t bytes)
{
	void *at = memory_new(d, bits_align_up(bytes, BENCH_DEVICE_ALIGN));

	if (at && fill(d, at, bytes) == 0)
		return at;
	said(d, at ? "its memory cannot be written" : "not enough memory");
	return NULL;
}

void bench_device_release(struct bench_device *d)
{
	while (d->memory_count > 0) {
		d->memory_count--;
		d->ops->memory_free(d->ops, d->memory[d->memory_count].at,
				    d->memory[d->memory_count].bytes);
	}
}

struct bench_ring bench_device_ring(void *memory, size_t bytes, size_t piece_bytes)
{
	size_t stride = bits_align_up(piece_bytes, BENCH_DEVICE_ALIGN);

	return (struct bench_ring){memory, stride, (uint32_t)BITS_MAX(bytes / stride, 1)};
}

uint32_t bench_device_layers(uint32_t tokens, uint32_t kv_heads, uint32_t head_dim)
{
	uint64_t layer_bytes = 2ull * tokens * kv_heads * head_dim * sizeof(kernel_bf16);

	return (uint32_t)bits_div_ceil(BENCH_DEVICE_RING_BYTES, layer_bytes);
}

/* A pack begins with zeros; a piece of rows at a time, as a file is loaded. */
static int pack(const struct bench_device *d, const struct kernel_weight *w)
{
	float *rows = malloc((size_t)DEVICE_PACK_ROWS * w->k * sizeof(*rows));

	if (!rows)
		return -ENOMEM;
	for (size_t i = 0; i < (size_t)DEVICE_PACK_ROWS * w->k; i++)
		rows[i] = ordinary(i);
	for (uint32_t row = 0; row < w->n; row += DEVICE_PACK_ROWS)
		d->ops->weight_pack(w, row, BITS_MIN(DEVICE_PACK_ROWS, w->n - row), rows);
	free(rows);
	return 0;
}

bool bench_device_weights(struct bench_device *d, struct kernel_weight *w, size_t ring_bytes,
			  struct bench_ring *out_ring)
{
	w->bytes = d->ops->weight_bytes(w->kind, w->n, w->k);
	size_t stride = bits_align_up(w->bytes, BENCH_DEVICE_ALIGN);
	size_t count = ring_bytes ? bits_div_ceil(ring_bytes, stride) : 1;

	w->data = memory_new(d, count * stride);
	if (!w->data || pack(d, w) < 0) {
		said(d, "not enough memory for weights");
		return false;
	}
	for (size_t i = 1; i < count; i++)
		d->ops->page_copy(d->ctx, (uintptr_t)w->data + i * stride, (uintptr_t)w->data,
				  stride);
	if (ring_bytes)
		*out_ring = (struct bench_ring){w->data, stride, (uint32_t)count};
	return true;
}

/* --- time --------------------------------------------------------------------------------------
 */

/* Launches `turns` times and waits. The duration; 0: the device has failed. */
static uint64_t turns_ns(struct bench_device *d, const struct bench_load *load, uint32_t first,
			 uint32_t turns)
{
	const struct kernel_ops *ops = d->ops;
	struct kernel_batch given;
	uint64_t from_ns = units_now_ns();

	/* A context without graphs replays nothing: if it says so, it has failed. */
	if (load->batch && ops->step_begin(d->ctx, load->batch, &given) != KERNEL_STEP_RUN)
		return 0;
	for (uint32_t i = 0; i < turns; i++)
		load->run(load->arg, load->batch ? &given : NULL, first + i);
	if (load->batch)
		ops->step_end(d->ctx);
	if (ops->step_wait(d->ctx, 0) < 0)
		return 0;
	return BITS_MAX(units_now_ns() - from_ns, 1);
}

double bench_device_seconds(struct bench_device *d, const struct bench_load *load)
{
	double seconds[DEVICE_SAMPLES_MAX];
	uint32_t samples =
		BITS_MIN(d->b->repeat ? d->b->repeat : DEVICE_SAMPLES, DEVICE_SAMPLES_MAX);
	uint32_t turns = 1, turn = 1;
	uint64_t ns = turns_ns(d, load, 0, 1);

	/* The first loads kernels and chooses algorithms: it says nothing of the others. */
	for (ns = ns ? turns_ns(d, load, turn++, 1) : 0;
	     ns && ns < DEVICE_ENOUGH_NS && turns < DEVICE_TURNS_MAX; turn += turns) {
		turns *= 2;
		ns = turns_ns(d, load, turn, turns);
	}
	for (uint32_t i = 0; ns && i < samples; i++, turn += turns) {
		ns = turns_ns(d, load, turn, turns);
		seconds[i] = (double)ns / 1e9 / turns;
	}
	if (ns)
		return bench_median(seconds, samples);
	said(d, d->ops->failure(d->ctx));
	return 0;
}

int bench_device_emit(const struct bench_device *d, const char *name, double work, double seconds,
		      bool flop, double limit)
{
	if (seconds <= 0)
		return 1;
	double rate = work / seconds;

	bench_emit(d->b, &(struct bench_row){.bench = d->bench,
					     .name = name,
					     .value = rate / 1e9,
					     .unit = flop ? "GFLOP/s" : "GB/s",
					     .limit = limit / 1e9,
					     .fraction = limit > 0 ? rate / limit : 0});
	return 0;
}

int bench_device_limit_rows(const struct bench_device *d, double flops, double bytes_per_s)
{
	if (flops <= 0 || bytes_per_s <= 0) {
		said(d, "its limits cannot be measured");
		return 1;
	}
	if (bench_wanted(d->b, "limit arithmetic"))
		bench_device_emit(d, "limit arithmetic", flops, 1, true, 0);
	if (bench_wanted(d->b, "limit memory"))
		bench_device_emit(d, "limit memory", bytes_per_s, 1, false, 0);
	return 0;
}
