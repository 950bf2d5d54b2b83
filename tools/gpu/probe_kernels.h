/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels that probes launch. */
#ifndef TOOLS_GPU_PROBE_KERNELS_H
#define TOOLS_GPU_PROBE_KERNELS_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One thread stores the value. */
cudaError_t probe_kernels_store(cudaStream_t stream, uint64_t *at, uint64_t value);
/* One thread adds 1 to *at, `rounds` times, one after the other. */
cudaError_t probe_kernels_count(cudaStream_t stream, unsigned long long *at, uint64_t rounds);

#ifdef __cplusplus
}
#endif

#endif
