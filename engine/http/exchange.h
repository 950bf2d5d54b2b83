/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange.h: one HTTP request and its answer, on the thread of its connection. The body is
 * received in full first; a refusal found early waits for the body's end, because a client that is
 * still sending would not read it.
 */
#ifndef ENGINE_HTTP_EXCHANGE_H
#define ENGINE_HTTP_EXCHANGE_H

#include "engine/http/buffer.h"
#include "engine/http/errors.h"
#include "engine/http/server.h"
#include <microhttpd.h>

struct route;

struct exchange {
	struct http *http;
	struct MHD_Connection *connection;
	const struct route *route;
	char request_id[129];
	struct buffer body;
	uint64_t charged_bytes; /* of http->bodies_bytes */
	uint64_t received_bytes;
	uint64_t start_ns;
	bool refused; /* error says why; the rest of the body is dropped */
	struct api_error error;
};

struct exchange *exchange_new(struct http *h, struct MHD_Connection *c);
void exchange_free(struct exchange *x);
/* Refuses now if the request says a size that is too large. Before the first byte. */
void exchange_check_size(struct exchange *x);
/* True if the client waits for 100 Continue: it can be refused before it sends. */
bool exchange_expects_continue(const struct exchange *x);
/* Keeps or drops more of the body. False: the client went beyond all bounds, cut it. */
bool exchange_receive(struct exchange *x, const char *data, size_t bytes);
/*
 * Parses the body into *out: a tree to be given back with exchange_json_free(), soon, for only a
 * few can be held at once. 0 or -EINVAL with x->error. Frees the body.
 */
int exchange_json(struct exchange *x, json_t **out);
void exchange_json_free(struct exchange *x, json_t *root);
/* How long MHD lets the connection be idle. 0: for ever, while we wait for the engine. */
void exchange_timeout(struct exchange *x, uint64_t timeout_ns);

#endif
