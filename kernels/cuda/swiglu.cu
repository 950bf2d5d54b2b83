/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What follows a product into f32 scratch: silu(gate) * up, or the rounding alone (where the
 * library has no epilogue that adds an f32 bias to a half's result).
 */
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/launch.h"

#define SWIGLU_THREADS 256u
#define SWIGLU_LOG2_E 1.4426950408889634f

KV_KERNEL __launch_bounds__(SWIGLU_THREADS)
	swiglu_rows(const float *s, uint16_t *y, uint32_t f, uint32_t ldy, bool fp16)
{
	const float *gate = s + static_cast<uint64_t>(blockIdx.x) * 2 * f;
	uint16_t *to = y + static_cast<uint64_t>(blockIdx.x) * ldy;
	uint32_t i = blockIdx.y * SWIGLU_THREADS + threadIdx.x;

	if (i < f) {
		float g = gate[i];

		to[i] = kv_f32_to_half(g / (1.0f + kv_exp2(g * -SWIGLU_LOG2_E)) * gate[f + i],
				       fp16);
	}
}

KV_KERNEL __launch_bounds__(SWIGLU_THREADS)
	round_rows(const float *s, uint16_t *y, uint32_t n, uint32_t ldy, bool fp16)
{
	uint32_t i = blockIdx.y * SWIGLU_THREADS + threadIdx.x;

	if (i < n)
		y[static_cast<uint64_t>(blockIdx.x) * ldy + i] =
			kv_f32_to_half(s[static_cast<uint64_t>(blockIdx.x) * n + i], fp16);
}

static dim3 swiglu_grid(uint32_t rows, uint32_t columns)
{
	return dim3(rows, (columns + SWIGLU_THREADS - 1) / SWIGLU_THREADS);
}

extern "C" cudaError_t cuda_swiglu(cudaStream_t stream, const float *s, uint16_t *y, uint32_t m,
				   uint32_t f, uint32_t ldy, bool fp16)
{
	return KV_LAUNCH(swiglu_rows, swiglu_grid(m, f), dim3(SWIGLU_THREADS), 0, stream, s, y, f,
			 ldy, fp16);
}

extern "C" cudaError_t cuda_round(cudaStream_t stream, const float *s, uint16_t *y, uint32_t m,
				  uint32_t n, uint32_t ldy, bool fp16)
{
	return KV_LAUNCH(round_rows, swiglu_grid(m, n), dim3(SWIGLU_THREADS), 0, stream, s, y, n,
			 ldy, fp16);
}
