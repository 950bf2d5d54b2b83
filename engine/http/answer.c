/* SPDX-License-Identifier: Apache-2.0 */
/* MHD owns what it sends: buffers are handed over, and freed by it. */
#include "engine/http/answer.h"
#include "engine/http/sse.h"
#include <stdlib.h>

/* Events are small; this is what MHD asks for at once when several are ready. */
#define EVENTS_BLOCK_BYTES 8192

static enum MHD_Result queue(struct exchange *x, int status, const char *type,
			     struct MHD_Response *r)
{
	if (!r)
		return MHD_NO;
	(void)MHD_add_response_header(r, "Content-Type", type);
	(void)MHD_add_response_header(r, "X-Request-Id", x->request_id);
	if (status == 429 || status == 503)
		(void)MHD_add_response_header(r, "Retry-After", "1");
	enum MHD_Result ok = MHD_queue_response(x->connection, (unsigned int)status, r);
	MHD_destroy_response(r);
	(void)atomic_add_relaxed(&x->http->answers[status / 100], 1);
	return ok;
}

enum MHD_Result answer_buffer(struct exchange *x, int status, const char *type, struct buffer *b)
{
	if (b->failed) {
		buffer_fini(b);
		return MHD_NO;
	}
	struct MHD_Response *r =
		MHD_create_response_from_buffer(b->used, b->data, MHD_RESPMEM_MUST_FREE);
	if (!r)
		buffer_fini(b);
	return queue(x, status, type, r);
}

enum MHD_Result answer_json(struct exchange *x, int status, json_t *v)
{
	struct buffer b = {0};

	sse_json(&b, v);
	return answer_buffer(x, status, "application/json", &b);
}

enum MHD_Result answer_error(struct exchange *x, const char *allow)
{
	struct buffer b = {0};

	sse_json(&b, errors_json(&x->error));
	if (b.failed || !allow)
		return answer_buffer(x, x->error.status, "application/json", &b);
	struct MHD_Response *r =
		MHD_create_response_from_buffer(b.used, b.data, MHD_RESPMEM_MUST_FREE);
	if (!r)
		buffer_fini(&b);
	else
		(void)MHD_add_response_header(r, "Allow", allow);
	return queue(x, x->error.status, "application/json", r);
}

enum MHD_Result answer_events(struct exchange *x, MHD_ContentReaderCallback read,
			      MHD_ContentReaderFreeCallback free_ctx, void *ctx)
{
	struct MHD_Response *r = MHD_create_response_from_callback(
		MHD_SIZE_UNKNOWN, EVENTS_BLOCK_BYTES, read, ctx, free_ctx);

	if (!r) {
		free_ctx(ctx);
		return MHD_NO;
	}
	(void)MHD_add_response_header(r, "Cache-Control", "no-cache");
	(void)MHD_add_response_header(r, "X-Accel-Buffering", "no");
	return queue(x, 200, "text/event-stream; charset=utf-8", r);
}
