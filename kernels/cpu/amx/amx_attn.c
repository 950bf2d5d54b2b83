/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flash attention by tiles, straight from the pages: 16 packed rows against 64 keys at a time. A
 * group of 16 keys is a tile of K as it lies, and 32 tokens by 16 dimensions a tile of V. Decode
 * and prefill are this one kernel.
 *
 * A tile multiplies every token of a group of 32, those that a row does not see by a weight of 0.
 * Rule 1 of the layout makes missing tokens zeros; but a later token may hold a NaN or an
 * infinity, which times 0 would harm a row that must not know of it. So where rows differ in what
 * they see, V is looked at first, and if it is not finite the rows go one by one, each with a copy
 * of V in which the tokens that it does not see are zero. A sum that underflowed to -0 becomes +0
 * in the end, because whether a 0 was added to it depends on the rows beside it.
 *
 * Heads whose dimension is no multiple of 32, and pages that cut groups of 32, are the AVX-512
 * kernel's.
 */
#include "kernels/cpu/amx/amx.h"
#include "kernels/cpu/amx/softmax16.h"
#include "kernels/cpu/amx/tile.h"
#include "kernels/cpu/avx512/avx512.h"

#define ROWS TILE_ROWS
#define GROUPS (ATTN_KEYS / ATTN_GROUP)
#define STEPS (ATTN_KEYS / TILE_DEPTH) /* of V: groups of 32 tokens */

struct scratch {
	__m512 sum[ATTN_ROWS];
	float scores[2][ROWS][ATTN_KEYS]; /* of this block of rows, and of the next */
	kernel_bf16 weights[ROWS][ATTN_KEYS];
	float max[ATTN_ROWS];
	float alpha[ROWS];
	uint32_t first[ATTN_ROWS]; /* absolute positions [first, end) that a row sees */
	uint32_t end[ATTN_ROWS];   /* 0 for rows beyond the tile's */
	uint64_t mask[ROWS];	   /* the keys of the tile that each row sees */
	const kernel_bf16 *k[GROUPS];
	const kernel_bf16 *v[STEPS]; /* NULL: no row of the tile sees any of it */
	kernel_bf16 *q;		     /* [ATTN_ROWS][head_dim], rows beyond the tile's zero */
	kernel_bf16 *v_copy;	     /* [64 tokens / 2][head_dim][2] */
	float *o_copy;		     /* [ROWS][head_dim] */
};

static size_t header_bytes(void)
{
	return bits_align_up(sizeof(struct scratch), 64);
}

size_t amx_attn_scratch_bytes(uint32_t head_dim)
{
	size_t elements = (size_t)(ATTN_ROWS + ATTN_KEYS) * head_dim;
	size_t bytes = header_bytes() + elements * sizeof(kernel_bf16) +
		       (size_t)ROWS * head_dim * sizeof(float);
	size_t plain = avx512_attn_scratch_bytes(head_dim);

	return BITS_MAX(bytes, plain);
}

static void scratch_init(struct scratch *s, const struct attn_tile *t)
{
	uint32_t hd = t->a->layout->head_dim;
	uint32_t padded = (uint32_t)bits_align_up(t->rows, ROWS);

	s->q = (kernel_bf16 *)((char *)s + header_bytes());
	s->v_copy = s->q + (size_t)ATTN_ROWS * hd;
	s->o_copy = (float *)(s->v_copy + (size_t)ATTN_KEYS * hd);
	for (uint32_t r = 0; r < t->rows; r++)
		memcpy(s->q + (size_t)r * hd, t->a->q + attn_row_offset(t, r), hd * sizeof(*s->q));
	memset(s->q + (size_t)t->rows * hd, 0, (size_t)(padded - t->rows) * hd * sizeof(*s->q));
	for (uint32_t r = 0; r < padded; r++) {
		s->max[r] = -INFINITY;
		s->sum[r] = _mm512_setzero_ps();
		s->first[r] = s->end[r] = 0;
		if (r < t->rows)
			s->end[r] = attn_visible(t->a, attn_row_pos(t, r), &s->first[r]);
	}
}

