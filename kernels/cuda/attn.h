/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention over pages of the layout "cuda.bf16.token", for whole prompts, chunks and single rows.
 *
 * The heads of one kv head are packed as rows: packed row r of (sequence, kv head) is token r /
 * gqa, head r % gqa of the group. Keys are taken in tiles of 64 and splits of 512 at absolute
 * positions; the online softmax starts anew in each split and the splits are folded in ascending
 * order. Every path (prefill, its Hopper version, decode) makes these operations on a row in this
 * order, so a row's bits are the same by each, whatever stands beside it and however its prompt was
 * cut.
 *
 * All grids follow from the numbers in the struct (the worst case); lengths are read from device
 * memory, and a block that has nothing to do ends at once. So a launch can be recorded in a graph.
 */
#ifndef KERNELS_CUDA_ATTN_H
#define KERNELS_CUDA_ATTN_H

#include "kernels/cuda/launch.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CUDA_ATTN_KEYS 64u	/* of a tile */
#define CUDA_ATTN_SPLIT 512u	/* keys of a split */
#define CUDA_ATTN_PAGE_STEP 16u /* page_tokens is a multiple of it */
#define CUDA_ATTN_GQA_MAX 128u

/* All pointers but this struct's own are to device memory. */
struct cuda_attention {
	const uint16_t *q; /* bf16 [rows][heads][head_dim], 16-byte aligned */
	uint16_t *out;	   /* the same shape, */
	bool fp16;	   /* in fp16 */
	uint32_t heads;	   /* a multiple of kv_heads */
	uint32_t kv_heads;
	uint32_t head_dim; /* 64, 128 or 256 */
	uint32_t page_tokens;
	uint32_t window;	 /* a row sees this many last tokens, itself included; 0: all */
	float scale;		 /* on q.k, above 0 */
	uint64_t layer_k_offset; /* in a page, of K of kv head 0; V of it is kv_heads blocks behind
				  */
	uint64_t head_bytes;	 /* one head's block */
	const struct cuda_seq *seqs;
	const uint64_t *pages; /* addresses, 16-byte aligned */
	/* Prefill: cuda_attn_tile_rows() rows of a sequence each, less at its end. */
	const struct cuda_tile *tiles;
	uint32_t tile_count;
	/* Decode: indices of sequences of at most cuda_attn_decode_rows() rows; CUDA_NONE: none.
	 */
	const uint32_t *decodes;
	uint32_t decode_count;
	uint32_t splits_max; /* of the longest sequence of `decodes`, all of its keys counted */
	/*
	 * Prefill on Hopper: pages in these bytes may be read by TMA if page_tokens is a multiple
	 * of CUDA_ATTN_KEYS; an address range, not all of which need be memory. 0: none.
	 */
	uint64_t tma_base; /* 16-byte aligned; pages lie at multiples of 2 * head_dim bytes from it
			    */
	uint64_t tma_bytes;
	float *workspace; /* cuda_attn_workspace_bytes(), 16-byte aligned; decode alone uses it */
};

#ifdef __cplusplus
extern "C" {
#endif

/* Rows of a sequence in one tile, for heads / kv_heads. */
uint32_t cuda_attn_tile_rows(uint32_t gqa);
/* The most rows of a sequence that decode takes; at least 1. */
uint32_t cuda_attn_decode_rows(uint32_t gqa);
/* Bytes of partial results of `decodes` sequences. */
size_t cuda_attn_workspace_bytes(uint32_t decodes, uint32_t heads, uint32_t kv_heads,
				 uint32_t head_dim, uint32_t splits_max);

/* cudaErrorInvalidValue: a shape that no kernel is made for. A count of 0 launches nothing. */
cudaError_t cuda_attn_prefill(cudaStream_t stream, const struct cuda_attention *a);
/* The same tiles on compute capability 9.0; elsewhere cudaErrorNotSupported. */
cudaError_t cuda_attn_prefill_sm90(cudaStream_t stream, const struct cuda_attention *a);
cudaError_t cuda_attn_decode(cudaStream_t stream, const struct cuda_attention *a);

#ifdef __cplusplus
}
#endif

#endif
