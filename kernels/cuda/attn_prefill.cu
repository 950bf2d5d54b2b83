/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention of prompts: a block takes up to 128 packed rows of (sequence, kv head) and walks over
 * all keys that they see, split by split, folding each split's result into a total. The second
 * accumulator is what it costs to get the bits that decode gets.
 *
 * Of head dimension 64 a warp owns 32 rows, so that each fragment of K and V that it loads serves
 * two products, and the total lies in shared memory; of 128 it owns 16, with the total in
 * registers. Of 256 not even one accumulator would leave room: two warps share 16 rows, each half
 * of the keys and half of the output, 64 rows a block; a tile of 128 packed rows is two blocks
 * then.
 */
#include "kernels/cuda/attn_tile.cuh"

#define TILE_PACKED 128u

typedef attn_shape<64, 4, 2, 1, 2, true> prefill_64;
typedef attn_shape<128, 8, 1, 1, 2> prefill_128;
typedef attn_shape<256, 4, 1, 2, 2> prefill_256;

template <class S, int BLOCKS>
KV_KERNEL __launch_bounds__(S::threads, BLOCKS) attn_prefill(attn_args a)
{
	KV_SMEM(unsigned char, smem);
	attn_state<S::dim_tiles> state[S::blocks];
	attn_rows rows;

	/* The later a tile, the more keys it sees: those first. */
	if (!attn_tile_rows(a, gridDim.x - 1 - blockIdx.x, blockIdx.y, blockIdx.z, S::rows, rows))
		return;
	attn_run<S, true>(a, rows, attn_first_key(a, attn_row_pos(a, rows, 0)),
			  attn_row_pos(a, rows, rows.count - 1) + 1, smem, state);
	attn_store<S>(a, rows, state, attn_warp_row<S>(), attn_warp_dim<S>());
}

template <class S, int BLOCKS>
static cudaError_t prefill_launch(cudaStream_t stream, const attn_args &args, uint32_t tiles)
{
	return KV_LAUNCH((attn_prefill<S, BLOCKS>),
			 dim3(tiles, args.kv_heads, TILE_PACKED / S::rows), dim3(S::threads),
			 S::smem_bytes, stream, args);
}

extern "C" uint32_t cuda_attn_tile_rows(uint32_t gqa)
{
	return TILE_PACKED / gqa;
}

extern "C" cudaError_t cuda_attn_prefill(cudaStream_t stream, const struct cuda_attention *a)
{
	attn_args args;

	if (!attn_args_init(&args, a))
		return cudaErrorInvalidValue;
	if (!a->tile_count)
		return cudaSuccess;
	switch (a->head_dim) {
	case 64:
		return prefill_launch<prefill_64, 2>(stream, args, a->tile_count);
	case 128:
		return prefill_launch<prefill_128, 1>(stream, args, a->tile_count);
	case 256:
		return prefill_launch<prefill_256, 1>(stream, args, a->tile_count);
	default:
		return cudaErrorInvalidValue;
	}
}
