/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams as handles. Each device has its legacy stream (handle 0), made at the first use. A
 * destroyed stream's work is still done: it goes when it is empty.
 */
#include "tests/cudasim/rt_capture.h"
#include "tests/cudasim/rt_queue.h"
#include <stdlib.h>

static struct CUstream_st *streams;
static struct CUstream_st *legacy[RT_DEVICES_MAX];

struct CUstream_st *rt_stream_first(void)
{
	return streams;
}

static struct CUstream_st *stream_new(int device)
{
	struct CUstream_st *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->device = device;
	s->tail = &s->head;
	s->next = streams;
	streams = s;
	return s;
}

cudaError_t rt_stream_get(cudaStream_t handle, struct CUstream_st **out)
{
	int device = rt_device_current();
	struct CUstream_st *s = streams;

	if (handle == cudaStreamPerThread)
		return cudaErrorNotSupported;
	if (!handle || handle == cudaStreamLegacy) {
		if (!legacy[device]) {
			legacy[device] = stream_new(device);
			if (!legacy[device])
				return cudaErrorMemoryAllocation;
			legacy[device]->legacy = true;
		}
		*out = legacy[device];
		return cudaSuccess;
	}
	while (s && (s != handle || s->dying))
		s = s->next;
	*out = s;
	if (!s)
		return cudaErrorInvalidResourceHandle;
	return rt_device(s->device)->sticky;
}

void rt_stream_collect(void)
{
	struct CUstream_st **at = &streams;

	while (*at) {
		struct CUstream_st *s = *at;
		if (!s->dying || s->head) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		free(s->deps);
		free(s);
	}
}

cudaError_t rt_stream_push(struct CUstream_st *stream, struct rt_body *body)
{
	if (!body)
		return cudaErrorMemoryAllocation;
	cudaError_t e = rt_capture_implicit(stream);
	if (e != cudaSuccess) {
		rt_body_free(body);
		return e;
	}
	if (stream->capture)
		return rt_capture_node(stream, body);
	return rt_queue_add(stream, &(struct rt_item){.body = body});
}

cudaError_t sim_stream_push(cudaStream_t stream, const struct sim_work *work)
{
	struct CUstream_st *s;
	cudaError_t e = rt_enter(RT_LAUNCH);

	if (e == cudaSuccess)
		e = rt_stream_get(stream, &s);
	if (e == cudaSuccess)
		e = rt_stream_push(s, rt_body_new(&(struct rt_body){.kind = RT_LAUNCH,
								    .run = work->run,
								    .drop = work->drop,
								    .arg = work->arg,
								    .name = work->name}));
	else if (work->drop)
		work->drop(work->arg);
	return rt_leave(e);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
	cudaError_t e = rt_enter(RT_STREAM);

	if (e == cudaSuccess && (!stream || flags > cudaStreamNonBlocking))
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess) {
		*stream = stream_new(rt_device_current());
		if (*stream)
			(*stream)->blocking = flags != cudaStreamNonBlocking;
		else
			e = cudaErrorMemoryAllocation;
	}
	return rt_leave(e);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
	return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority)
{
	return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
	cudaError_t e = rt_enter(RT_INFO);

	if (e == cudaSuccess) {
		*leastPriority = 0;
		*greatestPriority = -5;
	}
	return rt_leave(e);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	struct CUstream_st *s;
	cudaError_t e = rt_enter(RT_STREAM);

	if (e == cudaSuccess)
		e = rt_stream_get(stream, &s);
	if (e == cudaSuccess && s->legacy)
		e = cudaErrorInvalidResourceHandle;
	if (e == cudaSuccess) {
		rt_capture_stream_gone(s);
		s->dying = true;
		rt_stream_collect();
	}
	return rt_leave(e);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	struct CUstream_st *s;
	cudaError_t e = rt_enter(RT_SYNC);

	if (e == cudaSuccess)
		e = rt_stream_get(stream, &s);
	if (e == cudaSuccess)
		e = rt_capture_implicit(s);
	if (e == cudaSuccess)
		e = rt_capture_waits(s);
	if (e == cudaSuccess)
		e = rt_queue_finish(s);
	return rt_leave(e);
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
	struct CUstream_st *s;
	cudaError_t e = rt_enter(RT_QUERY);

	if (e == cudaSuccess)
		e = rt_stream_get(stream, &s);
	if (e == cudaSuccess)
		e = rt_capture_implicit(s);
	if (e == cudaSuccess)
		e = rt_capture_waits(s);
	if (e == cudaSuccess) {
		rt_queue_poke();
		e = rt_device(s->device)->sticky;
	}
	if (e == cudaSuccess && s->head)
		e = cudaErrorNotReady;
	return rt_leave(e);
}

cudaError_t cudaDeviceSynchronize(void)
{
	cudaError_t e = rt_enter(RT_SYNC);

	if (e == cudaSuccess)
		e = rt_capture_waits(NULL);
	if (e == cudaSuccess)
		e = rt_queue_drain(rt_device_current());
	return rt_leave(e);
}

struct stream_host {
	cudaHostFn_t fn;
	void *arg;
};

static void stream_host_run(void *arg)
{
	struct stream_host *h = arg;

	h->fn(h->arg);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *userData)
{
	struct CUstream_st *s;
	cudaError_t e = rt_enter(RT_HOSTFUNC);

	if (e == cudaSuccess)
		e = fn ? rt_stream_get(stream, &s) : cudaErrorInvalidValue;
	if (e == cudaSuccess) {
		struct stream_host *h = malloc(sizeof(*h));
		if (h)
			*h = (struct stream_host){.fn = fn, .arg = userData};
		e = rt_stream_push(s, rt_body_new(&(struct rt_body){.kind = RT_HOSTFUNC,
								    .host = true,
								    .run = stream_host_run,
								    .drop = free,
								    .arg = h,
								    .name = "host function"}));
	}
	return rt_leave(e);
}
