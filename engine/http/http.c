/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server: libmicrohttpd with a thread for each connection, at most connections_max. A thread
 * that waits for the engine sleeps in stream_wait(), on the engine's eventfd and its own socket,
 * so a client that goes away is seen at once, also before the first token; an event loop that
 * suspends connections would not look at their sockets. Stacks are small, and the engine, not the
 * number of threads, is the limit.
 *
 * Stopping: MHD shuts all sockets down, which wakes every sleeping thread, and joins the threads.
 */
#include "engine/http/http.h"
#include "engine/http/answer.h"
#include "engine/http/listen.h"
#include "engine/http/route.h"
#include "engine/http/server.h"
#include <base/log.h>
#include <base/units.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define STACK_BYTES (512u << 10)
#define CONNECTION_POOL_BYTES (32u << 10)
#define FINISH_PAUSE_NS (2 * UNITS_NS_PER_MS)

static enum MHD_Result begin(struct http *h, struct MHD_Connection *c, const char *method,
			     const char *path, void **ctx)
{
	struct exchange *x = exchange_new(h, c);

	if (!x)
		return MHD_NO;
	*ctx = x;
	route_find(x, method, path);
	if (!x->refused)
		exchange_check_size(x);
	if (x->refused && exchange_expects_continue(x))
		return route_run(x);
	return MHD_YES;
}

/* MHD calls it first with the headers, then with each piece of the body, then with its end. */
static enum MHD_Result on_request(void *cls, struct MHD_Connection *c, const char *path,
				  const char *method, const char *version, const char *data,
				  size_t *data_bytes, void **ctx)
{
	struct exchange *x = *ctx;

	if (!x)
		return begin(cls, c, method, path, ctx);
	if (*data_bytes == 0)
		return route_run(x);
	size_t bytes = *data_bytes;
	*data_bytes = 0;
	return exchange_receive(x, data, bytes) ? MHD_YES : MHD_NO;
}

static void on_completed(void *cls, struct MHD_Connection *c, void **ctx,
			 enum MHD_RequestTerminationCode code)
{
	struct http *h = cls;

	if (*ctx)
		exchange_timeout(*ctx, h->config.idle_timeout_ns);
	exchange_free(*ctx);
	*ctx = NULL;
}

__attribute__((format(printf, 2, 0))) static void on_log(void *cls, const char *format,
							 va_list args)
{
	char line[256];

	(void)vsnprintf(line, sizeof(line), format, args);
	line[strcspn(line, "\n")] = '\0';
	log_debug("http", "%s", line);
}

static struct MHD_Daemon *start_daemon(struct http *h, int listen_fd)
{
	const unsigned int flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
				   MHD_USE_POLL | MHD_USE_ERROR_LOG | MHD_USE_ITC;
	const unsigned int idle_s = (unsigned int)(h->config.idle_timeout_ns / UNITS_NS_PER_S);

	return MHD_start_daemon(
		flags, h->port, NULL, NULL, on_request, h, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
		MHD_OPTION_LISTEN_SOCKET, listen_fd, MHD_OPTION_NOTIFY_COMPLETED, on_completed, h,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned int)h->config.connections_max,
		MHD_OPTION_CONNECTION_TIMEOUT, idle_s, MHD_OPTION_THREAD_STACK_SIZE,
		(size_t)STACK_BYTES, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)CONNECTION_POOL_BYTES, MHD_OPTION_END);
}

static void fill_defaults(struct http_config *c)
{
	if (!c->host)
		c->host = "127.0.0.1";
	if (!c->model)
		c->model = "kvengine";
	if (!c->connections_max)
		c->connections_max = 256;
	if (!c->body_bytes_max)
		c->body_bytes_max = 8 * UNITS_MIB;
	if (!c->idle_timeout_ns)
		c->idle_timeout_ns = 60 * UNITS_NS_PER_S;
}

static void http_free(struct http *h)
{
	sem_destroy(&h->parsers);
	free(h->model);
	free(h->service_model);
	free(h);
}

int http_start(const struct http_config *config, struct http **out, char *error, size_t size)
{
	struct http *h = calloc(1, sizeof(*h));

	snprintf(error, size, "no memory for the HTTP server");
	if (!h)
		return -ENOMEM;
	h->config = *config;
	fill_defaults(&h->config);
	(void)sem_init(&h->parsers, 0, SERVER_PARSERS_MAX);
	h->model = strdup(h->config.model);
	int ret = h->model ? listen_open(h->config.host, h->config.port, &h->port, error, size)
			   : -ENOMEM;
	h->config.host = NULL; /* the caller's strings: not needed from here on */
	h->config.model = NULL;
	if (ret < 0)
		goto fail;
	h->daemon = start_daemon(h, ret);
	if (!h->daemon) {
		snprintf(error, size, "cannot start the threads of the HTTP server");
		close(ret);
		ret = -EAGAIN;
		goto fail;
	}
	*out = h;
	return 0;
fail:
	http_free(h);
	return ret;
}

uint16_t http_port(const struct http *h)
{
	return h->port;
}

void http_set_ready(struct http *h, const struct http_service *service)
{
	struct engine_stats stats;

	engine_stats(service->engine, &stats);
	h->service = *service;
	h->service_model = service->model ? strdup(service->model) : NULL;
	h->service.model = NULL;
	h->env = (struct query_env){
		.tokenizer = service->tokenizer,
		.chat = service->chat,
		.model = h->service_model ? h->service_model : h->model,
		.context = stats.context,
		.text_bytes_max = query_text_bytes_max(service->tokenizer, stats.context),
	};
	atomic_store_release(&h->ready, true); /* partner: server_ready() */
}

/* A client that does not read its answer must not hold up the end: the time is bounded. */
void http_finish(struct http *h, uint64_t timeout_ns)
{
	const struct timespec pause = {.tv_nsec = FINISH_PAUSE_NS};
	uint64_t end_ns = units_now_ns() + timeout_ns;
	int listen_fd = MHD_quiesce_daemon(h->daemon);

	while (atomic_load_relaxed(&h->exchanges) > 0 && units_now_ns() < end_ns)
		nanosleep(&pause, NULL);
	if (listen_fd >= 0)
		close(listen_fd);
}

void http_stop(struct http *h)
{
	if (!h)
		return;
	MHD_stop_daemon(h->daemon);
	http_free(h);
}
