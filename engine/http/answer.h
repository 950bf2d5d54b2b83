/* SPDX-License-Identifier: Apache-2.0 */
/* Answers: every one goes through here, gets the request's id, and is counted. */
#ifndef ENGINE_HTTP_ANSWER_H
#define ENGINE_HTTP_ANSWER_H

#include "engine/http/exchange.h"

/* Takes the reference; NULL: no memory, a 503. */
enum MHD_Result answer_json(struct exchange *x, int status, json_t *v);
/* Takes the buffer's memory. */
enum MHD_Result answer_buffer(struct exchange *x, int status, const char *type, struct buffer *b);
/* x->error as an OpenAI error object. allow: for 405, what the path does take; or NULL. */
enum MHD_Result answer_error(struct exchange *x, const char *allow);
/* A body that `read` produces, until it returns MHD_CONTENT_READER_END_OF_STREAM. */
enum MHD_Result answer_events(struct exchange *x, MHD_ContentReaderCallback read,
			      MHD_ContentReaderFreeCallback free_ctx, void *ctx);

#endif
