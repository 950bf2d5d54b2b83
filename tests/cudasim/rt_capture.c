/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures. A capturing stream queues nothing: its calls become nodes, each depending on the
 * stream's last, and an event recorded in it carries those dependencies into other streams, which
 * join the capture by waiting for it. All must come back to the first stream before the end.
 *
 * What would wait, ask or allocate breaks a capture instead, by the mode it was begun with; what
 * is broken stays so until its end is asked for, which gives no graph.
 */
#include "tests/cudasim/rt_capture.h"
#include "tests/cudasim/rt_graph.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct rt_capture {
	struct rt_capture *next;
	uint32_t refs; /* its own while it is active, and points' */
	bool active, broken;
	enum cudaStreamCaptureMode mode;
	pthread_t thread;
	struct CUstream_st *origin;
	struct rt_program *program;
};

static struct rt_capture *captures; /* the active ones */

static void capture_unref(struct rt_capture *c)
{
	if (c && --c->refs == 0) {
		rt_program_unref(c->program);
		free(c);
	}
}

void rt_capture_point_fini(struct rt_capture_point *point)
{
	capture_unref(point->capture);
	free(point->deps);
	*point = (struct rt_capture_point){0};
}

static cudaError_t capture_break(struct rt_capture *c, cudaError_t error)
{
	c->broken = true;
	return error;
}

cudaError_t rt_capture_unsafe(void)
{
	cudaError_t e = cudaSuccess;

	for (struct rt_capture *c = captures; c; c = c->next)
		if (c->mode == cudaStreamCaptureModeGlobal ||
		    (c->mode == cudaStreamCaptureModeThreadLocal &&
		     pthread_equal(c->thread, pthread_self())))
			e = capture_break(c, cudaErrorStreamCaptureUnsupported);
	return e;
}

cudaError_t rt_capture_waits(struct CUstream_st *stream)
{
	cudaError_t e = cudaSuccess;

	for (struct CUstream_st *s = rt_stream_first(); s; s = s->next)
		if (s->capture && (stream ? s == stream : s->device == rt_device_current()))
			e = capture_break(s->capture, cudaErrorStreamCaptureUnsupported);
	return e == cudaSuccess ? rt_capture_unsafe() : e;
}

cudaError_t rt_capture_implicit(struct CUstream_st *stream)
{
	cudaError_t e = cudaSuccess;

	for (struct CUstream_st *s = rt_stream_first(); stream->legacy && s; s = s->next)
		if (s->capture && s->blocking && s->device == stream->device)
			e = capture_break(s->capture, cudaErrorStreamCaptureImplicit);
	return e;
}

static bool capture_deps_set(uint32_t **deps, uint32_t *count, const uint32_t *from, uint32_t n)
{
	uint32_t *copy = malloc(n * sizeof(*copy) + 1);

	if (!copy)
		return false;
	if (n)
		memcpy(copy, from, n * sizeof(*copy));
	free(*deps);
	*deps = copy;
	*count = n;
	return true;
}

cudaError_t rt_capture_node(struct CUstream_st *stream, struct rt_body *body)
{
	struct rt_capture *c = stream->capture;
	uint32_t node = c->program->count;

	if (c->broken) {
		rt_body_free(body);
		return cudaErrorStreamCaptureInvalidated;
	}
	cudaError_t e = rt_program_add(c->program, body, stream->deps, stream->dep_count);
	if (e == cudaSuccess && !capture_deps_set(&stream->deps, &stream->dep_count, &node, 1))
		e = cudaErrorMemoryAllocation;
	return e == cudaSuccess ? e : capture_break(c, e);
}

cudaError_t rt_capture_record(struct CUstream_st *stream, struct rt_capture_point *point)
{
	struct rt_capture *c = stream->capture;

	if (c->broken)
		return cudaErrorStreamCaptureInvalidated;
	rt_capture_point_fini(point);
	if (!capture_deps_set(&point->deps, &point->dep_count, stream->deps, stream->dep_count))
		return capture_break(c, cudaErrorMemoryAllocation);
	point->capture = c;
	c->refs++;
	return cudaSuccess;
}

static bool capture_deps_add(struct CUstream_st *stream, uint32_t node)
{
	for (uint32_t i = 0; i < stream->dep_count; i++)
		if (stream->deps[i] == node)
			return true;
	uint32_t *more = realloc(stream->deps, (stream->dep_count + 1) * sizeof(*more));
	if (!more)
		return false;
	more[stream->dep_count++] = node;
	stream->deps = more;
	return true;
}

