/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention of sequences with one row or few: a block takes 16 packed rows of (sequence, kv head)
 * and one split of its keys, with four warps; a second kernel folds the splits' results in
 * ascending order. K and V are read once for each kv head as long as its packed rows are at
 * most 16. Where a sequence has but one split its block writes the output at once.
 *
 * Partial results carry the maximum, the sum and the unscaled output of each row in fp32.
 */
#include "kernels/cuda/attn_tile.cuh"

#define SLOTS_STEP 16u
#define MERGE_WARPS 4u

typedef attn_shape<64, 1, 1, 4, 4> decode_64;
typedef attn_shape<128, 1, 1, 4, 2> decode_128;
typedef attn_shape<256, 1, 1, 4, 2> decode_256;

/* Packed rows of a (sequence, kv head) for which there is room. */
static inline uint32_t decode_slots(uint32_t gqa)
{
	return (gqa + SLOTS_STEP - 1) / SLOTS_STEP * SLOTS_STEP;
}

/* The splits that hold what a sequence's rows see: `first` .. `first` + `count` - 1. */
struct decode_span {
	uint32_t first;
	uint32_t count;
};

KV_DEVICE decode_span decode_span_of(const attn_args &a, const cuda_seq &seq)
{
	decode_span s;

	s.first = attn_first_key(a, seq.pos0) / CUDA_ATTN_SPLIT;
	s.count = (seq.pos0 + seq.rows - 1) / CUDA_ATTN_SPLIT - s.first + 1;
	return s;
}

/* Index of a row's partial result. */
KV_DEVICE size_t decode_partial(const attn_args &a, uint32_t decode, uint32_t kv_head,
				uint32_t splits, uint32_t split, uint32_t slots, uint32_t packed)
{
	size_t part = (static_cast<size_t>(decode) * a.kv_heads + kv_head) * splits + split;

	return part * slots + packed;
}

template <class S>
KV_DEVICE void decode_store(const attn_args &a, const attn_rows &rows, size_t partial,
			    const attn_state<S::dim_tiles> &state)
{
	uint32_t lane = threadIdx.x % KV_WARP;
	uint32_t dim = attn_warp_dim<S>() + 2 * (lane % 4);

	ATTN_UNROLL
	for (int h = 0; h < 2; h++) {
		uint32_t r = lane / 4 + 8 * h;
		float2 *o =
			reinterpret_cast<float2 *>(a.partial_o + (partial + r) * S::head_dim + dim);

		if (r >= rows.count)
			continue;
		ATTN_UNROLL
		for (int i = 0; i < S::dim_tiles; i++)
			o[4 * i] = make_float2(state.o[i][2 * h], state.o[i][2 * h + 1]);
		if (threadIdx.x < KV_WARP && lane % 4 == 0)
			*reinterpret_cast<float2 *>(a.partial_ml + (partial + r) * 2) =
				make_float2(state.m[h], state.l[h]);
	}
}

/* Grid: (decodes * blocks of 16 packed rows, kv heads, splits). */
template <class S, int BLOCKS>
KV_KERNEL __launch_bounds__(S::threads, BLOCKS) attn_decode(attn_args a, uint32_t slots)
{
	KV_SMEM(unsigned char, smem);
	uint32_t row_blocks = slots / SLOTS_STEP;
	uint32_t decode = blockIdx.x / row_blocks;
	uint32_t index = a.decodes[decode];
	attn_state<S::dim_tiles> state;
	attn_rows rows;

	if (index == CUDA_NONE)
		return;
	cuda_seq seq = a.seqs[index];
	rows.row0 = seq.row0;
	rows.pos0 = seq.pos0;
	rows.page0 = seq.page0;
	rows.stored = seq.pos0 + seq.rows;
	rows.kv_head = blockIdx.y;
	rows.packed0 = blockIdx.x % row_blocks * SLOTS_STEP;
	if (rows.packed0 >= seq.rows * a.gqa)
		return;
	decode_span span = decode_span_of(a, seq);
	if (blockIdx.z >= span.count)
		return;
	rows.count = min(seq.rows * a.gqa - rows.packed0, SLOTS_STEP);
	uint32_t begin = (span.first + blockIdx.z) * CUDA_ATTN_SPLIT;
	uint32_t lo = max(attn_first_key(a, attn_row_pos(a, rows, 0)), begin);
	uint32_t hi = min(attn_row_pos(a, rows, rows.count - 1) + 1, begin + CUDA_ATTN_SPLIT);
	attn_run<S, false>(a, rows, lo, hi, smem, &state);
	if (span.count == 1)
		attn_store<S>(a, rows, &state, 0, attn_warp_dim<S>());
	else
		decode_store<S>(a, rows,
				decode_partial(a, decode, rows.kv_head, gridDim.z, blockIdx.z,
					       slots, rows.packed0),
				state);
}

