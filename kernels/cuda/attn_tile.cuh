/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inner loop that prefill and decode share: one block's packed rows against a range of key
 * tiles (attn.h says what is packed and how keys are divided).
 *
 * A row group is 16 or 32 packed rows. One warp may own it, or `across` warps together: these
 * divide the keys of a tile for the scores and the dimensions for the output, and meet twice a tile
 * in shared memory. Neither changes a bit: a score is summed over the head's dimensions by one
 * warp, a maximum has no order, the sum of the weights has one fixed tree, an output element is one
 * warp's.
 *
 *   per thread and tile:  group g of 16 keys: s[g] = (p0 + p1) + (p8 + p9), the thread's columns
 *                         l = l * alpha + ((s[0] + s[1]) + (s[2] + s[3]))
 *   at a split's end:     l over the four lanes of the row; fold (attn_fold_weights)
 *
 * A tile that a row does not see leaves the row's state as it is (weights 0, alpha 1), so that rows
 * may share a block with others that do see it; -0 alone could become +0 by it, and attn_output
 * makes all zeros +0.
 *
 * Shared memory holds K, V and Q as columns of 64 dimensions: [dims / 64][row][128 bytes], the
 * eight 16-byte pieces of a line exchanged by the row's low three bits. So eight lines of ldmatrix
 * meet no bank twice, and the same bytes are what wgmma calls the 128-byte swizzle.
 */
#ifndef KERNELS_CUDA_ATTN_TILE_CUH
#define KERNELS_CUDA_ATTN_TILE_CUH

#include "kernels/cuda/attn.h"
#include "kernels/cuda/common.cuh"

#include <math.h>

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
	float scale_log2; /* scale * log2(e) */
};

