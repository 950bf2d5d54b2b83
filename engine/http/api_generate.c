/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /v1/completions and /v1/chat/completions: parse, submit, answer. The connection's thread waits
 * for the engine here and in read_events(); MHD's idle timeout is off meanwhile, for it would
 * count our waiting against the client, and on while the client has something to read.
 */
#include "engine/http/answer.h"
#include "engine/http/generation.h"
#include "engine/http/handlers.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct events {
	struct exchange *exchange;
	struct generation *generation;
	struct buffer out;
	size_t sent;
	bool ended;
};

static int parse(struct exchange *x, enum query_kind kind, struct query *out)
{
	json_t *root;
	int ret = exchange_json(x, &root);

	if (ret < 0)
		return ret;
	ret = query_parse(kind, &x->http->env, root, out, &x->error);
	exchange_json_free(x, root);
	return ret;
}

static int socket_of(struct exchange *x)
{
	return MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CONNECTION_FD)
		->connect_fd;
}

static void events_free(void *ctx)
{
	struct events *v = ctx;

	generation_free(v->generation);
	buffer_fini(&v->out);
	free(v);
}

/* Our waiting is over, and the client's reading begins. */
static void await_reader(struct exchange *x)
{
	exchange_timeout(x, x->http->config.idle_timeout_ns);
}

/* The next events, once all earlier ones are sent. */
static int refill(struct events *v)
{
	v->out.used = 0;
	v->sent = 0;
	exchange_timeout(v->exchange, 0);
	int ret = generation_read(v->generation, &v->out);
	await_reader(v->exchange);
	v->ended = ret == 0;
	return ret < 0 || v->out.failed ? -EPIPE : 0;
}

static ssize_t read_events(void *ctx, uint64_t pos, char *out, size_t max)
{
	struct events *v = ctx;

	if (v->sent == v->out.used) {
		if (v->ended)
			return MHD_CONTENT_READER_END_OF_STREAM;
		if (refill(v) < 0)
			return MHD_CONTENT_READER_END_WITH_ERROR;
	}
	size_t n = v->out.used - v->sent < max ? v->out.used - v->sent : max;
	memcpy(out, v->out.data + v->sent, n);
	v->sent += n;
	return (ssize_t)n;
}

/* Takes g. */
static enum MHD_Result answer_stream(struct exchange *x, struct generation *g)
{
	struct events *v = calloc(1, sizeof(*v));

	if (!v) {
		generation_free(g);
		return MHD_NO;
	}
	v->exchange = x;
	v->generation = g;
	return answer_events(x, read_events, events_free, v);
}

/* Takes g. */
static enum MHD_Result answer_whole(struct exchange *x, struct generation *g)
{
	struct buffer out = {0};
	int ret = generation_collect(g, &out, &x->error);

	await_reader(x);
	generation_free(g);
	if (ret == 0)
		return answer_buffer(x, 200, "application/json", &out);
	buffer_fini(&out);
	return ret == -EINVAL ? answer_error(x, NULL) : MHD_NO;
}

static enum MHD_Result generate(struct exchange *x, const struct api_format *format)
{
	struct query request;
	struct generation *g;
	struct generation_args args = {
		.format = format,
		.engine = x->http->service.engine,
		.tokenizer = x->http->service.tokenizer,
		.model = x->http->env.model,
		.socket_fd = socket_of(x),
	};

	bool stream = false;

	exchange_timeout(x, 0);
	int ret = parse(x, format->kind, &request);
	if (ret == 0) {
		stream = request.stream;
		ret = generation_new(&args, &request, &g, &x->error);
	}
	if (ret == 0 && !stream)
		return answer_whole(x, g);
	await_reader(x);
	if (ret < 0)
		return ret == -EINVAL ? answer_error(x, NULL) : MHD_NO;
	return answer_stream(x, g);
}

enum MHD_Result api_generate_completions(struct exchange *x)
{
	return generate(x, &api_completions_format);
}

enum MHD_Result api_generate_chat(struct exchange *x)
{
	return generate(x, &api_chat_format);
}
