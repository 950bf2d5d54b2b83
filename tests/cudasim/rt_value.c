/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes of words by a stream, and waits for them. The word lies in device memory or in registered
 * host memory; other processes may write it too, so a wait is looked at again and again. Reads
 * acquire and writes release: what came before the word is seen by whoever saw the word.
 */
#include "tests/cudasim/rt_alloc.h"
#include "tests/cudasim/rt_area.h"
#include "tests/cudasim/rt_queue.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct value {
	uint64_t *word;
	uint64_t value;
	unsigned flags;
};

static void value_write(void *arg)
{
	struct value *v = arg;

	__atomic_store_n(v->word, v->value, __ATOMIC_RELEASE);
}

static void value_nothing(void *arg)
{
}

static bool value_reached(void *arg)
{
	struct value *v = arg;
	uint64_t now = __atomic_load_n(v->word, __ATOMIC_ACQUIRE);

	switch (v->flags) {
	case CU_STREAM_WAIT_VALUE_GEQ:
		return (int64_t)(now - v->value) >= 0;
	case CU_STREAM_WAIT_VALUE_EQ:
		return now == v->value;
	case CU_STREAM_WAIT_VALUE_AND:
		return (now & v->value) != 0;
	}
	return ~(now | v->value) != 0;
}

/* Memory that cudaMalloc gave and nobody exported has no other writers. */
static bool value_explain(void *arg, char *out, size_t size)
{
	struct value *v = arg;
	struct rt_area *a = rt_area_find(v->word);

	snprintf(out, size, "waits for the word at %p to reach %" PRIu64, (void *)v->word,
		 v->value);
	return a && a->kind == RT_AREA_BLOCK && !a->chunk->exported;
}

static cudaError_t value_push(CUstream stream, CUdeviceptr at, uint64_t value, unsigned flags,
			      enum rt_kind kind)
{
	void *word = (void *)(uintptr_t)at;
	struct CUstream_st *s;
	cudaError_t e = rt_stream_get(stream, &s);

	if (e != cudaSuccess)
		return e;
	if (at % sizeof(uint64_t) || flags > (kind == RT_WAIT ? 3u : 1u) ||
	    !(sim_is_device(word, sizeof(uint64_t)) || sim_is_pinned(word, sizeof(uint64_t))))
		return cudaErrorInvalidValue;
	struct value *v = malloc(sizeof(*v));
	if (v)
		*v = (struct value){.word = word, .value = value, .flags = flags};
	struct rt_body body = {.kind = kind,
			       .run = kind == RT_WAIT ? value_nothing : value_write,
			       .drop = free,
			       .arg = v,
			       .name = kind == RT_WAIT ? "wait for a word" : "write of a word"};
	if (kind == RT_WAIT) {
		body.ready = value_reached;
		body.explain = value_explain;
	}
	return rt_stream_push(s, rt_body_new(&body));
}

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr at, cuuint64_t value, unsigned int flags)
{
	cudaError_t e = rt_enter(RT_WRITE);

	if (e == cudaSuccess)
		e = value_push(stream, at, value, flags, RT_WRITE);
	return rt_leave_driver(e);
}

CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr at, cuuint64_t value, unsigned int flags)
{
	cudaError_t e = rt_enter(RT_WAIT);

	if (e == cudaSuccess)
		e = value_push(stream, at, value, flags, RT_WAIT);
	return rt_leave_driver(e);
}