static void find_groups(struct scratch *s, const struct attn_tile *t, uint32_t base, uint32_t lo,
			uint32_t hi)
{
	for (uint32_t g = 0; g < GROUPS; g++) {
		bool seen = g >= lo / ATTN_GROUP && g * ATTN_GROUP < hi;

		s->k[g] = attn_k(t, base + (seen ? g : lo / ATTN_GROUP) * ATTN_GROUP);
	}
	for (uint32_t i = 0; i < STEPS; i++) {
		bool seen = i >= lo / TILE_DEPTH && i * TILE_DEPTH < hi;

		s->v[i] = seen ? attn_v(t, base + i * TILE_DEPTH) : NULL;
	}
}

/* scores = q . k for the 16 rows at q. */
static void scores_of(const struct scratch *s, const kernel_bf16 *q, uint32_t hd,
		      float (*scores)[ATTN_KEYS])
{
	TILE_ZERO(0);
	TILE_ZERO(1);
	TILE_ZERO(2);
	TILE_ZERO(3);
	for (uint32_t d = 0; d < hd; d += TILE_DEPTH) {
		size_t at = (size_t)d * ATTN_GROUP;

		TILE_LOAD(4, q + d, hd * sizeof(*q));
		TILE_LOAD(5, s->k[0] + at, TILE_BYTES);
		TILE_DOT(0, 4, 5);
		TILE_LOAD(6, s->k[1] + at, TILE_BYTES);
		TILE_DOT(1, 4, 6);
		TILE_LOAD(7, s->k[2] + at, TILE_BYTES);
		TILE_DOT(2, 4, 7);
		TILE_LOAD(5, s->k[3] + at, TILE_BYTES);
		TILE_DOT(3, 4, 5);
	}
	TILE_STORE(0, &scores[0][0], sizeof(scores[0]));
	TILE_STORE(1, &scores[0][16], sizeof(scores[0]));
	TILE_STORE(2, &scores[0][32], sizeof(scores[0]));
	TILE_STORE(3, &scores[0][48], sizeof(scores[0]));
}

/* o[16][stride] += weights . V, 32 dimensions from d. */
static void values_half(const struct scratch *s, float *o, uint32_t stride, uint32_t hd, uint32_t d)
{
	TILE_LOAD(0, o + d, stride * sizeof(*o));
	TILE_LOAD(1, o + d + 16, stride * sizeof(*o));
	for (uint32_t i = 0; i < STEPS; i++) {
		const kernel_bf16 *v = s->v[i];

		if (!v)
			continue;
		v += (size_t)d * 2;
		TILE_LOAD(4, &s->weights[0][i * TILE_DEPTH], sizeof(s->weights[0]));
		TILE_LOAD(5, v, hd * 4);
		TILE_DOT(0, 4, 5);
		TILE_LOAD(6, v + 32, hd * 4);
		TILE_DOT(1, 4, 6);
	}
	TILE_STORE(0, o + d, stride * sizeof(*o));
	TILE_STORE(1, o + d + 16, stride * sizeof(*o));
}

/* The same for 64 dimensions: four sums in flight. */
static void values_whole(const struct scratch *s, float *o, uint32_t stride, uint32_t hd,
			 uint32_t d)
{
	TILE_LOAD(0, o + d, stride * sizeof(*o));
	TILE_LOAD(1, o + d + 16, stride * sizeof(*o));
	TILE_LOAD(2, o + d + 32, stride * sizeof(*o));
	TILE_LOAD(3, o + d + 48, stride * sizeof(*o));
	for (uint32_t i = 0; i < STEPS; i++) {
		const kernel_bf16 *v = s->v[i];

		if (!v)
			continue;
		v += (size_t)d * 2;
		TILE_LOAD(4, &s->weights[0][i * TILE_DEPTH], sizeof(s->weights[0]));
		TILE_LOAD(5, v, hd * 4);
		TILE_DOT(0, 4, 5);
		TILE_LOAD(6, v + 32, hd * 4);
		TILE_DOT(1, 4, 6);
		TILE_LOAD(7, v + 64, hd * 4);
		TILE_DOT(2, 4, 7);
		TILE_LOAD(5, v + 96, hd * 4);
		TILE_DOT(3, 4, 5);
	}
	TILE_STORE(0, o + d, stride * sizeof(*o));
	TILE_STORE(1, o + d + 16, stride * sizeof(*o));
	TILE_STORE(2, o + d + 32, stride * sizeof(*o));
	TILE_STORE(3, o + d + 48, stride * sizeof(*o));
}