/* A warp takes one packed row. Grid: (decodes, kv heads, slots / MERGE_WARPS). */
template <int HEAD_DIM>
KV_KERNEL __launch_bounds__(MERGE_WARPS *KV_WARP)
	attn_merge(attn_args a, uint32_t slots, uint32_t splits)
{
	constexpr int pairs = HEAD_DIM / 2 / KV_WARP;
	uint32_t lane = threadIdx.x % KV_WARP;
	uint32_t packed = blockIdx.z * MERGE_WARPS + threadIdx.x / KV_WARP;
	uint32_t index = a.decodes[blockIdx.x];
	float m = -INFINITY, l = 0, o[pairs][2] = {};

	if (index == CUDA_NONE)
		return;
	cuda_seq seq = a.seqs[index];
	if (packed >= seq.rows * a.gqa)
		return;
	decode_span span = decode_span_of(a, seq);
	if (span.count == 1)
		return;
	for (uint32_t s = 0; s < span.count; s++) {
		size_t at = decode_partial(a, blockIdx.x, blockIdx.y, splits, s, slots, packed);
		const float2 *from = reinterpret_cast<const float2 *>(a.partial_o + at * HEAD_DIM);
		float2 ml = *reinterpret_cast<const float2 *>(a.partial_ml + at * 2);
		float wt, ws;

		m = attn_fold_weights(m, ml.x, &wt, &ws);
		if (KVD_MUTANT(attn_fold_unweighted))
			wt = 1;
		l = attn_fold_value(l, ml.y, wt, ws);
		ATTN_UNROLL
		for (int i = 0; i < pairs; i++) {
			float2 v = from[i * KV_WARP + lane];

			o[i][0] = attn_fold_value(o[i][0], v.x, wt, ws);
			o[i][1] = attn_fold_value(o[i][1], v.y, wt, ws);
		}
	}
	size_t row = (static_cast<size_t>(seq.row0) + packed / a.gqa) * a.heads +
		     blockIdx.y * a.gqa + packed % a.gqa;
	uint32_t *out = reinterpret_cast<uint32_t *>(a.out + row * HEAD_DIM);
	float inverse = 1.0f / l;
	ATTN_UNROLL
	for (int i = 0; i < pairs; i++)
		out[i * KV_WARP + lane] = kv_halfx2(attn_output(o[i][0], inverse),
						    attn_output(o[i][1], inverse), a.fp16);
}

/* The most splits that a window with all rows of a sequence can touch. */
static uint32_t decode_splits(const struct cuda_attention *a, uint32_t rows)
{
	uint32_t touched =
		a->window / CUDA_ATTN_SPLIT + (rows + CUDA_ATTN_SPLIT) / CUDA_ATTN_SPLIT + 1;

	return a->window && touched < a->splits_max ? touched : a->splits_max;
}

template <class S, int BLOCKS>
static cudaError_t decode_launch(cudaStream_t stream, const struct cuda_attention *a,
				 attn_args *args)
{
	uint32_t slots = decode_slots(args->gqa);
	uint32_t splits = decode_splits(a, cuda_attn_decode_rows(args->gqa));
	size_t partials = static_cast<size_t>(a->decode_count) * a->kv_heads * splits * slots;
	cudaError_t e;

	args->partial_o = a->workspace;
	args->partial_ml = a->workspace + partials * S::head_dim;
	e = KV_LAUNCH((attn_decode<S, BLOCKS>),
		      dim3(a->decode_count * (slots / SLOTS_STEP), a->kv_heads, splits),
		      dim3(S::threads), S::smem_bytes, stream, *args, slots);
	if (e != cudaSuccess || splits == 1)
		return e;
	return KV_LAUNCH(attn_merge<S::head_dim>,
			 dim3(a->decode_count, a->kv_heads, slots / MERGE_WARPS),
			 dim3(MERGE_WARPS * KV_WARP), 0, stream, *args, slots, splits);
}

extern "C" uint32_t cuda_attn_decode_rows(uint32_t gqa)
{
	return gqa < SLOTS_STEP ? SLOTS_STEP / gqa : 1;
}

extern "C" size_t cuda_attn_workspace_bytes(uint32_t decodes, uint32_t heads, uint32_t kv_heads,
					    uint32_t head_dim, uint32_t splits_max)
{
	size_t partials = static_cast<size_t>(decodes) * kv_heads * splits_max *
			  decode_slots(heads / kv_heads);

	return partials * (head_dim + 2) * sizeof(float);
}

extern "C" cudaError_t cuda_attn_decode(cudaStream_t stream, const struct cuda_attention *a)
{
	attn_args args;

	if (!attn_args_init(&args, a) || (a->decode_count && !a->splits_max))
		return cudaErrorInvalidValue;
	if (!a->decode_count)
		return cudaSuccess;
	switch (a->head_dim) {
	case 64:
		return decode_launch<decode_64, 2>(stream, a, &args);
	case 128:
		return decode_launch<decode_128, 2>(stream, a, &args);
	case 256:
		return decode_launch<decode_256, 1>(stream, a, &args);
	default:
		return cudaErrorInvalidValue;
	}
}
