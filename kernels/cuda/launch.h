/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the host and the kernels share: a step's batch in device memory, and the launchers of the
 * kernels that are not attention (attn.h). Each launcher queues one kernel on the stream. Grids
 * follow from the numbers in the call, lengths are read from device memory: a launch can be
 * recorded in a graph and replayed for any batch that fits.
 */
#ifndef KERNELS_CUDA_LAUNCH_H
#define KERNELS_CUDA_LAUNCH_H

#include <cuda_runtime_api.h>
#include <kernels/kernels.h>
#include <stdbool.h>
#include <stdint.h>

/* In row_seq, tiles, decodes and sampled: padding, nothing to do. */
#define CUDA_NONE UINT32_MAX

struct cuda_seq {
	uint32_t row0;
	uint32_t rows;
	uint32_t pos0;
	uint32_t store; /* 0: query only or sentinel */
	uint32_t page0; /* index of its first page in pages[] */
	uint32_t page_count;
};

/* Prefill attention: which rows of which sequence a block takes. */
struct cuda_tile {
	uint32_t seq; /* CUDA_NONE: sentinel, nothing to do */
	uint32_t first_row;
};

/* All in device memory, filled by one copy a step. */
struct cuda_batch {
	const uint32_t *tokens;			   /* [rows]; 0 in padding */
	const uint32_t *row_seq;		   /* [rows]: whose row; CUDA_NONE in padding */
	const struct cuda_seq *seqs;		   /* [seqs] */
	const struct cuda_tile *tiles;		   /* [tiles] */
	const uint32_t *decodes;		   /* [decodes]: sequences of one row, or few */
	const uint32_t *sampled;		   /* [sampled]: rows with logits */
	const struct kernel_sample_params *params; /* [sampled] */
	const uint64_t *pages;			   /* of all sequences, one behind the other */
};

/* Everything that a row needs between the QKV product and attention. */
struct cuda_rope {
	const float *qkv; /* [rows][(heads + 2 kv_heads) * head_dim] */
	uint16_t *q;	  /* [rows][heads * head_dim] */
	const float *inv_freq;
	const float *q_norm; /* [head_dim], or NULL */
	const float *k_norm;
	const uint32_t *row_seq;
	const struct cuda_seq *seqs;
	const uint64_t *pages;
	uint64_t layer_k_offset; /* in a page, of K of kv head 0; V of it is kv_heads blocks behind
				  */
	uint64_t head_bytes;	 /* one head's block */
	float norm_eps;
	uint32_t rows;
	uint32_t heads;
	uint32_t kv_heads;
	uint32_t head_dim;
	uint32_t rope_dim;
	uint32_t page_tokens;
};

#ifdef __cplusplus
extern "C" {
#endif

/* x f32 [m][d] = row kernel_token(tokens[i], drawn) of w [.][ldw], fp16 or bf16 */
cudaError_t cuda_embed(cudaStream_t stream, const uint16_t *w, uint32_t ldw, const uint32_t *tokens,
		       const uint32_t *drawn, float *x, uint32_t m, uint32_t d, bool fp16);
/* out half [m][d] = x / rms(x) * weight */
cudaError_t cuda_rmsnorm(cudaStream_t stream, const float *x, const float *weight, float eps,
			 uint16_t *out, uint32_t m, uint32_t d, bool fp16);
cudaError_t cuda_rope_store(cudaStream_t stream, const struct cuda_rope *r);
/* y half [m][ldy] = silu(s[i][j]) * s[i][f + j], s f32 [m][2 f] */
cudaError_t cuda_swiglu(cudaStream_t stream, const float *s, uint16_t *y, uint32_t m, uint32_t f,
			uint32_t ldy, bool fp16);
/* y half [m][ldy] = s f32 [m][n], rounded */
cudaError_t cuda_round(cudaStream_t stream, const float *s, uint16_t *y, uint32_t m, uint32_t n,
		       uint32_t ldy, bool fp16);
/* out f32 [count][d] = x f32 [rows[i]][d]; zeros where rows[i] is CUDA_NONE */
cudaError_t cuda_gather(cudaStream_t stream, const float *x, const uint32_t *rows, uint32_t count,
			uint32_t d, float *out);
/* Rows whose sampled[i] is CUDA_NONE are left alone. */
cudaError_t cuda_sample(cudaStream_t stream, const float *logits, const uint32_t *sampled,
			const struct kernel_sample_params *params, uint32_t m, uint32_t v,
			uint32_t *out_tokens, float *out_logprobs);

#ifdef __cplusplus
}
#endif

#endif