static void values_of(const struct scratch *s, float *o, uint32_t stride, uint32_t hd)
{
	uint32_t d = 0;

	for (; d + 64 <= hd; d += 64)
		values_whole(s, o, stride, hd, d);
	if (d < hd)
		values_half(s, o, stride, hd, d);
}

static bool values_finite(const struct scratch *s, uint32_t hd)
{
	const __m512i exponent = _mm512_set1_epi16(0x7f80);
	__mmask32 bad = 0;

	for (uint32_t i = 0; i < STEPS; i++)
		for (uint32_t e = 0; s->v[i] && e < TILE_DEPTH * hd; e += 32) {
			__m512i v = _mm512_loadu_si512(s->v[i] + e);

			bad |= _mm512_cmpeq_epi16_mask(_mm512_and_si512(v, exponent), exponent);
		}
	return bad == 0;
}

/* V with the tokens outside the mask zero. */
static void copy_values(struct scratch *s, uint32_t hd, uint64_t mask)
{
	for (uint32_t token = 0; token < ATTN_KEYS; token++) {
		const kernel_bf16 *from = s->v[token / TILE_DEPTH];
		size_t at = (size_t)(token % TILE_DEPTH / 2) * hd * 2 + token % 2;
		kernel_bf16 *to = s->v_copy + (size_t)(token / 2) * hd * 2 + token % 2;

		for (uint32_t d = 0; d < hd; d++)
			to[2 * d] = mask >> token & 1 ? from[at + 2 * d] : 0;
	}
}

/* values_of() for V that is not finite: each row alone. */
static void values_by_row(struct scratch *s, float *o, uint32_t stride, uint32_t hd)
{
	const kernel_bf16 *v[STEPS];

	memcpy(v, s->v, sizeof(v));
	for (uint32_t r = 0; r < ROWS; r++) {
		if (!s->mask[r])
			continue;
		copy_values(s, hd, s->mask[r]);
		for (uint32_t i = 0; i < STEPS; i++)
			s->v[i] = s->v_copy + (size_t)i * TILE_DEPTH * hd;
		for (uint32_t c = 0; c < ROWS; c++)
			memcpy(s->o_copy + (size_t)c * hd, o + (size_t)c * stride, hd * sizeof(*o));
		values_of(s, s->o_copy, hd, hd);
		memcpy(o + (size_t)r * stride, s->o_copy + (size_t)r * hd, hd * sizeof(*o));
		memcpy(s->v, v, sizeof(v));
	}
}

static void scale_row(float *o, uint32_t stride, float alpha)
{
	for (uint32_t d = 0; d < stride; d += 16)
		_mm512_storeu_ps(o + d,
				 _mm512_mul_ps(_mm512_loadu_ps(o + d), _mm512_set1_ps(alpha)));
}

/* The keys of the tile at base that each of 16 rows sees. Returns whether all see all. */
static bool find_masks(struct scratch *s, uint32_t row, uint32_t base)
{
	uint64_t all = ~0ull;

	for (uint32_t r = 0; r < ROWS; r++) {
		uint32_t first = s->first[row + r];
		uint32_t end = s->end[row + r];
		uint32_t lo = first <= base ? 0 : BITS_MIN(first - base, ATTN_KEYS);
		uint32_t hi = end <= base ? 0 : BITS_MIN(end - base, ATTN_KEYS);

		s->mask[r] = lo < hi ? softmax_mask(lo, hi) : 0;
		all &= s->mask[r];
	}
	return all == ~0ull;
}

