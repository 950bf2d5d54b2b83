/* SPDX-License-Identifier: Apache-2.0 */
/* Captures: streams whose calls become nodes of a graph, and the rules that end one early. */
#ifndef TESTS_CUDASIM_RT_CAPTURE_H
#define TESTS_CUDASIM_RT_CAPTURE_H

#include "tests/cudasim/rt_queue.h"

/* Where an event was recorded: these nodes of that capture. */
struct rt_capture_point {
	struct rt_capture *capture;
	uint32_t *deps;
	uint32_t dep_count;
};

void rt_capture_point_fini(struct rt_capture_point *point);

/* A call that captures forbid (allocation, question, wait): breaks those that forbid it. */
cudaError_t rt_capture_unsafe(void);
/* A call that waits for the stream (NULL: for the current device): never while it captures. */
cudaError_t rt_capture_waits(struct CUstream_st *stream);
/* The stream is about to be used: the legacy one not while a blocking stream captures. */
cudaError_t rt_capture_implicit(struct CUstream_st *stream);
/* Adds a node; takes the body over. */
cudaError_t rt_capture_node(struct CUstream_st *stream, struct rt_body *body);
cudaError_t rt_capture_record(struct CUstream_st *stream, struct rt_capture_point *point);
cudaError_t rt_capture_wait(struct CUstream_st *stream, const struct rt_capture_point *point);
/* The event is asked for: not if a capture recorded it. */
cudaError_t rt_capture_asked(const struct rt_capture_point *point);
void rt_capture_stream_gone(struct CUstream_st *stream);

#endif
