/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shape that all attention kernels share. The heads of one kv head are packed as rows: packed
 * row r of (sequence, kv head) is token r / group, head r % group of the group. Keys are taken in
 * tiles of 64 and splits of 512 at absolute positions. The state of the online softmax starts anew
 * in each split, and splits are merged in ascending order: so a row meets the same additions in
 * the same order whether it comes alone, in a chunk, or with its splits on several threads.
 */
#ifndef KERNELS_CPU_ATTN_H
#define KERNELS_CPU_ATTN_H

#include <base/bits.h>
#include <kernels/kernels.h>

#define ATTN_ROWS 96u /* packed rows of a tile, at most */
#define ATTN_KEYS 64u /* keys of a tile */
#define ATTN_SPLIT 512u
#define ATTN_GROUP 16u /* keys that lie together in a page, whatever its size */

struct attn_tile {
	const struct kernel_attention *a;
	const struct kernel_seq *seq;
	uint32_t kv_head;
	uint32_t row0; /* packed */
	uint32_t rows;
};

/* The state of a tile's rows after one split (or several merged): o / sum is the output. */
struct attn_partial {
	float *o;	      /* [ATTN_ROWS][attn_stride()] */
	float max[ATTN_ROWS]; /* of the scores times scale * log2(e) */
	float sum[ATTN_ROWS]; /* 0 and max -inf: the row sees no key here */
};

static inline uint32_t attn_stride(uint32_t head_dim)
{
	return (uint32_t)bits_align_up(head_dim, 16);
}

static inline uint32_t attn_group(const struct kernel_attention *a)
{
	return a->heads / a->layout->kv_heads;
}

/* The tokens [*lo, return) that a token at `pos` sees. */
static inline uint32_t attn_visible(const struct kernel_attention *a, uint32_t pos, uint32_t *lo)
{
	*lo = a->window && pos + 1 > a->window ? pos + 1 - a->window : 0;
	return pos + 1;
}

static inline uint32_t attn_row_pos(const struct attn_tile *t, uint32_t row)
{
	return t->seq->pos0 + (t->row0 + row) / attn_group(t->a);
}

/* Element offset of the tile's packed row in q and out. */
static inline size_t attn_row_offset(const struct attn_tile *t, uint32_t row)
{
	uint32_t group = attn_group(t->a);
	uint32_t token = t->seq->row0 + (t->row0 + row) / group;
	uint32_t head = t->kv_head * group + (t->row0 + row) % group;

	return ((size_t)token * t->a->heads + head) * t->a->layout->head_dim;
}

/* Of the positions [first, end) that a row sees, those of the key tile at absolute position `base`:
 * keys [*out_lo, *out_hi), from 0 to 64. */
static inline void attn_tile_range(uint32_t first, uint32_t end, uint32_t base, uint32_t *out_lo,
				   uint32_t *out_hi)
{
	*out_lo = first <= base ? 0 : BITS_MIN(first - base, ATTN_KEYS);
	*out_hi = end <= base ? 0 : BITS_MIN(end - base, ATTN_KEYS);
}

/* The same of a packed row. */
static inline void attn_row_range(const struct attn_tile *t, uint32_t row, uint32_t base,
				  uint32_t *out_lo, uint32_t *out_hi)
{
	uint32_t first;
	uint32_t end = attn_visible(t->a, attn_row_pos(t, row), &first);

	attn_tile_range(first, end, base, out_lo, out_hi);
}

/* The key tiles' positions [*out_begin, return) that any row of the tile sees in a split. */
static inline uint32_t attn_keys(const struct attn_tile *t, uint32_t split, uint32_t *out_begin)
{
	uint32_t begin = split * ATTN_SPLIT;
	uint32_t lo, ignored;
	uint32_t hi = attn_visible(t->a, attn_row_pos(t, t->rows - 1), &ignored);

	(void)attn_visible(t->a, attn_row_pos(t, 0), &lo);
	*out_begin = BITS_MAX(begin, lo / ATTN_KEYS * ATTN_KEYS);
	return BITS_MIN(hi, begin + ATTN_SPLIT);
}

/* K of the 16 keys at absolute position pos, a multiple of 16: [head_dim / 2][16][2]. */
static inline const kernel_bf16 *attn_k(const struct attn_tile *t, uint32_t pos)
{
	const struct kvd_layout *l = t->a->layout;
	const char *page = (const char *)(uintptr_t)t->seq->pages[pos / l->page_tokens];
	uint64_t at = kvd_layout_k16_index(l, pos % l->page_tokens, 0);

	return (const kernel_bf16 *)(page + kvd_layout_k(l, t->a->layer, t->kv_head)) + at;
}

/* V of the same 16 keys: [8][head_dim][2]. */
static inline const kernel_bf16 *attn_v(const struct attn_tile *t, uint32_t pos)
{
	const struct kvd_layout *l = t->a->layout;
	const char *page = (const char *)(uintptr_t)t->seq->pages[pos / l->page_tokens];
	uint64_t at = kvd_layout_v2_index(l, pos % l->page_tokens, 0);

	return (const kernel_bf16 *)(page + kvd_layout_v(l, t->a->layer, t->kv_head)) + at;
}

#endif
