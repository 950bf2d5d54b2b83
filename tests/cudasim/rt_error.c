/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and words of errors, and each thread's last error. A sticky error belongs to a device of
 * this process and outlives every reset of the last error.
 */
#include "tests/cudasim/sim.h"

static _Thread_local cudaError_t last;

const char *cudaGetErrorName(cudaError_t error)
{
	switch ((int)error) {
#define X(name, value, words)                                                                      \
	case value:                                                                                \
		return "cuda" #name;
		CUDASIM_ERRORS(X)
#undef X
	}
	return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
	switch ((int)error) {
#define X(name, value, words)                                                                      \
	case value:                                                                                \
		return words;
		CUDASIM_ERRORS(X)
#undef X
	}
	return "unrecognized error code";
}

cudaError_t sim_error_set(cudaError_t error)
{
	if (error != cudaSuccess)
		last = error;
	return error;
}

cudaError_t cudaPeekAtLastError(void)
{
	return last;
}

cudaError_t cudaGetLastError(void)
{
	cudaError_t e = last;

	last = cudaSuccess;
	return e;
}
