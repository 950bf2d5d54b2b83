/* SPDX-License-Identifier: Apache-2.0 */
/* A kvengine of our own that writes long answers, and when each piece of them comes. */
#ifndef TOOLS_KVBENCH_BENCH_STREAM_H
#define TOOLS_KVBENCH_BENCH_STREAM_H

#include <stdint.h>
#include <sys/types.h>

struct bench_stream {
	pid_t pid;
	uint16_t port;
	int fd; /* of the answer that is being written; -1: none */
};

/* The engine beside the daemon's program, for a kvd that listens there. 0 or -errno, and words. */
int bench_stream_start(struct bench_stream *s, const char *kvd_program, const char *model,
		       const char *socket, const char *log);
void bench_stream_stop(struct bench_stream *s);
/*
 * Waits for at most timeout_ms for the next piece. 1: it came; 2: it is the first of an answer,
 * there is no piece before it; 0: none came; -errno after a message.
 */
int bench_stream_next(struct bench_stream *s, int timeout_ms);

#endif
