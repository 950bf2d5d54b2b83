/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flash attention straight from the pages. Up to six rows and 64 keys at a time: scores by
 * vdpbf16ps, one step of the online softmax, then the values, pair of tokens by pair. Decode and
 * prefill are this one kernel: a row's arithmetic is the same whichever rows stand beside it.
 *
 * A row multiplies exactly the values of the tokens that it sees. Where the rows of a block differ
 * in what they see (the diagonal, the window's edge), the pairs in question are taken row by row
 * under a mask, so that what a missing or later token holds, NaN included, never reaches a sum.
 */
#include "kernels/cpu/avx512/avx512.h"
#include "kernels/cpu/avx512/softmax.h"

#include <string.h>

#define ROWS 6
#define GROUPS (ATTN_KEYS / ATTN_GROUP)

struct block {
	const struct attn_tile *t;
	const kernel_bf16 *k[GROUPS];
	const kernel_bf16 *v[GROUPS];
	const kernel_bf16 *q[ROWS];
	float *o[ROWS];
	float alpha[ROWS];
	uint32_t lo[ROWS]; /* keys of the tile that the row sees; none: 64, 64 */
	uint32_t hi[ROWS];
	float scores[ROWS][ATTN_KEYS];
	kernel_bf16 weights[ROWS][ATTN_KEYS];
};

struct scratch {
	__m512 sum[ATTN_ROWS];
	const kernel_bf16 *q[ATTN_ROWS];
	uint32_t first[ATTN_ROWS]; /* absolute positions [first, end) that a row sees */
	uint32_t end[ATTN_ROWS];
	struct block block;
};

size_t avx512_attn_scratch_bytes(uint32_t head_dim)
{
	return sizeof(struct scratch);
}

static inline __m512i pair(const kernel_bf16 *x)
{
	int32_t two;

	memcpy(&two, x, sizeof(two));
	return _mm512_set1_epi32(two);
}

/* Groups that no row of the tile sees stand for one that is seen: they are masked anyway. */
static void find_groups(struct block *b, uint32_t base, uint32_t lo, uint32_t hi)
{
	for (uint32_t g = 0; g < GROUPS; g++) {
		bool seen = g >= lo / ATTN_GROUP && g * ATTN_GROUP < hi;
		uint32_t pos = base + (seen ? g : lo / ATTN_GROUP) * ATTN_GROUP;

		b->k[g] = attn_k(b->t, pos);
		b->v[g] = attn_v(b->t, pos);
	}
}

static inline __attribute__((always_inline)) void scores_of(struct block *b, const int rows)
{
	uint32_t hd = b->t->a->layout->head_dim;
	__m512 sum[ROWS][GROUPS];

	for (int r = 0; r < rows; r++)
		for (uint32_t g = 0; g < GROUPS; g++)
			sum[r][g] = _mm512_setzero_ps();
	for (uint32_t d = 0; d < hd; d += 2) {
		__m512i k[GROUPS];

		for (uint32_t g = 0; g < GROUPS; g++)
			k[g] = _mm512_loadu_si512(b->k[g] + (size_t)d * ATTN_GROUP);
		for (int r = 0; r < rows; r++) {
			__m512i q = pair(b->q[r] + d);

			for (uint32_t g = 0; g < GROUPS; g++)
				sum[r][g] =
					_mm512_dpbf16_ps(sum[r][g], (__m512bh)q, (__m512bh)k[g]);
		}
	}
	for (int r = 0; r < rows; r++)
		for (uint32_t g = 0; g < GROUPS; g++)
			_mm512_storeu_ps(b->scores[r] + g * ATTN_GROUP, sum[r][g]);
}

static inline const kernel_bf16 *values(const struct block *b, uint32_t pair_index, uint32_t d)
{
	uint32_t hd = b->t->a->layout->head_dim;
	uint32_t per_group = ATTN_GROUP / 2;

	return b->v[pair_index / per_group] + ((size_t)(pair_index % per_group) * hd + d) * 2;
}

/* Pairs [from, to), which all rows see whole, onto sums that stay in registers. */
static inline __attribute__((always_inline)) void add_pairs(const struct block *b, uint32_t from,
							    uint32_t to, uint32_t d, const int rows,
							    const int vectors, __mmask16 last,
							    __m512 sum[ROWS][4])
{
	for (uint32_t p = from; p < to; p++) {
		const kernel_bf16 *at = values(b, p, d);
		__m512i v[4];

		for (int i = 0; i < vectors; i++)
			v[i] = i + 1 < vectors ? _mm512_loadu_si512(at + i * 32)
					       : _mm512_maskz_loadu_epi32(last, at + i * 32);
		for (int r = 0; r < rows; r++) {
			__m512i w = pair(b->weights[r] + 2 * p);

			for (int i = 0; i < vectors; i++)
				sum[r][i] =
					_mm512_dpbf16_ps(sum[r][i], (__m512bh)w, (__m512bh)v[i]);
		}
	}
}

/*
 * The same where rows differ: each takes the tokens that it sees, if any. Apart from the loop above
 * and onto sums in memory, or the compiler would keep that loop's sums in memory too.
 */
static void add_edge_pairs(struct block *b, uint32_t from, uint32_t to, uint32_t d, int rows,
			   int vectors, __mmask16 last)
{
	for (int r = 0; r < rows; r++)
		for (uint32_t p = from; p < to; p++) {
			const kernel_bf16 *at = values(b, p, d);
			bool first = 2 * p >= b->lo[r] && 2 * p < b->hi[r];
			bool second = 2 * p + 1 >= b->lo[r] && 2 * p + 1 < b->hi[r];
			__m512i w = pair(b->weights[r] + 2 * p);
			__m512i keep = _mm512_set1_epi32(
				(int32_t)((first ? 0xffffu : 0) | (second ? 0xffff0000u : 0)));

			if (!first && !second)
				continue;
			for (int i = 0; i < vectors; i++) {
				float *o = b->o[r] + d + i * 16;
				__m512i v = _mm512_maskz_loadu_epi32(
					i + 1 < vectors ? 0xffff : last, at + i * 32);

				v = _mm512_and_si512(v, keep);
				_mm512_storeu_ps(o, _mm512_dpbf16_ps(_mm512_loadu_ps(o),
								     (__m512bh)w, (__m512bh)v));
			}
		}
}

/* Pairs [first, begin) and [end, past) are edges, [begin, end) are seen whole by all rows. */
struct span {
	uint32_t first, begin, end, past;
};

static inline struct span span_of(const struct block *b, int rows)
{
	uint32_t lo_min = ATTN_KEYS, lo_max = 0, hi_min = ATTN_KEYS, hi_max = 0;
	struct span s;

	for (int r = 0; r < rows; r++) {
		lo_min = BITS_MIN(lo_min, b->lo[r]);
		lo_max = BITS_MAX(lo_max, b->lo[r]);
		hi_min = BITS_MIN(hi_min, b->hi[r]);
		hi_max = BITS_MAX(hi_max, b->lo[r] < b->hi[r] ? b->hi[r] : 0);
	}
	s.first = lo_min / 2;
	s.past = (hi_max + 1) / 2;
	s.begin = (lo_max + 1) / 2;
	s.end = hi_min / 2;
	if (s.begin >= s.end || s.end > s.past)
		s.begin = s.end = BITS_MAX(s.past, s.first);
	return s;
}

static void scale_rows(struct block *b, uint32_t d, int rows, int vectors)
{
	for (int r = 0; r < rows; r++)
		for (int i = 0; i < vectors; i++) {
			float *o = b->o[r] + d + i * 16;

			_mm512_storeu_ps(
				o, _mm512_mul_ps(_mm512_loadu_ps(o), _mm512_set1_ps(b->alpha[r])));
		}
}

/* o = o * alpha + weights . V, for up to 64 dimensions from d. */
static inline __attribute__((always_inline)) void values_of(struct block *b, const struct span *s,
							    uint32_t d, const int rows,
							    const int vectors, __mmask16 last)
{
	bool scaled = s->first < s->begin;
	__m512 sum[ROWS][4];

	if (scaled) {
		scale_rows(b, d, rows, vectors);
		add_edge_pairs(b, s->first, s->begin, d, rows, vectors, last);
	}
	for (int r = 0; r < rows; r++)
		for (int i = 0; i < vectors; i++)
			sum[r][i] = _mm512_mul_ps(_mm512_loadu_ps(b->o[r] + d + i * 16),
						  _mm512_set1_ps(scaled ? 1 : b->alpha[r]));
	add_pairs(b, s->begin, s->end, d, rows, vectors, last, sum);
	for (int r = 0; r < rows; r++)
		for (int i = 0; i < vectors; i++)
			_mm512_storeu_ps(b->o[r] + d + i * 16, sum[r][i]);
	add_edge_pairs(b, s->end, s->past, d, rows, vectors, last);
}

static inline __attribute__((always_inline)) void all_values_of(struct block *b, const int rows)
{
	uint32_t hd = b->t->a->layout->head_dim;
	struct span s = span_of(b, rows);
	uint32_t d = 0;

	for (; d + 64 <= hd; d += 64)
		values_of(b, &s, d, rows, 4, 0xffff);
	for (; d + 16 <= hd; d += 16)
		values_of(b, &s, d, rows, 1, 0xffff);
	if (d < hd)
		values_of(b, &s, d, rows, 1, (__mmask16)((1u << (hd - d)) - 1));
}

static inline __attribute__((always_inline)) void block_step(struct block *b, const int rows,
							     float *max, __m512 *sum)
{
	float scale = b->t->a->scale * VEXP_LOG2E;

	scores_of(b, rows);
	for (int r = 0; r < rows; r++) {
		b->alpha[r] = 1;
		if (b->lo[r] < b->hi[r])
			b->alpha[r] = softmax_step(b->scores[r], softmax_mask(b->lo[r], b->hi[r]),
						   scale, &max[r], &sum[r], b->weights[r]);
	}
	all_values_of(b, rows);
}

static void block_step_of(struct block *b, uint32_t rows, float *max, __m512 *sum)
{
	switch (rows) {
	case 1:
		block_step(b, 1, max, sum);
		break;
	case 2:
		block_step(b, 2, max, sum);
		break;
	case 3:
		block_step(b, 3, max, sum);
		break;
	case 4:
		block_step(b, 4, max, sum);
		break;
	case 5:
		block_step(b, 5, max, sum);
		break;
	default:
		block_step(b, 6, max, sum);
		break;
	}
}

static void scratch_init(struct scratch *s, const struct attn_tile *t)
{
	s->block.t = t;
	for (uint32_t r = 0; r < t->rows; r++) {
		s->sum[r] = _mm512_setzero_ps();
		s->q[r] = t->a->q + attn_row_offset(t, r);
		s->end[r] = attn_visible(t->a, attn_row_pos(t, r), &s->first[r]);
	}
}

/* Rows [row, row + rows) against the key tile at base. */
static void tile_rows(struct scratch *s, struct attn_partial *out, uint32_t base, uint32_t row,
		      uint32_t rows)
{
	struct block *b = &s->block;
	uint32_t stride = attn_stride(b->t->a->layout->head_dim);
	bool any = false;

	for (uint32_t r = 0; r < rows; r++) {
		b->q[r] = s->q[row + r];
		b->o[r] = out->o + (size_t)(row + r) * stride;
		attn_tile_range(s->first[row + r], s->end[row + r], base, &b->lo[r], &b->hi[r]);
		if (b->lo[r] < b->hi[r])
			any = true;
		else
			b->lo[r] = b->hi[r] = ATTN_KEYS;
	}
	if (any)
		block_step_of(b, rows, out->max + row, s->sum + row);
}

static void key_tile(struct scratch *s, struct attn_partial *out, uint32_t base)
{
	const struct attn_tile *t = s->block.t;
	uint32_t lo, hi, ignored;

	attn_tile_range(s->first[0], s->end[0], base, &lo, &ignored);
	attn_tile_range(s->first[t->rows - 1], s->end[t->rows - 1], base, &ignored, &hi);
	if (lo >= hi)
		return;
	find_groups(&s->block, base, lo, hi);
	for (uint32_t r = 0; r < t->rows; r += ROWS)
		tile_rows(s, out, base, r, BITS_MIN(ROWS, t->rows - r));
}

void avx512_attn(const struct attn_tile *t, uint32_t split, struct attn_partial *out, void *scratch)
{
	struct scratch *s = scratch;
	uint32_t begin;
	uint32_t end = attn_keys(t, split, &begin);

	scratch_init(s, t);
	memset(out->o, 0, (size_t)t->rows * attn_stride(t->a->layout->head_dim) * sizeof(float));
	for (uint32_t r = 0; r < t->rows; r++)
		out->max[r] = -INFINITY;
	for (uint32_t base = begin; base < end; base += ATTN_KEYS)
		key_tile(s, out, base);
	for (uint32_t r = 0; r < t->rows; r++)
		out->sum[r] = _mm512_reduce_add_ps(s->sum[r]);
}
