/* SPDX-License-Identifier: Apache-2.0 */
/*
 * generation.h: one request under way: its choices, read from the engine's logs until all have
 * ended, as one answer or as a stream of events. Knows nothing of HTTP but the socket that tells
 * when the client has gone.
 */
#ifndef ENGINE_HTTP_GENERATION_H
#define ENGINE_HTTP_GENERATION_H

#include "engine/http/api.h"
#include "engine/http/buffer.h"
#include "engine/http/errors.h"
#include "engine/http/query.h"

struct generation;

struct generation_args {
	const struct api_format *format;
	struct engine *engine;
	const struct tokenizer *tokenizer;
	const char *model; /* must outlive the generation */
	int socket_fd;
};

/*
 * Takes over *r (on failure too), submits all choices and waits until one has a token. 0;
 * -EINVAL: refused or failed, see *e; -EPIPE: the client has gone.
 */
int generation_new(const struct generation_args *args, struct query *r, struct generation **out,
		   struct api_error *e);
/* Cancels what has not ended. Accepts NULL. */
void generation_free(struct generation *g);

/* Waits for the end and writes one JSON object. Returns as generation_new(). */
int generation_collect(struct generation *g, struct buffer *out, struct api_error *e);
/*
 * Waits for something new, and appends its events. 1: more will come; 0: that was the end (an
 * error was an event too); -EPIPE: the client has gone.
 */
int generation_read(struct generation *g, struct buffer *out);

#endif
