/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel tests share: the tables that this processor has, random numbers, packed weights,
 * and pages that are born poisoned (every bf16 in them a NaN).
 */
#ifndef TESTS_UNIT_KERNELS_FIXTURE_H
#define TESTS_UNIT_KERNELS_FIXTURE_H

#include "tests/test.h"

#include <base/bits.h>
#include <kernels/kernels.h>
#include <math.h>
#include <stdlib.h>

static const char *const fixture_isas[] = {"portable", "avx512bf16", "amx"};

#define FIXTURE_THREADS_MAX 3u

/* Runs body once for every table that this processor has. */
#define FIXTURE_EACH_TABLE(ops)                                                                    \
	for (size_t isa_ = 0; isa_ < ARRAY_LEN(fixture_isas); isa_++)                              \
		for (const struct kernel_ops *ops = kernels_cpu(fixture_isas[isa_]); ops;          \
		     ops = NULL)

static inline void *fixture_alloc(size_t bytes)
{
	void *p = aligned_alloc(64, bits_align_up(bytes ? bytes : 1, 64));

	assert_non_null(p);
	return p;
}

static inline struct kernels_ctx *fixture_ctx(const struct kernel_ops *ops, uint32_t threads)
{
	struct kernels_limits limits = {.rows_max = 2048,
					.k_max = 4096,
					.heads_max = 64,
					.head_dim_max = 256,
					.vocab = 70000};
	struct kernels_ctx *ctx;

	assert_int_equal(kernels_ctx_new(ops, &limits, threads, &ctx), 0);
	assert_int_equal(kernels_ctx_threads(ctx), threads);
	return ctx;
}

/* Roughly normal, with the given deviation. */
static inline float *fixture_floats(uint64_t *seed, size_t n, double deviation)
{
	float *x = fixture_alloc(n * sizeof(*x));

	for (size_t i = 0; i < n; i++) {
		double sum = 0;

		for (int j = 0; j < 6; j++)
			sum += test_uniform(seed) - 0.5;
		x[i] = (float)(sum * 1.41421356 * deviation);
	}
	return x;
}

static inline kernel_bf16 *fixture_bf16(uint64_t *seed, size_t n, double deviation)
{
	float *x = fixture_floats(seed, n, deviation);
	kernel_bf16 *b = fixture_alloc(n * sizeof(*b));

	for (size_t i = 0; i < n; i++)
		b[i] = kernel_f32_to_bf16(x[i]);
	free(x);
	return b;
}

static inline struct kernel_weight fixture_weight(const struct kernel_ops *ops, uint64_t *seed,
						  enum kernel_weight_kind kind, uint32_t n,
						  uint32_t k)
{
	struct kernel_weight w = {
		.kind = kind, .n = n, .k = k, .bytes = ops->weight_bytes(kind, n, k)};
	float *rows = fixture_floats(seed, (size_t)n * k, 1 / sqrt(k));

	w.data = fixture_alloc(w.bytes);
	memset(w.data, 0, w.bytes);
	ops->weight_pack(&w, 0, n, rows);
	free(rows);
	return w;
}

struct fixture_pages {
	struct kvd_layout layout;
	uint64_t *page;
	uint32_t count;
	char *memory;
	uint64_t bytes;
};

static inline void fixture_pages_init(struct fixture_pages *p, const struct kvd_layout *layout,
				      uint32_t tokens)
{
	uint64_t page_bytes = kvd_layout_page_bytes(layout);

	p->layout = *layout;
	p->count = (uint32_t)bits_div_ceil(tokens, layout->page_tokens);
	p->bytes = p->count * page_bytes;
	p->memory = fixture_alloc(p->bytes);
	p->page = fixture_alloc(p->count * sizeof(*p->page));
	memset(p->memory, 0xff, p->bytes);
	/* In falling order, so that nobody can take two pages for neighbours. */
	for (uint32_t i = 0; i < p->count; i++)
		p->page[i] = (uint64_t)(uintptr_t)(p->memory + (p->count - 1 - i) * page_bytes);
}

static inline void fixture_pages_fini(struct fixture_pages *p)
{
	free(p->memory);
	free(p->page);
}

/* Fails unless |got - want| <= absolute + relative * |want|, or the same bits, everywhere. */
static inline void fixture_close_bf16(const kernel_bf16 *got, const kernel_bf16 *want, size_t n,
				      double absolute, double relative)
{
	for (size_t i = 0; i < n; i++) {
		double g = kernel_bf16_to_f32(got[i]);
		double w = kernel_bf16_to_f32(want[i]);

		if (got[i] != want[i] && !(fabs(g - w) <= absolute + relative * fabs(w)))
			fail_msg("element %zu: %g, not %g", i, g, w);
	}
}

static inline void fixture_close_f32(const float *got, const float *want, size_t n, double absolute,
				     double relative)
{
	for (size_t i = 0; i < n; i++)
		if (!(fabs((double)got[i] - want[i]) <= absolute + relative * fabs(want[i])))
			fail_msg("element %zu: %g, not %g", i, got[i], want[i]);
}

#endif
