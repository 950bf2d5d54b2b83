/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which rows a block of attention has, which keys they see, and how both come to shared memory.
 *
 * Shared memory holds K, V and Q as columns of 64 dimensions: [dims / 64][row][128 bytes], the
 * eight 16-byte pieces of a line exchanged by the row's low three bits. So eight lines of ldmatrix
 * meet no bank twice, and the same bytes are what wgmma calls the 128-byte swizzle.
 */
#ifndef KERNELS_CUDA_ATTN_ROWS_CUH
#define KERNELS_CUDA_ATTN_ROWS_CUH

#include "kernels/cuda/attn.h"
#include "kernels/cuda/common.cuh"

#ifdef KVD_CUDASIM
#define ATTN_UNROLL
#define ATTN_UNROLL_TWICE
#else
#define ATTN_UNROLL _Pragma("unroll")
#define ATTN_UNROLL_TWICE _Pragma("unroll 2")
#endif

#define ATTN_LINE_BYTES 128u
#define ATTN_COLUMN 64u /* dimensions of a line */
#define ATTN_SPLIT_TILES (CUDA_ATTN_SPLIT / CUDA_ATTN_KEYS)
#define ATTN_SPLIT_STEPS (CUDA_ATTN_SPLIT / CUDA_ATTN_PAGE_STEP)
#define ATTN_TABLE_BYTES (2 * ATTN_SPLIT_STEPS * sizeof(uint64_t))

struct attn_args {
	const uint16_t *q;
	uint16_t *out;
	const struct cuda_seq *seqs;
	const uint64_t *pages;
	const struct cuda_tile *tiles;
	const uint32_t *decodes;
	float *partial_o;  /* [decode][kv head][split][slot][head_dim] */
	float *partial_ml; /* [decode][kv head][split][slot][2]: maximum, sum */
	uint64_t layer_k_offset;
	uint64_t head_bytes;
	uint32_t heads;
	uint32_t kv_heads;
	uint32_t gqa;
	uint32_t page_tokens;
	uint32_t window;
	uint32_t tile_rows;
	uint64_t tma_base; /* Hopper's prefill alone */
	uint64_t tma_bytes;
	float scale_log2; /* scale * log2(e) */
	bool fp16;	  /* out is, not bf16 */
};

static inline bool attn_args_init(struct attn_args *args, const struct cuda_attention *a)
{
	*args = attn_args();
	if (!a->kv_heads || a->heads % a->kv_heads || a->heads / a->kv_heads > CUDA_ATTN_GQA_MAX ||
	    !a->page_tokens || a->page_tokens % CUDA_ATTN_PAGE_STEP || !(a->scale > 0))
		return false;
	args->q = a->q;
	args->out = a->out;
	args->fp16 = a->fp16;
	args->seqs = a->seqs;
	args->pages = a->pages;
	args->tiles = a->tiles;
	args->decodes = a->decodes;
	args->layer_k_offset = a->layer_k_offset;
	args->head_bytes = a->head_bytes;
	args->heads = a->heads;
	args->kv_heads = a->kv_heads;
	args->gqa = a->heads / a->kv_heads;
	args->page_tokens = a->page_tokens;
	args->window = a->window;
	args->tile_rows = cuda_attn_tile_rows(args->gqa);
	args->scale_log2 = a->scale * 1.44269504088896340736f;
	return true;
}

/* The rows of a block: packed rows packed0 .. of (sequence, kv head). */
struct attn_rows {
	uint32_t row0; /* of q and out: the token of packed row 0 */
	uint32_t pos0; /* its position */
	uint32_t page0;
	uint32_t kv_head;
	uint32_t packed0;
	uint32_t count;
	uint32_t stored; /* tokens of the sequence whose K and V are there */
};

KV_DEVICE uint32_t attn_row_pos(const attn_args &a, const attn_rows &rows, uint32_t r)
{
	return rows.pos0 + (rows.packed0 + r) / a.gqa;
}

