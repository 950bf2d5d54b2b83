/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events, as OpenAI's clients read them. */
#ifndef ENGINE_HTTP_SSE_H
#define ENGINE_HTTP_SSE_H

#include "engine/http/buffer.h"
#include <jansson.h>

/* Appends `data: {json}` and a blank line. Takes the reference; NULL (no memory) fails b. */
void sse_event(struct buffer *b, json_t *v);
/* Appends `data: [DONE]`. */
void sse_end(struct buffer *b);
/* Appends the JSON alone: for answers in one piece. Takes the reference. */
void sse_json(struct buffer *b, json_t *v);

#endif
