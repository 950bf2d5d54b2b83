/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The embedding: one block widens one row of the table. A token that the step before drew is read
 * where that step wrote it: the stream orders the two.
 */
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/launch.h"

#define EMBED_THREADS 128u

KV_KERNEL __launch_bounds__(EMBED_THREADS)
	embed_rows(const uint16_t *w, uint32_t ldw, const uint32_t *tokens, const uint32_t *drawn,
		   float *x, uint32_t d, bool fp16)
{
	uint32_t token = tokens[blockIdx.x];

	if (token & KERNEL_TOKEN_DRAWN)
		token = drawn[token & ~KERNEL_TOKEN_DRAWN];
	const uint16_t *from = w + static_cast<uint64_t>(token) * ldw;
	float *to = x + static_cast<uint64_t>(blockIdx.x) * d;

	for (uint32_t i = threadIdx.x; i < d; i += EMBED_THREADS)
		to[i] = fp16 ? kv_fp16_to_f32(from[i]) : kv_bf16_to_f32(from[i]);
}

extern "C" cudaError_t cuda_embed(cudaStream_t stream, const uint16_t *w, uint32_t ldw,
				  const uint32_t *tokens, const uint32_t *drawn, float *x,
				  uint32_t m, uint32_t d, bool fp16)
{
	return KV_LAUNCH(embed_rows, dim3(m), dim3(EMBED_THREADS), 0, stream, w, ldw, tokens, drawn,
			 x, d, fp16);
}
