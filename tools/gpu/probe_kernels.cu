// SPDX-License-Identifier: Apache-2.0
/*
 * One store, and a kernel that lasts: each addition waits for the one before it, so that the memory
 * shows how far it has come.
 */
#include "kernels/cuda/common.cuh"
#include "tools/gpu/probe_kernels.h"

KV_KERNEL store(uint64_t *at, uint64_t value)
{
	*at = value;
}

KV_KERNEL count(unsigned long long *at, uint64_t rounds)
{
	unsigned long long seen = atomicAdd(at, 1ull), last = seen + rounds - 1;

	while (seen < last)
		seen = atomicAdd(at, 1ull);
}

extern "C" cudaError_t probe_kernels_store(cudaStream_t stream, uint64_t *at, uint64_t value)
{
	return KV_LAUNCH(store, dim3(1), dim3(1), 0, stream, at, value);
}

extern "C" cudaError_t probe_kernels_count(cudaStream_t stream, unsigned long long *at,
					   uint64_t rounds)
{
	return KV_LAUNCH(count, dim3(1), dim3(1), 0, stream, at, rounds);
}
