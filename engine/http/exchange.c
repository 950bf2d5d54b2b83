/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receiving is bounded four ways: the size of one body, of all bodies together, the time one body
 * may take, and, for a client that goes on after it was refused, a multiple of the first and the
 * third, after which it is cut.
 */
#include "engine/http/exchange.h"
#include "engine/http/body.h"
#include <base/units.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#define BODY_TIME_NS (30 * UNITS_NS_PER_S)
/* A refused body is read on to this many times its bound, so that its sender gets the answer. */
#define DRAIN_FACTOR 8u

/* The client's id if it is short and printable, or one of ours. */
static void choose_id(struct exchange *x)
{
	const char *given =
		MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, "X-Request-Id");
	size_t n = 0;
	uint64_t r[2] = {0};

	while (given && given[n] > ' ' && given[n] <= '~' && n < sizeof(x->request_id))
		n++;
	if (n > 0 && n < sizeof(x->request_id) && given[n] == '\0') {
		memcpy(x->request_id, given, n + 1);
		return;
	}
	if (getrandom(r, sizeof(r), GRND_NONBLOCK) < 0)
		r[0] = units_now_ns();
	snprintf(x->request_id, sizeof(x->request_id), "%016" PRIx64 "%016" PRIx64, r[0], r[1]);
}

struct exchange *exchange_new(struct http *h, struct MHD_Connection *c)
{
	struct exchange *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->http = h;
	x->connection = c;
	x->start_ns = units_now_ns();
	(void)atomic_add_relaxed(&h->exchanges, 1);
	choose_id(x);
	return x;
}

static void free_body(struct exchange *x)
{
	buffer_fini(&x->body);
	(void)atomic_sub_relaxed(&x->http->bodies_bytes, x->charged_bytes);
	x->charged_bytes = 0;
}

void exchange_free(struct exchange *x)
{
	if (!x)
		return;
	free_body(x);
	(void)atomic_sub_relaxed(&x->http->exchanges, 1);
	free(x);
}

static void refuse_size(struct exchange *x)
{
	x->refused = true;
	errors_set(&x->error, 413, "body_too_large", NULL,
		   "the body must not be larger than %" PRIu64 " bytes",
		   x->http->config.body_bytes_max);
}

void exchange_check_size(struct exchange *x)
{
	const char *length =
		MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, "Content-Length");

	if (length && strtoull(length, NULL, 10) > x->http->config.body_bytes_max)
		refuse_size(x);
}

bool exchange_expects_continue(const struct exchange *x)
{
	const char *expect = MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, "Expect");

	return expect && strcasecmp(expect, "100-continue") == 0;
}

/* Takes `bytes` from what all bodies may use. */
static bool charge(struct exchange *x, size_t bytes)
{
	uint64_t before = atomic_add_relaxed(&x->http->bodies_bytes, bytes);

	x->charged_bytes += bytes;
	return before + bytes <= SERVER_BODIES_BYTES_MAX;
}

static void keep(struct exchange *x, const char *data, size_t bytes)
{
	bool charged = charge(x, bytes);

	if (charged)
		buffer_append(&x->body, data, bytes);
	if (charged && !x->body.failed)
		return;
	x->refused = true;
	errors_set(&x->error, 503, "overloaded", NULL,
		   "too many request bodies are being received: try again later");
}

bool exchange_receive(struct exchange *x, const char *data, size_t bytes)
{
	uint64_t max = x->http->config.body_bytes_max;
	uint64_t spent_ns = units_now_ns() - x->start_ns;

	x->received_bytes += bytes;
	if (!x->refused && x->received_bytes > max)
		refuse_size(x);
	if (!x->refused && spent_ns > BODY_TIME_NS) {
		x->refused = true;
		errors_set(&x->error, 408, NULL, NULL, "the body took longer than %llu s",
			   BODY_TIME_NS / UNITS_NS_PER_S);
	}
	if (!x->refused)
		keep(x, data, bytes);
	if (x->refused)
		free_body(x);
	return x->received_bytes <= DRAIN_FACTOR * max && spent_ns <= 2 * BODY_TIME_NS;
}

int exchange_json(struct exchange *x, json_t **out)
{
	while (sem_wait(&x->http->parsers) < 0 && errno == EINTR)
		;
	int ret = body_parse(x->body.data ? x->body.data : "", x->body.used, out, &x->error);
	if (ret < 0)
		sem_post(&x->http->parsers);
	free_body(x);
	return ret;
}

void exchange_json_free(struct exchange *x, json_t *root)
{
	json_decref(root);
	sem_post(&x->http->parsers);
}

void exchange_timeout(struct exchange *x, uint64_t timeout_ns)
{
	unsigned int seconds = (unsigned int)((timeout_ns + UNITS_NS_PER_S - 1) / UNITS_NS_PER_S);

	(void)MHD_set_connection_option(x->connection, MHD_CONNECTION_OPTION_TIMEOUT, seconds);
}