cudaError_t rt_capture_wait(struct CUstream_st *stream, const struct rt_capture_point *point)
{
	struct rt_capture *c = point->capture;

	if (!c)
		return capture_break(stream->capture, cudaErrorStreamCaptureIsolation);
	if (!c->active)
		return cudaErrorCapturedEvent;
	if (stream->capture && stream->capture != c) {
		capture_break(stream->capture, cudaErrorStreamCaptureMerge);
		return capture_break(c, cudaErrorStreamCaptureMerge);
	}
	if (stream->legacy)
		return capture_break(c, cudaErrorStreamCaptureImplicit);
	if (c->broken)
		return cudaErrorStreamCaptureInvalidated;
	if (!stream->capture)
		stream->dep_count = 0;
	stream->capture = c;
	for (uint32_t i = 0; i < point->dep_count; i++)
		if (!capture_deps_add(stream, point->deps[i]))
			return capture_break(c, cudaErrorMemoryAllocation);
	return cudaSuccess;
}

cudaError_t rt_capture_asked(const struct rt_capture_point *point)
{
	if (!point->capture)
		return cudaSuccess;
	return capture_break(point->capture, cudaErrorCapturedEvent);
}

void rt_capture_stream_gone(struct CUstream_st *stream)
{
	if (stream->capture)
		capture_break(stream->capture, cudaErrorStreamCaptureInvalidated);
	if (stream->capture && stream->capture->origin == stream)
		stream->capture->origin = NULL;
	stream->capture = NULL;
}

/* Every node must lead to one that the first stream ended with. */
static bool capture_joined(const struct rt_capture *c)
{
	const struct rt_program *p = c->program;
	bool *leads = calloc(p->count + 1, sizeof(*leads));
	bool all = leads != NULL;

	for (uint32_t i = 0; all && i < c->origin->dep_count; i++)
		leads[c->origin->deps[i]] = true;
	for (uint32_t i = p->count; all && i > 0; i--) {
		all = leads[i - 1];
		for (uint32_t d = 0; d < p->nodes[i - 1].dep_count; d++)
			leads[p->nodes[i - 1].deps[d]] = true;
	}
	free(leads);
	return all;
}

static void capture_end(struct rt_capture *c)
{
	struct rt_capture **at = &captures;

	for (struct CUstream_st *s = rt_stream_first(); s; s = s->next) {
		if (s->capture != c)
			continue;
		s->capture = NULL;
		s->dep_count = 0;
	}
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	c->active = false;
	capture_unref(c);
}

static cudaError_t capture_begin(struct CUstream_st *s, enum cudaStreamCaptureMode mode)
{
	if (s->legacy)
		return cudaErrorStreamCaptureUnsupported;
	if (s->capture)
		return cudaErrorIllegalState;
	struct rt_capture *c = calloc(1, sizeof(*c));
	if (c)
		c->program = rt_program_new();
	if (!c || !c->program) {
		free(c);
		return cudaErrorMemoryAllocation;
	}
	c->refs = 1;
	c->active = true;
	c->mode = mode;
	c->thread = pthread_self();
	c->origin = s;
	c->next = captures;
	captures = c;
	s->capture = c;
	s->dep_count = 0;
	return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
	struct CUstream_st *s;
	cudaError_t e = rt_enter(RT_CAPTURE);

	if (e == cudaSuccess && (unsigned)mode > cudaStreamCaptureModeRelaxed)
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess)
		e = rt_stream_get(stream, &s);
	if (e == cudaSuccess)
		e = capture_begin(s, mode);
	return rt_leave(e);
}

static cudaError_t capture_finish(struct CUstream_st *s, cudaGraph_t *out)
{
	struct rt_capture *c = s->capture;
	cudaError_t e = cudaSuccess;

	if (!c)
		return cudaErrorIllegalState;
	if (c->origin != s)
		return cudaErrorStreamCaptureUnmatched;
	if (c->mode != cudaStreamCaptureModeRelaxed && !pthread_equal(c->thread, pthread_self()))
		return capture_break(c, cudaErrorStreamCaptureWrongThread);
	if (c->broken)
		e = cudaErrorStreamCaptureInvalidated;
	else if (!capture_joined(c))
		e = cudaErrorStreamCaptureUnjoined;
	if (e == cudaSuccess) {
		c->program->refs++;
		*out = rt_graph_new(c->program);
		if (!*out)
			e = cudaErrorMemoryAllocation;
	}
	capture_end(c);
	return e;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *pGraph)
{
	struct CUstream_st *s;
	cudaError_t e = rt_enter(RT_CAPTURE);

	if (e == cudaSuccess && !pGraph)
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess)
		e = rt_stream_get(stream, &s);
	if (e == cudaSuccess) {
		*pGraph = NULL;
		e = capture_finish(s, pGraph);
	}
	return rt_leave(e);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *pCaptureStatus)
{
	struct CUstream_st *s;
	cudaError_t e = rt_enter(RT_CAPTURE);

	if (e == cudaSuccess)
		e = rt_stream_get(stream, &s);
	if (e == cudaSuccess)
		e = rt_capture_implicit(s);
	if (e == cudaSuccess)
		*pCaptureStatus = !s->capture	       ? cudaStreamCaptureStatusNone
				  : s->capture->broken ? cudaStreamCaptureStatusInvalidated
						       : cudaStreamCaptureStatusActive;
	return rt_leave(e);
}
