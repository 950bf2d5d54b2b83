/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.h: the meeting point of the engine's thread and one connection's thread. The engine
 * appends tokens to one log for each choice and never waits; the connection reads behind it, and
 * sleeps on an eventfd beside its own socket, so that it sees a client go away in the same wait.
 */
#ifndef ENGINE_HTTP_STREAM_H
#define ENGINE_HTTP_STREAM_H

#include "engine/engine.h"
#include <stdbool.h>
#include <stdint.h>

struct stream;

struct stream_token {
	uint32_t token;
	float logprob;
	uint32_t top_count;
};

/* What a reader may see of one log: entries below `count` never change nor move. */
struct stream_view {
	const struct stream_token *token;
	const struct engine_logprob *top; /* `logprobs` each, or NULL */
	uint32_t count;
	const struct engine_done *done; /* NULL: more may come */
};

/* One reference, the connection's. `count` logs, none submitted yet. */
int stream_new(struct engine *engine, uint32_t count, struct stream **out);
/*
 * Submits args as the next log; args->sink is filled in here. At most token_max tokens will come.
 * 0, or what engine_submit() returned, or -ENOMEM.
 */
int stream_submit(struct stream *s, struct engine_submit_args *args, uint32_t token_max);
/*
 * Waits until something is new since the last wait. 0, or -EPIPE: the client closed its side of
 * socket_fd, or the server is being stopped. Only the connection's thread calls it.
 */
int stream_wait(struct stream *s, int socket_fd);
struct stream_view stream_see(struct stream *s, uint32_t i);
/* Asks the engine to end log i, whose reader has all it wants. Any number of times. */
void stream_stop(struct stream *s, uint32_t i);
/* Cancels whatever has not ended, and lets go: the last one to leave frees. Accepts NULL. */
void stream_leave(struct stream *s);

#endif
