/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http.h: the OpenAI-compatible HTTP server of one engine. It can listen before the model is
 * loaded: until http_set_ready() every request that needs the engine is answered with 503.
 */
#ifndef ENGINE_HTTP_HTTP_H
#define ENGINE_HTTP_HTTP_H

#include "engine/engine.h"
#include "engine/text/tokenizer.h"
#include <stddef.h>
#include <stdint.h>

struct http;

struct http_config {
	const char *host;	  /* address or name to listen on; NULL: 127.0.0.1 */
	uint16_t port;		  /* 0: a free one, see http_port() */
	const char *model;	  /* the name that /v1/models shows; NULL: kvengine */
	uint32_t connections_max; /* threads at once; 0: 256 */
	uint64_t body_bytes_max;  /* of one request; 0: 8 MiB */
	uint64_t idle_timeout_ns; /* of a connection that neither sends nor reads; 0: 60 s */
};

/* What answers requests. It must live until http_stop() has returned. */
struct http_service {
	struct engine *engine;
	const struct tokenizer *tokenizer;
	enum chat_kind chat; /* CHAT_NONE: /v1/chat/completions is refused */
	const char *model;   /* its name, copied; NULL: the config's */
};

/*
 * Listens and starts the server's threads. 0 or -errno (-EADDRINUSE, -EACCES, ...), with a
 * sentence that says what to do in error[size].
 */
int http_start(const struct http_config *config, struct http **out, char *error, size_t size);
/* The port it listens on. */
uint16_t http_port(const struct http *h);
/* From now on requests are served. Once, from any thread; the service is copied. */
void http_set_ready(struct http *h, const struct http_service *service);
/*
 * Before http_stop(), where all requests have ended and their answers are still on their way: takes
 * no new connection, and waits until each answer was sent, but no longer than that.
 */
void http_finish(struct http *h, uint64_t timeout_ns);
/*
 * Cuts all connections, cancels their requests and waits for the server's threads: it no longer
 * calls the engine when it returns. The engine may still call sinks of cancelled requests; call
 * engine_free() next. Accepts NULL.
 */
void http_stop(struct http *h);

#endif
