// SPDX-License-Identifier: Apache-2.0
/*
 * A block a row, in three passes over scores that lie in memory (and mostly in the L2): maximum,
 * sum, weights. Columns behind the diagonal become 0.
 */
#include "kernels/cuda/common.cuh"
#include "tools/gpu/perf_softmax.h"

#define THREADS 256u
#define WARPS (THREADS / KV_WARP)
#define LOG2_E 1.44269504f

KV_KERNEL softmax(const float *scores, uint16_t *weights, uint32_t n, float scale)
{
	KV_SMEM(float, shared); /* [2][WARPS] */
	const uint32_t row = blockIdx.x, lane = threadIdx.x % KV_WARP, warp = threadIdx.x / KV_WARP;
	const float *s = scores + static_cast<size_t>(row) * n;
	uint16_t *w = weights + static_cast<size_t>(row) * n;
	float top = -1e30f, sum = 0;

	for (uint32_t i = threadIdx.x; i <= row; i += THREADS)
		top = s[i] > top ? s[i] : top;
	top = kv_warp_max(top);
	if (lane == 0)
		shared[warp] = top;
	__syncthreads();
	for (uint32_t i = 0; i < WARPS; i++)
		top = shared[i] > top ? shared[i] : top;
	for (uint32_t i = threadIdx.x; i <= row; i += THREADS)
		sum += kv_exp2((s[i] - top) * scale * LOG2_E);
	sum = kv_warp_sum(sum);
	if (lane == 0)
		shared[WARPS + warp] = sum;
	__syncthreads();
	sum = 0;
	for (uint32_t i = 0; i < WARPS; i++)
		sum += shared[WARPS + i];
	for (uint32_t i = threadIdx.x; i < n; i += THREADS)
		w[i] = i <= row ? kv_f32_to_bf16(kv_exp2((s[i] - top) * scale * LOG2_E) / sum) : 0;
}

extern "C" cudaError_t perf_softmax(cudaStream_t stream, const float *scores, uint16_t *weights,
				    uint32_t n, float scale)
{
	return KV_LAUNCH(softmax, dim3(n), dim3(THREADS), 2 * WARPS * sizeof(float), stream, scores,
			 weights, n, scale);
}
