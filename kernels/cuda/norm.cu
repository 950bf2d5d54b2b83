/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RMSNorm, one block a row. The sum of squares has one order, whatever the batch: a thread adds
 * every NORM_THREADS-th element, a warp its lanes, the first warp the warps. The residual was added
 * by the product before (KERNEL_OUT_ADD), whose epilogue gets it for nothing.
 */
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/launch.h"

#define NORM_THREADS 256u
#define NORM_WARPS (NORM_THREADS / KV_WARP)

/* The same bits for every thread of the block. */
KV_DEVICE float norm_block_sum(float x, float *smem)
{
	x = kv_warp_sum(x);
	if (threadIdx.x % KV_WARP == 0)
		smem[threadIdx.x / KV_WARP] = x;
	if (!KVD_MUTANT(norm_no_barrier))
		__syncthreads();
	x = 0;
	for (uint32_t i = 0; i < NORM_WARPS; i++)
		x += smem[i];
	return x;
}

KV_KERNEL __launch_bounds__(NORM_THREADS)
	rmsnorm_rows(const float *x, const float *weight, float eps, uint16_t *out, uint32_t d,
		     bool fp16)
{
	KV_SMEM(float, smem);
	uint64_t at = static_cast<uint64_t>(blockIdx.x) * d;
	float sum = 0;

	for (uint32_t i = threadIdx.x; i < d; i += NORM_THREADS)
		sum = kv_fma(x[at + i], x[at + i], sum);
	sum = norm_block_sum(sum, smem);
	float scale = 1.0f / sqrtf(sum / static_cast<float>(d) + eps);
	for (uint32_t i = threadIdx.x; i < d; i += NORM_THREADS)
		out[at + i] = kv_f32_to_half(x[at + i] * scale * weight[i], fp16);
}

extern "C" cudaError_t cuda_rmsnorm(cudaStream_t stream, const float *x, const float *weight,
				    float eps, uint16_t *out, uint32_t m, uint32_t d, bool fp16)
{
	return KV_LAUNCH(rmsnorm_rows, dim3(m), dim3(NORM_THREADS), NORM_WARPS * sizeof(float),
			 stream, x, weight, eps, out, d, fp16);
}
