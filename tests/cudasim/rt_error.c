/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and words of errors, each thread's last error, and sticky ones: those belong to a device of
 * this process, and nothing but the process's end takes them away.
 */
#include "tests/cudasim/rt_queue.h"
#include <stdio.h>

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

bool rt_error_is_sticky(cudaError_t error)
{
	switch ((int)error) {
	case cudaErrorIllegalAddress:
	case cudaErrorLaunchTimeout:
	case cudaErrorAssert:
	case cudaErrorHardwareStackError:
	case cudaErrorIllegalInstruction:
	case cudaErrorMisalignedAddress:
	case cudaErrorInvalidAddressSpace:
	case cudaErrorInvalidPc:
	case cudaErrorLaunchFailure:
		return true;
	}
	return false;
}

void rt_error_break(int device, cudaError_t error, const char *what)
{
	struct rt_device *d = rt_device(device);

	if (d->sticky == cudaSuccess) {
		fprintf(stderr, "cudasim: device %d: %s: %s\n", device, cudaGetErrorString(error),
			what);
		d->sticky = error;
		rt_fault_count("sticky");
	}
	rt_queue_break(device);
}

void sim_error_sticky(cudaError_t error, const char *what)
{
	rt_lock();
	rt_error_break(rt_queue_device(), error, what);
	rt_unlock();
}

cudaError_t sim_error_set(cudaError_t error)
{
	if (error != cudaSuccess)
		last = error;
	return error;
}

/* A broken device shows through the last error too. */
static cudaError_t error_last(bool reset)
{
	cudaError_t e = last;

	if (reset)
		last = cudaSuccess;
	rt_lock();
	if (rt_device_count() > 0 && rt_device(rt_device_current())->sticky != cudaSuccess)
		e = rt_device(rt_device_current())->sticky;
	rt_unlock();
	return e;
}

cudaError_t cudaPeekAtLastError(void)
{
	return error_last(false);
}

cudaError_t cudaGetLastError(void)
{
	return error_last(true);
}
