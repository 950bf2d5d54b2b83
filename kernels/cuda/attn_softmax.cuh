/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The softmax of attention, on fragments of 16 rows as mma.m16n8k16 and wgmma leave them: a lane
 * has columns 2 (lane % 4) and the next of each 8, of rows lane / 4 and that + 8. All that decides
 * a bit beside the products themselves is here, once for every kernel:
 *
 *   per lane and tile:  group g of 16 keys: s[g] = (p0 + p1) + (p8 + p9), the lane's columns
 *                       l = l * alpha + ((s[0] + s[1]) + (s[2] + s[3]))
 *   at a split's end:   l over the four lanes of the row; fold (attn_fold_weights)
 *
 * A tile that a row does not see leaves the row's state as it is (weights 0, alpha 1), so that rows
 * may share a block with others that do see it; -0 alone could become +0 by it, and attn_output
 * makes all zeros +0.
 */
#ifndef KERNELS_CUDA_ATTN_SOFTMAX_CUH
#define KERNELS_CUDA_ATTN_SOFTMAX_CUH

#include "kernels/cuda/attn_rows.cuh"

#include <math.h>

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

			*reinterpret_cast<uint32_t *>(out + 8 * i) = kv_halfx2(
				attn_output(o[0], inverse), attn_output(o[1], inverse), a.fp16);
		}
	}
}

#endif