/* The first token that one at `pos` sees. */
KV_DEVICE uint32_t attn_first_key(const attn_args &a, uint32_t pos)
{
	return a.window && pos + 1 > a.window ? pos + 1 - a.window : 0;
}

KV_DEVICE size_t attn_row_offset(const attn_args &a, const attn_rows &rows, uint32_t r,
				 uint32_t head_dim)
{
	uint32_t packed = rows.packed0 + r;
	size_t token = rows.row0 + packed / a.gqa;

	return (token * a.heads + rows.kv_head * a.gqa + packed % a.gqa) * head_dim;
}

/* Byte offset of a 16-byte piece of a row in a swizzled tile of `rows` rows. */
KV_DEVICE uint32_t attn_piece(uint32_t rows, uint32_t row, uint32_t piece)
{
	return (piece / 8 * rows + row) * ATTN_LINE_BYTES + ((piece % 8) ^ (row % 8)) * 16;
}

/*
 * The packed rows of prefill tile `tile` that block z of the grid takes, `rows_max` at most; false:
 * there are none.
 */
KV_DEVICE bool attn_tile_rows(const attn_args &a, uint32_t tile, uint32_t kv_head, uint32_t z,
			      uint32_t rows_max, attn_rows &rows)
{
	cuda_tile t = a.tiles[tile];

	if (t.seq == CUDA_NONE)
		return false;
	cuda_seq seq = a.seqs[t.seq];
	if (t.first_row >= seq.rows)
		return false;
	uint32_t packed = min(seq.rows - t.first_row, a.tile_rows) * a.gqa;
	rows.row0 = seq.row0 + t.first_row;
	rows.pos0 = seq.pos0 + t.first_row;
	rows.page0 = seq.page0;
	rows.stored = seq.pos0 + seq.rows;
	rows.kv_head = kv_head;
	rows.packed0 = z * rows_max;
	if (rows.packed0 >= packed)
		return false;
	rows.count = min(packed - rows.packed0, rows_max);
	return true;
}

/* The keys that some rows see. */
struct attn_span {
	uint32_t first; /* [first, end): what any of them sees; empty where no row is */
	uint32_t end;
	uint32_t all_first; /* [all_first, all_end): what every one of them sees */
	uint32_t all_end;
};

KV_DEVICE attn_span attn_span_of(const attn_args &a, const attn_rows &rows, uint32_t row,
				 uint32_t count)
{
	attn_span s = {0, 0, 0, 0};

	if (row >= rows.count)
		return s;
	uint32_t first = attn_row_pos(a, rows, row);
	uint32_t last = attn_row_pos(a, rows, min(row + count, rows.count) - 1);

	s.first = attn_first_key(a, first);
	s.end = last + 1;
	s.all_first = attn_first_key(a, last);
	s.all_end = first + 1;
	return s;
}

KV_DEVICE bool attn_span_touches(const attn_span &s, uint32_t base)
{
	return base < s.end && base + CUDA_ATTN_KEYS > s.first;
}

KV_DEVICE bool attn_span_holds(const attn_span &s, uint32_t base)
{
	return base >= s.all_first && base + CUDA_ATTN_KEYS <= s.all_end;
}

/* The keys [lo, hi) of each of the lane's rows; of rows that are not there, none. */
template <int BLOCKS> struct attn_view {
	uint32_t lo[BLOCKS][2]; /* of rows lane / 4 and that + 8 */
	uint32_t hi[BLOCKS][2];
};

template <int BLOCKS>
KV_DEVICE void attn_view_init(attn_view<BLOCKS> &v, const attn_args &a, const attn_rows &rows,
			      uint32_t row)
{
	ATTN_UNROLL
	for (int i = 0; i < 2 * BLOCKS; i++) {
		uint32_t r = row + threadIdx.x % KV_WARP / 4 + 8 * i;
		bool valid = r < rows.count;

		v.lo[i / 2][i % 2] = valid ? attn_first_key(a, attn_row_pos(a, rows, r)) : 0;
		v.hi[i / 2][i % 2] = valid ? attn_row_pos(a, rows, r) + 1 : 0;
		if (KVD_MUTANT(attn_causal_by_tile) && valid)
			v.hi[i / 2][i % 2] =
				rows.pos0 + (rows.packed0 + rows.count - 1) / a.gqa + 1;
	}
}

