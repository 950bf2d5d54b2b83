/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A matrix product that is quick enough for a model on one core. Rows of a and columns of b become
 * floats with k contiguous and padded with zeros; each element is sixteen sums over k mod 16, added
 * up at the end in one fixed order. Products and sums are rounded apart, so that every instruction
 * set has the same bits: tiles differ, orders do not.
 */
#include "tests/cudasim/exec/gemm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The tiles must be unrolled into registers, whatever the build's level. */
#if defined(__clang__)
#define FAST
#else
#define FAST __attribute__((optimize("O3")))
#endif

#define LANES 16u
#define ROWS 32u /* of a, converted at a time */

size_t gemm_type_bytes(enum gemm_type type)
{
	return type == GEMM_F32 ? 4 : 2;
}

static float from_bits(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

static uint32_t to_bits(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static float from_f16(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fff;

	if (rest >= 0x7c00)
		return from_bits(sign | 0x7f800000u | (rest & 0x3ff) << 13);
	/* The scale lifts subnormals too: exact. */
	return from_bits(to_bits(from_bits(rest << 13) * 0x1p112f) | sign);
}

static uint16_t to_f16(float x)
{
	uint32_t bits = to_bits(x), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;

	if (rest > 0x7f800000u)
		return (uint16_t)(sign | 0x7fff);
	if (rest >= 0x477ff000u)
		return (uint16_t)(sign | 0x7c00);
	/* Below the smallest normal the sum's own rounding does it. */
	if (rest < 0x38800000u)
		return (uint16_t)(sign | (to_bits(from_bits(rest) + 0.5f) - 0x3f000000u));
	return (uint16_t)(sign | ((rest - 0x38000000u + 0xfff + (rest >> 13 & 1)) >> 13));
}

static uint16_t to_bf16(float x)
{
	uint32_t bits = to_bits(x);

	if ((bits & 0x7fffffffu) > 0x7f800000u)
		return 0x7fff;
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float load(const void *data, enum gemm_type type, size_t index)
{
	switch (type) {
	case GEMM_F32:
		return ((const float *)data)[index];
	case GEMM_F16:
		return from_f16(((const uint16_t *)data)[index]);
	case GEMM_BF16:
		return from_bits((uint32_t)((const uint16_t *)data)[index] << 16);
	}
	return 0;
}

static void store(void *data, enum gemm_type type, size_t index, float x)
{
	if (type == GEMM_F32)
		((float *)data)[index] = x;
	else
		((uint16_t *)data)[index] = type == GEMM_F16 ? to_f16(x) : to_bf16(x);
}

/* One row of floats, k_padded long, from k elements `stride` apart. */
FAST static void pack(float *to, const struct gemm_matrix *m, size_t first, size_t stride, size_t k,
		      size_t k_padded)
{
	if (m->type == GEMM_BF16 && stride == 1) {
		const uint16_t *from = (const uint16_t *)m->data + first;

		for (size_t i = 0; i < k; i++)
			to[i] = from_bits((uint32_t)from[i] << 16);
	} else {
		for (size_t i = 0; i < k; i++)
			to[i] = load(m->data, m->type, first + i * stride);
	}
	memset(to + k, 0, (k_padded - k) * sizeof(*to));
}

/* The fixed order in which an element's sixteen sums meet. */
static float add_up(const float sums[LANES])
{
	float x[LANES];

	memcpy(x, sums, sizeof(x));
	for (unsigned int n = LANES / 2; n > 0; n /= 2)
		for (unsigned int i = 0; i < n; i++)
			x[i] += x[i + n];
	return x[0];
}

/* out[i * out_stride + j] += a row i . b row j, for i < rows and j < columns. */
typedef void dots_fn(float *out, size_t out_stride, const float *a, size_t rows, const float *b,
		     size_t columns, size_t k_padded);

#define DEFINE_DOTS(name, target, width, ti, tj)                                                   \
	typedef float name##_vec __attribute__((vector_size(4 * (width)), aligned(4)));            \
	FAST target static void name##_tile(float *out, size_t out_stride, const float *a,         \
					    const float *b, size_t k_padded)                       \
	{                                                                                          \
		name##_vec sums[ti][tj][LANES / (width)];                                          \
		float lanes[LANES];                                                                \
                                                                                                   \
		memset(sums, 0, sizeof(sums));                                                     \
		for (size_t k = 0; k < k_padded; k += LANES)                                       \
			for (size_t v = 0; v < LANES / (width); v++)                               \
				for (size_t i = 0; i < (ti); i++)                                  \
					for (size_t j = 0; j < (tj); j++)                          \
						sums[i][j][v] +=                                   \
							*(const name##_vec *)(a + i * k_padded +   \
									      k + v * (width)) *   \
							*(const name##_vec *)(b + j * k_padded +   \
									      k + v * (width));    \
		for (size_t i = 0; i < (ti); i++)                                                  \
			for (size_t j = 0; j < (tj); j++) {                                        \
				memcpy(lanes, sums[i][j], sizeof(lanes));                          \
				out[i * out_stride + j] += add_up(lanes);                          \
			}                                                                          \
	}                                                                                          \
	FAST target static void name##_one(float *out, const float *a, const float *b,             \
					   size_t k_padded)                                        \
	{                                                                                          \
		name##_vec sums[LANES / (width)];                                                  \
		float lanes[LANES];                                                                \
                                                                                                   \
		memset(sums, 0, sizeof(sums));                                                     \
		for (size_t k = 0; k < k_padded; k += LANES)                                       \
			for (size_t v = 0; v < LANES / (width); v++)                               \
				sums[v] += *(const name##_vec *)(a + k + v * (width)) *            \
					   *(const name##_vec *)(b + k + v * (width));             \
		memcpy(lanes, sums, sizeof(lanes));                                                \
		*out += add_up(lanes);                                                             \
	}                                                                                          \
	FAST target static void name(float *out, size_t out_stride, const float *a, size_t rows,   \
				     const float *b, size_t columns, size_t k_padded)              \
	{                                                                                          \
		for (size_t j = 0; j < columns; j += (tj)) {                                       \
			for (size_t i = 0; i < rows; i += (ti)) {                                  \
				const float *ai = a + i * k_padded, *bj = b + j * k_padded;        \
				float *o = out + i * out_stride + j;                               \
                                                                                                   \
				if (i + (ti) <= rows && j + (tj) <= columns) {                     \
					name##_tile(o, out_stride, ai, bj, k_padded);              \
					continue;                                                  \
				}                                                                  \
				for (size_t x = 0; x < (ti) && i + x < rows; x++)                  \
					for (size_t y = 0; y < (tj) && j + y < columns; y++)       \
						name##_one(o + x * out_stride + y,                 \
							   ai + x * k_padded, bj + y * k_padded,   \
							   k_padded);                              \
			}                                                                          \
		}                                                                                  \
	}

DEFINE_DOTS(dots_plain, , 4, 1, 2)
#if defined(__x86_64__)
DEFINE_DOTS(dots_avx2, __attribute__((target("avx2"))), 8, 2, 3)
DEFINE_DOTS(dots_avx512, __attribute__((target("avx512f"))), 16, 4, 4)
#endif

static dots_fn *choose(void)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx512f"))
		return dots_avx512;
	if (__builtin_cpu_supports("avx2"))
		return dots_avx2;
#endif
	return dots_plain;
}

static void finish(const struct gemm *g, const float *sums, size_t i0, size_t rows)
{
	for (size_t i = i0; i < i0 + rows; i++) {
		float bias = g->bias ? load(g->bias, g->bias_type, i) : 0;

		for (size_t j = 0; j < g->n; j++) {
			float x = g->alpha * sums[(i - i0) * g->n + j];

			if (g->beta != 0)
				x += g->beta * load(g->c.data, g->c.type,
						    i * g->c.row_stride + j * g->c.column_stride);
			if (g->bias)
				x += bias;
			if (g->relu && !(x > 0))
				x = 0;
			store(g->d.data, g->d.type, i * g->d.row_stride + j * g->d.column_stride,
			      x);
		}
	}
}

/* One part of K for all rows of sums[m][n], which this adds to. */
static void run_part(const struct gemm *g, float *sums, size_t i0, size_t rows, size_t k0,
		     size_t k_part, float *a, float *b, dots_fn *dots)
{
	size_t padded = (k_part + LANES - 1) / LANES * LANES;

	for (size_t i = 0; i < rows; i++)
		pack(a + i * padded, &g->a, (i0 + i) * g->a.row_stride + k0 * g->a.column_stride,
		     g->a.column_stride, k_part, padded);
	/* b stays packed between the blocks of rows when there is one part. */
	if (i0 == 0 || g->splits > 1)
		for (size_t j = 0; j < g->n; j++)
			pack(b + j * padded, &g->b, j * g->b.column_stride + k0 * g->b.row_stride,
			     g->b.row_stride, k_part, padded);
	dots(sums, g->n, a, rows, b, g->n, padded);
}

int gemm_run(const struct gemm *g)
{
	size_t part = (g->k + g->splits - 1) / g->splits;
	size_t padded = (part + LANES - 1) / LANES * LANES;
	float *a = malloc(ROWS * padded * sizeof(*a));
	float *b = malloc(g->n * padded * sizeof(*b));
	float *sums = malloc(ROWS * g->n * sizeof(*sums));
	int rc = a && b && sums ? 0 : -ENOMEM;
	dots_fn *dots = choose();

	for (size_t i0 = 0; rc == 0 && i0 < g->m; i0 += ROWS) {
		size_t rows = g->m - i0 < ROWS ? g->m - i0 : ROWS;

		memset(sums, 0, ROWS * g->n * sizeof(*sums));
		for (size_t k0 = 0; k0 < g->k; k0 += part)
			run_part(g, sums, i0, rows, k0, g->k - k0 < part ? g->k - k0 : part, a, b,
				 dots);
		finish(g, sums, i0, rows);
	}
	free(a);
	free(b);
	free(sums);
	return rc;
}
