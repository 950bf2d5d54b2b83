/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frame of every call: one recursive lock for the process, and the checks that come before the
 * call's own. Host functions and kernels run with the lock held and may not call back: they get
 * cudaErrorNotPermitted, as host functions do.
 */
#include "tests/cudasim/rt_capture.h"
#include "tests/cudasim/rt_queue.h"
#include <pthread.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pid_t owner; /* the process that made the first context */

static const unsigned flags[RT_KIND_COUNT] = {
#define X(symbol, name, flags) flags,
	RT_KINDS(X)
#undef X
};

void rt_lock(void)
{
	pthread_mutex_lock(&lock);
}

void rt_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

void rt_pause_us(unsigned us)
{
	struct timespec t = {.tv_nsec = (long)us * 1000};

	rt_unlock();
	nanosleep(&t, NULL);
	rt_lock();
}

/* The device's context, made at the first call that needs it. It does not survive a fork. */
static cudaError_t call_context(void)
{
	struct rt_device *d = rt_device(rt_device_current());

	if (!owner)
		owner = getpid();
	if (owner != getpid())
		return cudaErrorInitializationError;
	d->active = true;
	return d->sticky;
}

cudaError_t rt_enter(enum rt_kind kind)
{
	rt_lock();
	if (rt_queue_inside())
		return cudaErrorNotPermitted;
	if (rt_device_count() < 0)
		return cudaErrorInsufficientDriver;
	if (rt_device_count() == 0)
		return cudaErrorNoDevice;
	cudaError_t e = rt_fault_call(kind);
	if (e == cudaSuccess && (flags[kind] & RT_CONTEXT))
		e = call_context();
	if (e == cudaSuccess && (flags[kind] & RT_UNSAFE))
		e = rt_capture_unsafe();
	return e;
}

cudaError_t rt_leave(cudaError_t error)
{
	rt_unlock();
	return sim_error_set(error);
}

CUresult rt_leave_driver(cudaError_t error)
{
	rt_unlock();
	return (CUresult)error;
}
