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
 */
#ifndef KERNELS_CUDA_ATTN_TILE_CUH
#define KERNELS_CUDA_ATTN_TILE_CUH

#include "kernels/cuda/attn_softmax.cuh"

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
		if (!KVD_MUTANT(attn_no_wait))
			kv_cp_wait<S::stages - 2>();
		if (!KVD_MUTANT(attn_no_barrier))
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

/* The first of the warp's rows and dimensions in a block that attn_run() ran. */
template <class S> KV_DEVICE uint32_t attn_warp_row()
{
	return threadIdx.x / KV_WARP / S::across * S::group_rows;
}

template <class S> KV_DEVICE uint32_t attn_warp_dim()
{
	return threadIdx.x / KV_WARP % S::across * S::dim_tiles * 8;
}

#endif
