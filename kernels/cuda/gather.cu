/* SPDX-License-Identifier: Apache-2.0 */
/* The rows that are sampled, side by side; a padded slot is a row of zeros. */
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/launch.h"

#define GATHER_THREADS 128u

KV_KERNEL __launch_bounds__(GATHER_THREADS)
	gather_rows(const float *x, const uint32_t *rows, uint32_t d, float *out)
{
	uint32_t row = rows[blockIdx.x];
	float *to = out + static_cast<uint64_t>(blockIdx.x) * d;

	for (uint32_t i = threadIdx.x; i < d; i += GATHER_THREADS)
		to[i] = row == CUDA_NONE ? 0.0f : x[static_cast<uint64_t>(row) * d + i];
}

extern "C" cudaError_t cuda_gather(cudaStream_t stream, const float *x, const uint32_t *rows,
				   uint32_t count, uint32_t d, float *out)
{
	return KV_LAUNCH(gather_rows, dim3(count), dim3(GATHER_THREADS), 0, stream, x, rows, d,
			 out);
}
