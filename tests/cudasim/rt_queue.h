/* SPDX-License-Identifier: Apache-2.0 */
/* Streams hold items; work that waits or asks runs them, in an order that only the seed knows. */
#ifndef TESTS_CUDASIM_RT_QUEUE_H
#define TESTS_CUDASIM_RT_QUEUE_H

#include "tests/cudasim/rt.h"

/* What a piece of work does: an item's, or a node's of a graph. */
struct rt_body {
	enum rt_kind kind;
	bool host; /* runs as host code: device memory stays closed */
	void (*run)(void *arg);
	bool (*ready)(void *arg); /* NULL: always */
	void (*drop)(void *arg);  /* may be NULL */
	/* Words for a report on what it waits for; true if only this process could end the wait. */
	bool (*explain)(void *arg, char *out, size_t size);
	void *arg;
	const char *name;
};

/* A place in a stream that was, or will be, reached. */
struct rt_mark {
	uint32_t refs;
	bool done;
	uint64_t time_ns;
};

struct rt_launch; /* a graph on its way: rt_graph.h */
struct rt_capture;

/* One of body, record, wait and launch is set. */
struct rt_item {
	struct rt_item *next;
	uint64_t turn;	/* the order of calls, over all streams */
	uint32_t delay; /* so often passed over yet */
	struct rt_body *body;
	struct rt_mark *record, *wait;
	struct rt_launch *launch;
};

struct CUstream_st {
	struct CUstream_st *next;
	int device;
	bool legacy, blocking; /* blocking: ordered with the device's legacy stream */
	bool dying;	       /* destroyed: goes when it is empty */
	struct rt_item *head, **tail;
	struct rt_capture *capture; /* NULL: does not capture */
	uint32_t *deps;		    /* the nodes that the next one depends on */
	uint32_t dep_count;
};

/* Takes `arg` over at once: without memory it is dropped, and NULL comes back. */
struct rt_body *rt_body_new(const struct rt_body *body);
void rt_body_free(struct rt_body *body);
struct rt_mark *rt_mark_new(void);
struct rt_mark *rt_mark_ref(struct rt_mark *mark);
void rt_mark_unref(struct rt_mark *mark);

/* rt_stream.c: the stream that a handle means, or cudaErrorInvalidResourceHandle. */
cudaError_t rt_stream_get(cudaStream_t handle, struct CUstream_st **out);
struct CUstream_st *rt_stream_first(void);
void rt_stream_collect(void);
/* Captures the body or queues it; takes it over. NULL: out of memory. */
cudaError_t rt_stream_push(struct CUstream_st *stream, struct rt_body *body);

/* rt_queue.c: takes the item's references over, also when it fails. */
cudaError_t rt_queue_add(struct CUstream_st *stream, const struct rt_item *item);
/* Does one thing that is ready; false: nothing is. */
bool rt_queue_step(void);
/* A few steps: what a question sets off. */
void rt_queue_poke(void);
/* Steps until done(arg), or the device breaks, which is what it returns then. */
cudaError_t rt_queue_until(int device, bool (*done)(void *arg), void *arg);
cudaError_t rt_queue_finish(struct CUstream_st *stream);
cudaError_t rt_queue_drain(int device);
/* Runs the body for the device, as an item or as a node of a graph. */
void rt_queue_run(struct rt_body *body, int device);
bool rt_queue_body_ready(struct rt_body *body, int device);
/* The device whose work runs, else the thread's current one. */
int rt_queue_device(void);
/* This thread runs work, or a host function. */
bool rt_queue_inside(void);
/* Drops all work of a broken device, now or when the running piece returns. */
void rt_queue_break(int device);

#endif
