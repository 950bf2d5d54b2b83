/* SPDX-License-Identifier: Apache-2.0 */
/* server.h: what the parts of the server share. Private to this folder. */
#ifndef ENGINE_HTTP_SERVER_H
#define ENGINE_HTTP_SERVER_H

#include "engine/http/http.h"
#include "engine/http/query.h"
#include <base/atomic.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>

struct MHD_Daemon;

/* Bodies that are being received or parsed, all together. */
#define SERVER_BODIES_BYTES_MAX (128ull << 20)
/* JSON trees at once: each may be some 60 MB for the largest body. */
#define SERVER_PARSERS_MAX 4u

struct http {
	struct http_config config; /* with its defaults filled in */
	char *model;		   /* the name until it is ready; then env.model */
	char *service_model;
	struct MHD_Daemon *daemon;
	uint16_t port;
	struct http_service service;
	struct query_env env;
	bool ready; /* set after the two above (release), read before them (acquire) */
	sem_t parsers;
	uint64_t bodies_bytes; /* atomic */
	uint64_t answers[6];   /* atomic; by hundreds of the status */
	uint32_t exchanges;    /* atomic: requests that are received or answered */
};

static inline bool server_ready(const struct http *h)
{
	return atomic_load_acquire(&h->ready);
}

#endif