/* Begins the copy of the block's rows of q; rows that are not there become zeros. */
template <class S>
KV_DEVICE void attn_load_q(const attn_args &a, const attn_rows &rows, unsigned char *smem)
{
	constexpr uint32_t pieces = S::head_dim / 8;

	for (uint32_t i = threadIdx.x; i < S::rows * pieces; i += S::threads) {
		uint32_t r = i / pieces;
		bool valid = r < rows.count;
		size_t at = valid ? attn_row_offset(a, rows, r, S::head_dim) + i % pieces * 8 : 0;

		kv_cp_async16(smem + attn_piece(S::rows, r, i % pieces), a.q + at, valid);
	}
}

/* Address of K of the 16 keys at `pos`, or 0 where none of [lo, hi) is among them. */
KV_DEVICE uint64_t attn_step_address(const attn_args &a, const attn_rows &rows, uint32_t pos,
				     uint32_t lo, uint32_t hi, uint32_t head_dim)
{
	if (pos >= hi || pos + CUDA_ATTN_PAGE_STEP <= lo)
		return 0;
	return a.pages[rows.page0 + pos / a.page_tokens] + a.layer_k_offset +
	       rows.kv_head * a.head_bytes + pos % a.page_tokens * head_dim * 2;
}

/* One warp: the addresses of a split's steps of 16 keys. The table holds two splits. */
KV_DEVICE void attn_fill_table(const attn_args &a, const attn_rows &rows, uint64_t *table,
			       uint32_t split, uint32_t lo, uint32_t hi, uint32_t head_dim)
{
	uint32_t lane = threadIdx.x % KV_WARP;

	table[split % 2 * ATTN_SPLIT_STEPS + lane] = attn_step_address(
		a, rows, split * CUDA_ATTN_SPLIT + lane * CUDA_ATTN_PAGE_STEP, lo, hi, head_dim);
}

/*
 * Begins the copy of key tile `tile`, K and V behind each other. Keys outside of [lo, hi) become
 * zeros: their weights are 0, but what lies there may be a NaN, or a page no longer ours.
 */
template <class S>
KV_DEVICE void attn_load_tile(const attn_args &a, const uint64_t *table, unsigned char *smem,
			      uint32_t tile, uint32_t lo, uint32_t hi)
{
	constexpr uint32_t pieces = S::head_dim / 8;
	constexpr uint32_t steps = CUDA_ATTN_KEYS / CUDA_ATTN_PAGE_STEP;
	const uint64_t *addresses = table + tile % (2 * ATTN_SPLIT_TILES) * steps;
	uint64_t v_offset = a.kv_heads * a.head_bytes;

	ATTN_UNROLL_TWICE
	for (uint32_t i = 0; i < CUDA_ATTN_KEYS * pieces / S::threads; i++) {
		uint32_t at = threadIdx.x + i * S::threads;
		uint32_t key = at / pieces;
		uint32_t pos = tile * CUDA_ATTN_KEYS + key;
		bool valid = pos >= lo && pos < hi;
		uint64_t from =
			valid ? addresses[key / CUDA_ATTN_PAGE_STEP] +
					(key % CUDA_ATTN_PAGE_STEP * pieces + at % pieces) * 16
			      : reinterpret_cast<uint64_t>(a.q);
		unsigned char *to = smem + attn_piece(CUDA_ATTN_KEYS, key, at % pieces);

		kv_cp_async16(to, reinterpret_cast<const void *>(from), valid);
		kv_cp_async16(to + S::tile_bytes,
			      reinterpret_cast<const void *>(valid ? from + v_offset : from),
			      valid);
	}
}

#endif