static inline bool attn_args_init(struct attn_args *args, const struct cuda_attention *a)
{
	*args = attn_args();
	if (!a->kv_heads || a->heads % a->kv_heads || a->heads / a->kv_heads > CUDA_ATTN_GQA_MAX ||
	    !a->page_tokens || a->page_tokens % CUDA_ATTN_PAGE_STEP || !(a->scale > 0))
		return false;
	args->q = a->q;
	args->out = a->out;
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

/* How a block is built. */
template <int HEAD_DIM, int ROW_GROUPS, int BLOCKS, int ACROSS, int STAGES,
	  bool TOTAL_IN_SMEM = false>
struct attn_shape {
	static_assert(ACROSS == 1 || BLOCKS == 1, "warps meet over 16 rows");
	static constexpr int head_dim = HEAD_DIM;
	static constexpr int row_groups = ROW_GROUPS;
	static constexpr int across = ACROSS;
	static constexpr int stages = STAGES;
	static constexpr bool total_in_smem = TOTAL_IN_SMEM;
	static constexpr int blocks = BLOCKS; /* of 16 rows, a row group */
	static constexpr int group_rows = BLOCKS * 16;
	static constexpr int rows = ROW_GROUPS * group_rows;
	static constexpr int threads = ROW_GROUPS * ACROSS * 32;
	static constexpr int key_tiles = 64 / ACROSS / 8;	/* of 8 keys, a warp's scores */
	static constexpr int dim_tiles = HEAD_DIM / ACROSS / 8; /* of 8, a warp's output */
	static constexpr uint32_t tile_bytes = 64 * HEAD_DIM * 2;
	/* Of a row group: weights [16][64] bf16, sums [across][16][4], maxima [across][16]. */
	static constexpr uint32_t weights_bytes = 16 * ATTN_LINE_BYTES;
	static constexpr uint32_t sums_bytes = ACROSS * 16 * 4 * 4;
	static constexpr uint32_t meet_bytes = weights_bytes + sums_bytes + ACROSS * 16 * 4;
	static constexpr uint32_t q_bytes = rows * HEAD_DIM * 2;
	static constexpr uint32_t all_meet_bytes = ACROSS > 1 ? ROW_GROUPS *meet_bytes : 0;
	static constexpr uint32_t q_offset = STAGES * 2 * tile_bytes;
	static constexpr uint32_t table_offset =
		q_offset + (q_bytes > all_meet_bytes ? q_bytes : all_meet_bytes);
	static constexpr uint32_t total_offset = table_offset + ATTN_TABLE_BYTES;
	static constexpr uint32_t smem_bytes =
		total_offset + (TOTAL_IN_SMEM ? threads * BLOCKS * dim_tiles * 16 : 0);
};

/* The rows of a block: packed rows packed0 .. of (sequence, kv head). */
struct attn_rows {
	uint32_t row0; /* of q and out: the token of packed row 0 */
	uint32_t pos0; /* its position */
	uint32_t page0;
	uint32_t kv_head;
	uint32_t packed0;
	uint32_t count;
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

/* The state of 16 rows' softmax in one warp: the lane has rows lane / 4 and that + 8. */
template <int DIM_TILES> struct attn_state {
	float o[DIM_TILES][4];
	float m[2]; /* maximum of score * scale * log2(e) */
	float l[2]; /* within a split the lane's share; in a total the row's */
};

template <int DIM_TILES> KV_DEVICE void attn_reset(attn_state<DIM_TILES> &s)
{
	ATTN_UNROLL
	for (int i = 0; i < DIM_TILES; i++)
		s.o[i][0] = s.o[i][1] = s.o[i][2] = s.o[i][3] = 0;
	s.m[0] = s.m[1] = -INFINITY;
	s.l[0] = s.l[1] = 0;
}

/* What the exponents of a row are taken against: 0 while it has seen no key. */
KV_DEVICE float attn_origin(float m)
{
	return m == -INFINITY ? 0 : m;
}

/* The fold of a split's (ms, ls, os) into a total's: m, and the factors of either's l and o. */
KV_DEVICE float attn_fold_weights(float mt, float ms, float *wt, float *ws)
{
	float m = fmaxf(mt, ms);

	*wt = kv_exp2(mt - attn_origin(m));
	*ws = kv_exp2(ms - attn_origin(m));
	return m;
}

KV_DEVICE float attn_fold_value(float t, float s, float wt, float ws)
{
	return kv_fma(t, wt, __fmul_rn(s, ws));
}

/* An output element of a row whose weights' inverse sum is given. */
KV_DEVICE float attn_output(float o, float inverse)
{
	return kv_fma(o, inverse, 0.0f);
}

/* The fold of the splits so far; where registers are short its o lies in shared memory. */
template <class S> struct attn_total {
	float m[2];
	float l[2];
	float o[S::total_in_smem ? 1 : S::dim_tiles][4];
};

template <class S> KV_DEVICE void attn_total_reset(attn_total<S> &t)
{
	t.m[0] = t.m[1] = -INFINITY;
	t.l[0] = t.l[1] = 0;
	if constexpr (!S::total_in_smem) {
		ATTN_UNROLL
		for (int i = 0; i < S::dim_tiles; i++)
			t.o[i][0] = t.o[i][1] = t.o[i][2] = t.o[i][3] = 0;
	}
}

/* Folds a split in, the first and the last of its block told; after the last `split` is the total.
 */
template <class S>
KV_DEVICE void attn_fold(attn_total<S> &total, attn_state<S::dim_tiles> &split, float4 *kept,
			 bool first, bool last)
{
	float wt[2], ws[2];

	ATTN_UNROLL
	for (int h = 0; h < 2; h++) {
		total.m[h] = attn_fold_weights(total.m[h], split.m[h], &wt[h], &ws[h]);
		total.l[h] = attn_fold_value(total.l[h], split.l[h], wt[h], ws[h]);
		split.m[h] = total.m[h];
		split.l[h] = total.l[h];
	}
	ATTN_UNROLL
	for (int i = 0; i < S::dim_tiles; i++) {
		float *o = split.o[i];

		if constexpr (S::total_in_smem) {
			float4 t = first ? make_float4(0, 0, 0, 0) : kept[i * S::threads];

			o[0] = attn_fold_value(t.x, o[0], wt[0], ws[0]);
			o[1] = attn_fold_value(t.y, o[1], wt[0], ws[0]);
			o[2] = attn_fold_value(t.z, o[2], wt[1], ws[1]);
			o[3] = attn_fold_value(t.w, o[3], wt[1], ws[1]);
			if (!last)
				kept[i * S::threads] = make_float4(o[0], o[1], o[2], o[3]);
		} else {
			ATTN_UNROLL
			for (int e = 0; e < 4; e++)
				total.o[i][e] =
					attn_fold_value(total.o[i][e], o[e], wt[e / 2], ws[e / 2]);
		}
	}
}

/* The register form's last step of a block. */
template <class S>
KV_DEVICE void attn_total_take(attn_state<S::dim_tiles> &state, const attn_total<S> &total)
{
	if constexpr (!S::total_in_smem) {
		ATTN_UNROLL
		for (int i = 0; i < S::dim_tiles; i++) {
			ATTN_UNROLL
			for (int e = 0; e < 4; e++)
				state.o[i][e] = total.o[i][e];
		}
	}
}

/* Ends a split: l becomes the row's, the same bits in its four lanes. */
KV_DEVICE void attn_sum_lanes(float l[2])
{
	ATTN_UNROLL
	for (int h = 0; h < 2; h++) {
		l[h] += __shfl_xor_sync(KV_FULL_MASK, l[h], 1);
		l[h] += __shfl_xor_sync(KV_FULL_MASK, l[h], 2);
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

/* The fragments of 16 rows from a swizzled tile of `tile_rows`: an A operand, dimensions 16 k ...
 */
KV_DEVICE void attn_row_fragment(uint32_t out[4], const unsigned char *tile, uint32_t tile_rows,
				 uint32_t row, uint32_t k)
{
	uint32_t lane = threadIdx.x % KV_WARP;

	kv_ldmatrix_x4(out, tile + attn_piece(tile_rows, row + lane % 16, 2 * k + lane / 16));
}

/* Scores of the warp's keys: s[b][n] holds keys key0 + 8 n .. of the tile for the block's rows. */
template <class S>
KV_DEVICE void attn_scores(float (*s)[S::key_tiles][4], const uint32_t (*q)[S::head_dim / 16][4],
			   const unsigned char *k_tile, uint32_t key0)
{
	uint32_t lane = threadIdx.x % KV_WARP;
	uint32_t key = key0 + lane / 16 * 8 + lane % 8;

	ATTN_UNROLL
	for (int b = 0; b < S::blocks; b++) {
		ATTN_UNROLL
		for (int n = 0; n < S::key_tiles; n++)
			s[b][n][0] = s[b][n][1] = s[b][n][2] = s[b][n][3] = 0;
	}
	ATTN_UNROLL
	for (int k = 0; k < S::head_dim / 16; k++) {
		ATTN_UNROLL
		for (int n = 0; n < S::key_tiles; n += 2) {
			uint32_t f[4];

			kv_ldmatrix_x4(f, k_tile + attn_piece(CUDA_ATTN_KEYS, key + 8 * n,
							      2 * k + lane / 8 % 2));
			ATTN_UNROLL
			for (int b = 0; b < S::blocks; b++) {
				kv_mma_bf16(s[b][n], q[b][k], f);
				kv_mma_bf16(s[b][n + 1], q[b][k], f + 2);
			}
		}
	}
}

/* o += weights * V for the warp's dimensions; w[b][k] is the A operand of keys 16 k ... */
template <class S>
KV_DEVICE void attn_values(attn_state<S::dim_tiles> *state, const uint32_t (*w)[4][4],
			   const unsigned char *v_tile, uint32_t dim0)
{
	uint32_t lane = threadIdx.x % KV_WARP;

	ATTN_UNROLL
	for (int k = 0; k < 4; k++) {
		ATTN_UNROLL
		for (int n = 0; n < S::dim_tiles; n += 2) {
			uint32_t f[4];

			kv_ldmatrix_x4_trans(f,
					     v_tile + attn_piece(CUDA_ATTN_KEYS, 16 * k + lane % 16,
								 dim0 / 8 + n + lane / 16));
			ATTN_UNROLL
			for (int b = 0; b < S::blocks; b++) {
				kv_mma_bf16(state[b].o[n], w[b][k], f);
				kv_mma_bf16(state[b].o[n + 1], w[b][k], f + 2);
			}
		}
	}
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
	}
}

/* Scores of keys that a row does not see become -inf; `base` is s[0]'s first key. */
template <int KEY_TILES>
KV_DEVICE void attn_mask(float (*s)[4], const uint32_t lo[2], const uint32_t hi[2], uint32_t base)
{
	uint32_t column = base + 2 * (threadIdx.x % 4);

	ATTN_UNROLL
	for (int n = 0; n < KEY_TILES; n++) {
		ATTN_UNROLL
		for (int e = 0; e < 4; e++) {
			uint32_t key = column + 8 * n + e % 2;

			if (key < lo[e / 2] || key >= hi[e / 2])
				s[n][e] = -INFINITY;
		}
	}
}

/* The largest scores of the lane's rows, over the warp's keys. */
template <int KEY_TILES> KV_DEVICE void attn_row_max(float max[2], const float (*s)[4])
{
	ATTN_UNROLL
	for (int h = 0; h < 2; h++) {
		max[h] = fmaxf(s[0][2 * h], s[0][2 * h + 1]);
		ATTN_UNROLL
		for (int n = 1; n < KEY_TILES; n++)
			max[h] = fmaxf(max[h], fmaxf(s[n][2 * h], s[n][2 * h + 1]));
		max[h] = fmaxf(max[h], __shfl_xor_sync(KV_FULL_MASK, max[h], 1));
		max[h] = fmaxf(max[h], __shfl_xor_sync(KV_FULL_MASK, max[h], 2));
	}
}

/* Takes a tile's maximum into the state; alpha is what the state so far is worth. */
KV_DEVICE void attn_raise(float m[2], float alpha[2], const float max[2], float scale_log2)
{
	ATTN_UNROLL
	for (int h = 0; h < 2; h++) {
		float raised = fmaxf(m[h], max[h] * scale_log2);

		alpha[h] = kv_exp2(m[h] - attn_origin(raised));
		m[h] = raised;
	}
}

/* Scores become weights. */
template <int KEY_TILES>
KV_DEVICE void attn_weights(float (*s)[4], const float m[2], float scale_log2)
{
	ATTN_UNROLL
	for (int n = 0; n < KEY_TILES; n++) {
		ATTN_UNROLL
		for (int e = 0; e < 4; e++)
			s[n][e] = kv_exp2(kv_fma(s[n][e], scale_log2, -attn_origin(m[e / 2])));
	}
}

/* The lane's share of row half h, over the warp's keys: the lower levels of the sum's tree. */
template <int KEY_TILES> KV_DEVICE float attn_lane_sum(const float (*s)[4], int h)
{
	float sum[KEY_TILES / 2];

	ATTN_UNROLL
	for (int g = 0; g < KEY_TILES / 2; g++)
		sum[g] = (s[2 * g][2 * h] + s[2 * g][2 * h + 1]) +
			 (s[2 * g + 1][2 * h] + s[2 * g + 1][2 * h + 1]);
	if constexpr (KEY_TILES == 8)
		return (sum[0] + sum[1]) + (sum[KEY_TILES / 2 - 2] + sum[KEY_TILES / 2 - 1]);
	return KEY_TILES == 4 ? sum[0] + sum[KEY_TILES / 2 - 1] : sum[0];
}

/* Weights of 16 keys as an A operand. */
KV_DEVICE void attn_pack(uint32_t w[4], const float (*s)[4])
{
	w[0] = kv_bf16x2(s[0][0], s[0][1]);
	w[1] = kv_bf16x2(s[0][2], s[0][3]);
	w[2] = kv_bf16x2(s[1][0], s[1][1]);
	w[3] = kv_bf16x2(s[1][2], s[1][3]);
}

template <int DIM_TILES> KV_DEVICE void attn_rescale(float (*o)[4], const float alpha[2])
{
	/* Once the maxima have settled all factors are 1, which changes no bit. */
	if (!__any_sync(KV_FULL_MASK, alpha[0] != 1.0f || alpha[1] != 1.0f))
		return;
	ATTN_UNROLL
	for (int i = 0; i < DIM_TILES; i++) {
		ATTN_UNROLL
		for (int e = 0; e < 4; e++)
			o[i][e] *= alpha[e / 2];
	}
}

/* Where the warps of a row group meet. */
template <class S> struct attn_meeting {
	unsigned char *weights;
	float *sums;   /* [across][16][4] */
	float *maxima; /* [across][16] */
	uint32_t member;
	uint32_t barrier;
};

template <class S>
KV_DEVICE attn_meeting<S> attn_meeting_of(unsigned char *smem, uint32_t group, uint32_t member)
{
	attn_meeting<S> m;

	m.weights = smem + group * S::meet_bytes;
	m.sums = reinterpret_cast<float *>(m.weights + S::weights_bytes);
	m.maxima = reinterpret_cast<float *>(m.weights + S::weights_bytes + S::sums_bytes);
	m.member = member;
	m.barrier = 1 + group;
	return m;
}

template <class S> KV_DEVICE void attn_meet_max(const attn_meeting<S> &meet, float max[2])
{
	uint32_t lane = threadIdx.x % KV_WARP;

	if (lane % 4 == 0) {
		meet.maxima[meet.member * 16 + lane / 4] = max[0];
		meet.maxima[meet.member * 16 + lane / 4 + 8] = max[1];
	}
	kv_barrier(meet.barrier, S::across * KV_WARP);
	ATTN_UNROLL
	for (int w = 0; w < S::across; w++) {
		max[0] = fmaxf(max[0], meet.maxima[w * 16 + lane / 4]);
		max[1] = fmaxf(max[1], meet.maxima[w * 16 + lane / 4 + 8]);
	}
}

/* Gives the warp's weights and sums to the others; w and sum become the tile's. */
template <class S>
KV_DEVICE void attn_meet_weights(const attn_meeting<S> &meet, const float (*s)[4], uint32_t (*w)[4],
				 float sum[2])
{
	uint32_t lane = threadIdx.x % KV_WARP;

	ATTN_UNROLL
	for (int h = 0; h < 2; h++) {
		uint32_t row = lane / 4 + 8 * h;

		meet.sums[meet.member * 64 + row * 4 + lane % 4] = sum[h];
		ATTN_UNROLL
		for (int n = 0; n < S::key_tiles; n++) {
			unsigned char *to = meet.weights +
					    attn_piece(16, row, meet.member * S::key_tiles + n) +
					    lane % 4 * 4;

			*reinterpret_cast<uint32_t *>(to) = kv_bf16x2(s[n][2 * h], s[n][2 * h + 1]);
		}
	}
	kv_barrier(meet.barrier, S::across * KV_WARP);
	ATTN_UNROLL
	for (int h = 0; h < 2; h++) {
		const float *at = meet.sums + (lane / 4 + 8 * h) * 4 + lane % 4;

		sum[h] = at[0] + at[64];
		if constexpr (S::across == 4)
			sum[h] += at[64 * (S::across - 2)] + at[64 * (S::across - 1)];
	}
	ATTN_UNROLL
	for (int k = 0; k < 4; k++)
		attn_row_fragment(w[k], meet.weights, 16, 0, k);
}

/* Scores of 16 rows become weights `w` (A operands) and enter the state, all but its values. */
template <class S>
KV_DEVICE void attn_soften(attn_state<S::dim_tiles> &state, float (*s)[4], uint32_t (*w)[4],
			   const attn_meeting<S> &meet, float scale_log2)
{
	float max[2], alpha[2], sum[2];

	attn_row_max<S::key_tiles>(max, s);
	if constexpr (S::across > 1)
		attn_meet_max<S>(meet, max);
	attn_raise(state.m, alpha, max, scale_log2);
	attn_weights<S::key_tiles>(s, state.m, scale_log2);
	sum[0] = attn_lane_sum<S::key_tiles>(s, 0);
	sum[1] = attn_lane_sum<S::key_tiles>(s, 1);
	if constexpr (S::across > 1) {
		attn_meet_weights<S>(meet, s, w, sum);
	} else {
		ATTN_UNROLL
		for (int k = 0; k < 4; k++)
			attn_pack(w[k], s + 2 * k);
	}
	state.l[0] = kv_fma(state.l[0], alpha[0], sum[0]);
	state.l[1] = kv_fma(state.l[1], alpha[1], sum[1]);
	attn_rescale<S::dim_tiles>(state.o, alpha);
}

/* One key tile: scores, softmax, values. */
template <class S>
KV_DEVICE void attn_take_tile(attn_state<S::dim_tiles> *state,
			      const uint32_t (*q)[S::head_dim / 16][4], const unsigned char *k_tile,
			      const attn_view<S::blocks> &view, uint32_t base, bool masked,
			      const attn_meeting<S> &meet, float scale_log2)
{
	uint32_t key0 = meet.member * S::key_tiles * 8;
	float s[S::blocks][S::key_tiles][4];
	uint32_t w[S::blocks][4][4];

	attn_scores<S>(s, q, k_tile, key0);
	ATTN_UNROLL
	for (int b = 0; b < S::blocks; b++) {
		if (masked)
			attn_mask<S::key_tiles>(s[b], view.lo[b], view.hi[b], base + key0);
		attn_soften<S>(state[b], s[b], w[b], meet, scale_log2);
	}
	attn_values<S>(state, w, k_tile + S::tile_bytes, meet.member * S::dim_tiles * 8);
}

/* Ends a split in a block that has several: `state` is folded into `total`, and starts anew. */
template <class S>
KV_DEVICE void attn_end_split(attn_total<S> *total, attn_state<S::dim_tiles> *state, float4 *kept,
			      bool first, bool last)
{
	ATTN_UNROLL
	for (int b = 0; b < S::blocks; b++) {
		attn_fold(total[b], state[b], kept + b * S::dim_tiles * S::threads, first, last);
		if (!last)
			attn_reset(state[b]);
	}
}

/*
 * The block's rows against keys [lo, hi), which hold all that its rows see there. FOLD: `state` is
 * the fold of all splits. Otherwise the keys lie in one split, whose state it is.
 */
template <class S, bool FOLD>
KV_DEVICE void attn_run(const attn_args &a, const attn_rows &rows, uint32_t lo, uint32_t hi,
			unsigned char *smem, attn_state<S::dim_tiles> *state)
{
	uint64_t *table = reinterpret_cast<uint64_t *>(smem + S::table_offset);
	uint32_t warp = threadIdx.x / KV_WARP;
	uint32_t row = warp / S::across * S::group_rows;
	uint32_t first = lo / CUDA_ATTN_KEYS;
	uint32_t end = (hi + CUDA_ATTN_KEYS - 1) / CUDA_ATTN_KEYS;
	attn_view<S::blocks> view;
	attn_span span = attn_span_of(a, rows, row, S::group_rows);
	attn_meeting<S> meet =
		attn_meeting_of<S>(smem + S::q_offset, warp / S::across, warp % S::across);
	float4 *kept = reinterpret_cast<float4 *>(smem + S::total_offset) + threadIdx.x;
	attn_total<S> total[S::blocks];
	uint32_t q[S::blocks][S::head_dim / 16][4];

	attn_view_init(view, a, rows, row);
	ATTN_UNROLL
	for (int b = 0; b < S::blocks; b++) {
		attn_reset(state[b]);
		attn_total_reset(total[b]);
	}
	if (warp < 2)
		attn_fill_table(a, rows, table, first / ATTN_SPLIT_TILES + warp, lo, hi,
				S::head_dim);
	__syncthreads();
	attn_load_q<S>(a, rows, smem + S::q_offset);
	for (uint32_t i = 0; i + 1 < S::stages; i++) {
		if (first + i < end)
			attn_load_tile<S>(a, table, smem + i * 2 * S::tile_bytes, first + i, lo,
					  hi);
		kv_cp_commit();
	}
	kv_cp_wait<S::stages - 2>();
	__syncthreads();
	ATTN_UNROLL
	for (int b = 0; b < S::blocks; b++) {
		ATTN_UNROLL
		for (int k = 0; k < S::head_dim / 16; k++)
			attn_row_fragment(q[b][k], smem + S::q_offset, S::rows, row + 16 * b, k);
	}
	for (uint32_t tile = first; tile < end; tile++) {
		uint32_t next = tile + S::stages - 1;
		uint32_t base = tile * CUDA_ATTN_KEYS;

		/* The tile is here; and all have done with the one whose place `next` takes. */
		kv_cp_wait<S::stages - 2>();
		__syncthreads();
		if (next < end)
			attn_load_tile<S>(a, table,
					  smem + (next - first) % S::stages * 2 * S::tile_bytes,
					  next, lo, hi);
		kv_cp_commit();
		if (FOLD && warp == 0 && tile != first && tile % ATTN_SPLIT_TILES == 0)
			attn_fill_table(a, rows, table, tile / ATTN_SPLIT_TILES + 1, lo, hi,
					S::head_dim);
		if (attn_span_touches(span, base))
			attn_take_tile<S>(
				state, q, smem + (tile - first) % S::stages * 2 * S::tile_bytes,
				view, base, !attn_span_holds(span, base), meet, a.scale_log2);
		if (tile + 1 == end || (FOLD && (tile + 1) % ATTN_SPLIT_TILES == 0)) {
			ATTN_UNROLL
			for (int b = 0; b < S::blocks; b++)
				attn_sum_lanes(state[b].l);
			if constexpr (FOLD)
				attn_end_split<S>(total, state, kept,
						  tile / ATTN_SPLIT_TILES ==
							  first / ATTN_SPLIT_TILES,
						  tile + 1 == end);
		}
	}
	if constexpr (FOLD) {
		ATTN_UNROLL
		for (int b = 0; b < S::blocks; b++)
			attn_total_take(state[b], total[b]);
	}
}

/* Writes the rows that are there, of the warp's from `row` on: its dimensions from dim0 on. */
template <class S>
KV_DEVICE void attn_store(const attn_args &a, const attn_rows &rows,
			  const attn_state<S::dim_tiles> *state, uint32_t row, uint32_t dim0)
{
	uint32_t lane = threadIdx.x % KV_WARP;

	ATTN_UNROLL
	for (int h = 0; h < 2 * S::blocks; h++) {
		uint32_t r = row + lane / 4 + 8 * h;
		const attn_state<S::dim_tiles> &s = state[h / 2];
		float inverse = 1.0f / s.l[h % 2];
		uint16_t *out;

		if (r >= rows.count)
			continue;
		out = a.out + attn_row_offset(a, rows, r, S::head_dim) + dim0 + 2 * (lane % 4);
		ATTN_UNROLL
		for (int i = 0; i < S::dim_tiles; i++) {
			const float *o = s.o[i] + h % 2 * 2;

			*reinterpret_cast<uint32_t *>(out + 8 * i) =
				kv_bf16x2(attn_output(o[0], inverse), attn_output(o[1], inverse));
		}
	}
}

/* The first of the warp's rows and dimensions in a block that attn_run() ran. */
template <class S> KV_DEVICE uint32_t attn_warp_row()
{
	return threadIdx.x / KV_WARP / S::across * S::group_rows;
}

template <class S> KV_DEVICE uint32_t attn_warp_dim()
{
	return threadIdx.x / KV_WARP % S::across * S::dim_tiles * 8;
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
	rows.kv_head = kv_head;
	rows.packed0 = z * rows_max;
	if (rows.packed0 >= packed)
		return false;
	rows.count = min(packed - rows.packed0, rows_max);
	return true;
}

#endif
