/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events. A record puts a mark into the stream, and the event remembers the latest mark; a wait
 * is for the mark that is the latest when it is queued. One that was never recorded holds nobody
 * up. Recorded in a capture it stands for the nodes that came before it, and cannot be asked.
 */
#include "tests/cudasim/rt_capture.h"
#include "tests/cudasim/rt_queue.h"
#include <stdlib.h>

struct CUevent_st {
	struct CUevent_st *next;
	int device;
	bool timing;
	struct rt_mark *mark;
	struct rt_capture_point point; /* where a capture recorded it */
};

static struct CUevent_st *events;

static cudaError_t event_get(cudaEvent_t handle, struct CUevent_st **out)
{
	struct CUevent_st *e = events;

	while (e && e != handle)
		e = e->next;
	*out = e;
	return e ? rt_device(e->device)->sticky : cudaErrorInvalidResourceHandle;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
	cudaError_t e = rt_enter(RT_EVENT);

	if (e == cudaSuccess && (!event || flags > 7))
		e = cudaErrorInvalidValue;
	/* Words in shared memory order processes here, never events. */
	if (e == cudaSuccess && (flags & cudaEventInterprocess))
		e = cudaErrorNotSupported;
	if (e == cudaSuccess) {
		struct CUevent_st *new = calloc(1, sizeof(*new));
		if (!new)
			return rt_leave(cudaErrorMemoryAllocation);
		new->device = rt_device_current();
		new->timing = !(flags & cudaEventDisableTiming);
		new->next = events;
		events = *event = new;
	}
	return rt_leave(e);
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
	return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	struct CUevent_st *ev, **at = &events;
	cudaError_t e = rt_enter(RT_EVENT);

	if (e == cudaSuccess)
		e = event_get(event, &ev);
	if (e == cudaSuccess) {
		while (*at != ev)
			at = &(*at)->next;
		*at = ev->next;
		rt_mark_unref(ev->mark);
		rt_capture_point_fini(&ev->point);
		free(ev);
	}
	return rt_leave(e);
}

static cudaError_t event_record(struct CUevent_st *ev, struct CUstream_st *s)
{
	cudaError_t e = rt_capture_implicit(s);

	if (e != cudaSuccess)
		return e;
	if (ev->device != s->device)
		return cudaErrorInvalidResourceHandle;
	if (s->capture)
		return rt_capture_record(s, &ev->point);
	struct rt_mark *m = rt_mark_new();
	if (!m)
		return cudaErrorMemoryAllocation;
	rt_mark_unref(ev->mark);
	rt_capture_point_fini(&ev->point);
	ev->mark = rt_mark_ref(m);
	return rt_queue_add(s, &(struct rt_item){.record = m});
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	struct CUevent_st *ev;
	struct CUstream_st *s;
	cudaError_t e = rt_enter(RT_RECORD);

	if (e == cudaSuccess)
		e = event_get(event, &ev);
	if (e == cudaSuccess)
		e = rt_stream_get(stream, &s);
	if (e == cudaSuccess)
		e = event_record(ev, s);
	return rt_leave(e);
}

static cudaError_t event_wait(struct CUevent_st *ev, struct CUstream_st *s)
{
	cudaError_t e = rt_capture_implicit(s);

	if (e != cudaSuccess)
		return e;
	if (ev->point.capture || s->capture)
		return rt_capture_wait(s, &ev->point);
	if (!ev->mark || ev->mark->done)
		return cudaSuccess;
	return rt_queue_add(s, &(struct rt_item){.wait = rt_mark_ref(ev->mark)});
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
	struct CUevent_st *ev;
	struct CUstream_st *s;
	cudaError_t e = rt_enter(RT_WAITEVENT);

	if (e == cudaSuccess)
		e = event_get(event, &ev);
	if (e == cudaSuccess)
		e = rt_stream_get(stream, &s);
	if (e == cudaSuccess)
		e = event_wait(ev, s);
	return rt_leave(e);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
	struct CUevent_st *ev;
	cudaError_t e = rt_enter(RT_QUERY);

	if (e == cudaSuccess)
		e = event_get(event, &ev);
	if (e == cudaSuccess)
		e = rt_capture_asked(&ev->point);
	if (e == cudaSuccess)
		e = rt_capture_unsafe();
	if (e == cudaSuccess) {
		rt_queue_poke();
		e = rt_device(ev->device)->sticky;
	}
	if (e == cudaSuccess && ev->mark && !ev->mark->done)
		e = cudaErrorNotReady;
	return rt_leave(e);
}

static bool event_done(void *arg)
{
	return ((struct rt_mark *)arg)->done;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	struct CUevent_st *ev;
	cudaError_t e = rt_enter(RT_SYNC);

	if (e == cudaSuccess)
		e = event_get(event, &ev);
	if (e == cudaSuccess)
		e = rt_capture_asked(&ev->point);
	if (e == cudaSuccess)
		e = rt_capture_unsafe();
	if (e == cudaSuccess && ev->mark) {
		struct rt_mark *m = rt_mark_ref(ev->mark);
		e = rt_queue_until(ev->device, event_done, m);
		rt_mark_unref(m);
	}
	return rt_leave(e);
}

static cudaError_t event_elapsed(float *ms, const struct CUevent_st *a, const struct CUevent_st *b)
{
	if (!a->mark || !b->mark || !a->timing || !b->timing)
		return cudaErrorInvalidResourceHandle;
	if (!a->mark->done || !b->mark->done)
		return cudaErrorNotReady;
	*ms = (float)((double)(int64_t)(b->mark->time_ns - a->mark->time_ns) * 1e-6);
	return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
	struct CUevent_st *a, *b;
	cudaError_t e = rt_enter(RT_INFO);

	if (e == cudaSuccess)
		e = event_get(start, &a);
	if (e == cudaSuccess)
		e = event_get(end, &b);
	if (e == cudaSuccess)
		e = event_elapsed(ms, a, b);
	return rt_leave(e);
}
