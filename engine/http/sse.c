/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One writer for every JSON we send: compact, so that an event is one line, and with the nine
 * digits that carry a float over and back unchanged.
 */
#include "engine/http/sse.h"

#define SSE_JSON_FLAGS (JSON_COMPACT | JSON_REAL_PRECISION(9))

static int append(const char *data, size_t bytes, void *ctx)
{
	struct buffer *b = ctx;

	buffer_append(b, data, bytes);
	return b->failed ? -1 : 0;
}

void sse_json(struct buffer *b, json_t *v)
{
	if (!v || json_dump_callback(v, append, b, SSE_JSON_FLAGS) < 0)
		b->failed = true;
	json_decref(v);
}

void sse_event(struct buffer *b, json_t *v)
{
	buffer_append(b, "data: ", 6);
	sse_json(b, v);
	buffer_append(b, "\n\n", 2);
}

void sse_end(struct buffer *b)
{
	buffer_append(b, "data: [DONE]\n\n", 14);
}
