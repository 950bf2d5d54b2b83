/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies and fills. Both ends are looked up first: a range must lie in one live piece of device
 * memory or one registration, and the direction must be the one that was named. Then, as CUDA does:
 *
 *	from pageable memory	the source is read before the call returns
 *	to pageable memory	the call returns when the copy is done
 *	between the rest	an async call returns at once, and both ends are touched when the
 *				stream gets there: a source changed before then is copied changed
 *
 * In a graph nothing is read or written before the launch gets to the node.
 */
#include "tests/cudasim/rt_area.h"
#include "tests/cudasim/rt_capture.h"
#include "tests/cudasim/rt_host.h"
#include "tests/cudasim/rt_map.h"
#include "tests/cudasim/rt_queue.h"
#include <stdlib.h>
#include <string.h>

enum copy_place { COPY_DEVICE, COPY_PINNED, COPY_PAGEABLE, COPY_NOWHERE };

struct copy {
	uint8_t *dst;
	const uint8_t *src; /* the copy's own, where it was staged; NULL: a fill */
	uint8_t *staged;
	size_t bytes;
	uint8_t value;
};

static void copy_run(void *arg)
{
	struct copy *c = arg;

	if (c->src)
		memmove(c->dst, c->src, c->bytes);
	else
		memset(c->dst, c->value, c->bytes);
}

static void copy_drop(void *arg)
{
	struct copy *c = arg;

	free(c->staged);
	free(c);
}

static enum copy_place copy_place(const void *at, size_t bytes)
{
	if (rt_map_owns(at))
		return sim_is_device(at, bytes) ? COPY_DEVICE : COPY_NOWHERE;
	if (rt_host_find(at))
		return sim_is_pinned(at, bytes) ? COPY_PINNED : COPY_NOWHERE;
	return at ? COPY_PAGEABLE : COPY_NOWHERE;
}

static bool copy_direction(enum cudaMemcpyKind kind, enum copy_place dst, enum copy_place src)
{
	bool to = dst == COPY_DEVICE, from = src == COPY_DEVICE;

	if (dst == COPY_NOWHERE || src == COPY_NOWHERE)
		return false;
	switch (kind) {
	case cudaMemcpyHostToHost:
		return !to && !from;
	case cudaMemcpyHostToDevice:
		return to && !from;
	case cudaMemcpyDeviceToHost:
		return !to && from;
	case cudaMemcpyDeviceToDevice:
		return to && from;
	case cudaMemcpyDefault:
		return true;
	}
	return false;
}

/* A source that cannot be read is found here, not on the device. */
static bool copy_stage(struct copy *c)
{
	struct copy stage;

	c->staged = malloc(c->bytes);
	if (!c->staged)
		return false;
	stage = (struct copy){.dst = c->staged, .src = c->src, .bytes = c->bytes};
	c->src = c->staged;
	return rt_trap_run(copy_run, &stage);
}

static cudaError_t copy_push(struct CUstream_st *s, const struct copy *copy, enum rt_kind kind,
			     bool stage)
{
	struct copy *c = malloc(sizeof(*c));

	if (!c)
		return cudaErrorMemoryAllocation;
	*c = *copy;
	if (stage && !copy_stage(c)) {
		copy_drop(c);
		return cudaErrorInvalidValue;
	}
	return rt_stream_push(
		s, rt_body_new(&(struct rt_body){.kind = kind,
						 .run = copy_run,
						 .drop = copy_drop,
						 .arg = c,
						 .name = kind == RT_MEMCPY ? "memcpy" : "memset"}));
}

static cudaError_t copy_start(const struct copy *c, enum cudaMemcpyKind kind, cudaStream_t stream,
			      bool wait)
{
	struct CUstream_st *s;
	enum copy_place dst = copy_place(c->dst, c->bytes), src = copy_place(c->src, c->bytes);
	cudaError_t e = rt_stream_get(stream, &s);

	if (e != cudaSuccess || c->bytes == 0)
		return e;
	if (!copy_direction(kind, dst, src))
		return cudaErrorInvalidValue;
	bool stage = src == COPY_PAGEABLE && dst == COPY_DEVICE && !s->capture;
	e = copy_push(s, c, RT_MEMCPY, stage);
	if (e != cudaSuccess || s->capture)
		return e;
	if (dst == COPY_PAGEABLE || (wait && !stage && !(src == COPY_DEVICE && dst == COPY_DEVICE)))
		e = rt_queue_finish(s);
	return e;
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
			    cudaStream_t stream)
{
	cudaError_t e = rt_enter(RT_MEMCPY);

	if (e == cudaSuccess)
		e = copy_start(&(struct copy){.dst = dst, .src = src, .bytes = count}, kind, stream,
			       false);
	return rt_leave(e);
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
	cudaError_t e = rt_enter(RT_COPY);

	if (e == cudaSuccess)
		e = copy_start(&(struct copy){.dst = dst, .src = src, .bytes = count}, kind, NULL,
			       true);
	return rt_leave(e);
}

static cudaError_t copy_fill(void *at, int value, size_t bytes, cudaStream_t stream)
{
	struct CUstream_st *s;
	enum copy_place place = copy_place(at, bytes);
	cudaError_t e = rt_stream_get(stream, &s);

	if (e != cudaSuccess || bytes == 0)
		return e;
	if (place == COPY_NOWHERE || place == COPY_PAGEABLE)
		return cudaErrorInvalidValue;
	return copy_push(s, &(struct copy){.dst = at, .bytes = bytes, .value = (uint8_t)value},
			 RT_MEMSET, false);
}

cudaError_t cudaMemsetAsync(void *devPtr, int value, size_t count, cudaStream_t stream)
{
	cudaError_t e = rt_enter(RT_MEMSET);

	if (e == cudaSuccess)
		e = copy_fill(devPtr, value, count, stream);
	return rt_leave(e);
}

cudaError_t cudaMemset(void *devPtr, int value, size_t count)
{
	cudaError_t e = rt_enter(RT_COPY);

	if (e == cudaSuccess)
		e = copy_fill(devPtr, value, count, NULL);
	return rt_leave(e);
}
