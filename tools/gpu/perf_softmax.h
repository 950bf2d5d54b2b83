/* SPDX-License-Identifier: Apache-2.0 */
/* The middle of standard attention. */
#ifndef TOOLS_GPU_PERF_SOFTMAX_H
#define TOOLS_GPU_PERF_SOFTMAX_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* weights bf16 [n][n] = softmax of scale * scores f32 [n][n], causal: row i has columns 0 .. i. */
cudaError_t perf_softmax(cudaStream_t stream, const float *scores, uint16_t *weights, uint32_t n,
			 float scale);

#ifdef __cplusplus
}
#endif

#endif