/* One softmax step of the 16 rows from `row`. Returns whether all see the whole tile. */
static bool weigh_rows(struct scratch *s, const struct attn_tile *t, uint32_t row, uint32_t base,
		       const float (*scores)[ATTN_KEYS], float *o)
{
	uint32_t stride = attn_stride(t->a->layout->head_dim);
	float scale = t->a->scale * VEXP_LOG2E;
	bool whole = find_masks(s, row, base);
	bool change;

	if (whole)
		change = softmax16_step(scores, NULL, scale, s->max + row, s->sum + row, s->weights,
					s->alpha);
	else
		change = softmax16_step(scores, s->mask, scale, s->max + row, s->sum + row,
					s->weights, s->alpha);
	for (uint32_t r = 0; change && r < ROWS; r++)
		if (s->alpha[r] != 1)
			scale_row(o + (size_t)r * stride, stride, s->alpha[r]);
	return whole;
}

/* The first block of 16 rows from `row` on of which some row sees part of the tile at base. */
static uint32_t next_block(const struct scratch *s, const struct attn_tile *t, uint32_t row,
			   uint32_t base)
{
	while (row < t->rows) {
		uint32_t last = BITS_MIN(row + ROWS, t->rows) - 1;

		if (s->end[last] > base && s->first[row] < base + ATTN_KEYS)
			break;
		row += ROWS;
	}
	return row;
}

/* The next block's scores are under way in the tile unit while this block's softmax runs. */
static void key_tile(struct scratch *s, const struct attn_tile *t, struct attn_partial *out,
		     uint32_t base)
{
	uint32_t hd = t->a->layout->head_dim;
	uint32_t stride = attn_stride(hd);
	uint32_t row = next_block(s, t, 0, base);
	uint32_t next, turn = 0;
	bool finite;

	if (row >= t->rows)
		return;
	find_groups(s, t, base, s->first[0] > base ? s->first[0] - base : 0,
		    BITS_MIN(s->end[t->rows - 1] - base, ATTN_KEYS));
	finite = (s->first[t->rows - 1] <= base && s->end[0] >= base + ATTN_KEYS) ||
		 values_finite(s, hd);
	scores_of(s, s->q + (size_t)row * hd, hd, s->scores[turn]);
	for (; row < t->rows; row = next, turn ^= 1) {
		float *o = out->o + (size_t)row * stride;

		next = next_block(s, t, row + ROWS, base);
		if (next < t->rows)
			scores_of(s, s->q + (size_t)next * hd, hd, s->scores[turn ^ 1]);
		if (weigh_rows(s, t, row, base, s->scores[turn], o) || finite)
			values_of(s, o, stride, hd);
		else
			values_by_row(s, o, stride, hd);
	}
}

static void finish(const struct scratch *s, const struct attn_tile *t, struct attn_partial *out)
{
	uint32_t stride = attn_stride(t->a->layout->head_dim);

	for (size_t i = 0; i < (size_t)t->rows * stride; i += 16)
		_mm512_storeu_ps(out->o + i,
				 _mm512_add_ps(_mm512_loadu_ps(out->o + i), _mm512_setzero_ps()));
	for (uint32_t r = 0; r < t->rows; r++) {
		out->max[r] = s->max[r];
		out->sum[r] = _mm512_reduce_add_ps(s->sum[r]);
	}
}

void amx_attn(const struct attn_tile *t, uint32_t split, struct attn_partial *out, void *scratch)
{
	struct scratch *s = scratch;
	uint32_t hd = t->a->layout->head_dim;
	uint32_t padded = (uint32_t)bits_align_up(t->rows, ROWS);
	uint32_t begin;
	uint32_t end = attn_keys(t, split, &begin);

	if (hd % TILE_DEPTH != 0 || t->a->layout->page_tokens % TILE_DEPTH != 0) {
		avx512_attn(t, split, out, scratch);
		return;
	}
	scratch_init(s, t);
	memset(out->o, 0, (size_t)padded * attn_stride(hd) * sizeof(float));
	/* Sums and left operands have as many rows as there are, up to 16. */
	tile_configure_rows(BITS_MIN(t->rows, ROWS), 0x1f);
	for (uint32_t base = begin; base < end; base += ATTN_KEYS)
		key_tile(s, t, out, base);
	tile_release();
	finish(s, t, out);
}
