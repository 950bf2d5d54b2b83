/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All choices of a request are submitted together and read in turn, one delta each, so that none
 * waits for another. The connection's thread does all of this; it sleeps only in stream_wait().
 * An error of one choice ends the request: before the first event it is an HTTP status, after it
 * an event.
 */
#include "engine/http/generation.h"
#include "engine/http/choice.h"
#include "engine/http/jsonout.h"
#include "engine/http/logprobs.h"
#include "engine/http/sse.h"
#include "engine/http/stream.h"
#include "engine/http/usage.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

struct generation {
	struct generation_args args;
	struct query request;
	struct stream *stream;
	struct choice *choice;
	uint32_t count;
	struct usage usage;
	char id[48];
	json_int_t created;
	bool opened; /* the opening chunks were written */
};

/* What a delta becomes: an event, or a piece of one answer. */
struct generation_sink {
	void (*delta)(struct generation *g, uint32_t i, const struct stream_view *v,
		      const struct choice_delta *d, void *ctx);
	void *ctx;
};

static int no_memory(struct api_error *e)
{
	return errors_set(e, 503, NULL, NULL, "no memory for another request: try again");
}

static int refused(const struct generation *g, int ret, struct api_error *e)
{
	switch (ret) {
	case -E2BIG:
		return errors_set(e, 400, "context_length_exceeded", NULL,
				  "the prompt does not fit into the context of %u tokens",
				  g->request.context);
	case -EAGAIN:
		return errors_set(e, 429, "queue_full", NULL,
				  "too many requests are waiting: try again later");
	case -ESHUTDOWN:
		return errors_set(e, 503, "shutting_down", NULL, "the engine is shutting down");
	default:
		return no_memory(e);
	}
}

static void name_it(struct generation *g)
{
	uint64_t r[2] = {0};

	if (getrandom(r, sizeof(r), GRND_NONBLOCK) < 0)
		r[0] = (uint64_t)(uintptr_t)g;
	snprintf(g->id, sizeof(g->id), "%s%016" PRIx64 "%016" PRIx64, g->args.format->id_prefix,
		 r[0], r[1]);
	g->created = (json_int_t)time(NULL);
}

static int submit_all(struct generation *g, struct api_error *e)
{
	for (uint32_t i = 0; i < g->count; i++) {
		struct engine_submit_args args =
			query_submit_args(&g->request, i, g->args.tokenizer);
		/* One more than will come: an end token counts or not, as the engine likes. */
		int ret = stream_submit(g->stream, &args,
					query_echo_tokens(&g->request, i) + args.max_tokens + 1);

		if (ret < 0)
			return refused(g, ret, e);
	}
	return 0;
}

/* An error that came before any token. */
static int early_error(struct generation *g, bool *out_started, struct api_error *e)
{
	*out_started = false;
	for (uint32_t i = 0; i < g->count; i++) {
		struct stream_view v = stream_see(g->stream, i);
		struct choice_delta unused;

		if (v.count > 0 || v.done)
			*out_started = true;
		if (v.count == 0 && v.done && v.done->finish >= ENGINE_FINISH_CANCELLED)
			return choice_next(&g->choice[i], &v, &unused, e);
	}
	return 0;
}

static int wait_first(struct generation *g, struct api_error *e)
{
	bool started = false;

	while (!started) {
		int ret = stream_wait(g->stream, g->args.socket_fd);

		if (ret == 0)
			ret = early_error(g, &started, e);
		if (ret < 0)
			return ret;
	}
	return 0;
}

int generation_new(const struct generation_args *args, struct query *r, struct generation **out,
		   struct api_error *e)
{
	struct generation *g = calloc(1, sizeof(*g));

	if (!g) {
		query_fini(r);
		return no_memory(e);
	}
	g->args = *args;
	g->request = *r;
	g->count = query_choice_count(r);
	*r = (struct query){0};
	name_it(g);
	usage_init(&g->usage, &g->request);
	g->choice = calloc(g->count, sizeof(*g->choice));
	int ret = g->choice ? stream_new(args->engine, g->count, &g->stream) : -ENOMEM;
	if (ret < 0) {
		generation_free(g);
		return no_memory(e);
	}
	for (uint32_t i = 0; i < g->count; i++)
		choice_init(&g->choice[i], &g->request, args->tokenizer, i);
	ret = submit_all(g, e);
	if (ret == 0)
		ret = wait_first(g, e);
	if (ret < 0) {
		generation_free(g);
		return ret;
	}
	*out = g;
	return 0;
}

void generation_free(struct generation *g)
{
	if (!g)
		return;
	stream_leave(g->stream);
	for (uint32_t i = 0; g->choice && i < g->count; i++)
		choice_fini(&g->choice[i]);
	free(g->choice);
	query_fini(&g->request);
	free(g);
}

/* One delta of choice i. As choice_next(). */
static int step(struct generation *g, uint32_t i, const struct generation_sink *sink,
		struct api_error *e)
{
	struct choice *c = &g->choice[i];
	struct stream_view v = stream_see(g->stream, i);
	struct choice_delta d;
	uint32_t before = c->generated;
	int ret = choice_next(c, &v, &d, e);

	if (ret <= 0)
		return ret;
	g->usage.completion_tokens += c->generated - before;
	if (d.stop)
		stream_stop(g->stream, i);
	sink->delta(g, i, &v, &d, sink->ctx);
	return 1;
}

/* One round over all choices. 1: something was read; 0: nothing; -EINVAL. */
static int round_once(struct generation *g, const struct generation_sink *sink, struct api_error *e)
{
	int any = 0;

	for (uint32_t i = 0; i < g->count; i++) {
		int ret = step(g, i, sink, e);

		if (ret < 0)
			return ret;
		any |= ret;
	}
	return any;
}

static bool all_finished(const struct generation *g)
{
	for (uint32_t i = 0; i < g->count; i++)
		if (!g->choice[i].finish)
			return false;
	return true;
}

/* The engine's last word on choices that a stop string ended comes a little later. */
static int wait_done(struct generation *g)
{
	for (uint32_t i = 0; i < g->count; i++) {
		struct stream_view v = stream_see(g->stream, i);

		while (!v.done) {
			int ret = stream_wait(g->stream, g->args.socket_fd);

			if (ret < 0)
				return ret;
			v = stream_see(g->stream, i);
		}
		usage_add_done(&g->usage, &g->request, i, v.done);
	}
	return 0;
}

/* The frame of every answer and chunk, around a list of choices that is taken. */
static json_t *frame(const struct generation *g, const char *object, json_t *choices)
{
	return json_pack("{s:s, s:s, s:I, s:s, s:o}", "id", g->id, "object", object, "created",
			 g->created, "model", g->args.model, "choices", choices);
}

/* --- one answer
 * ---------------------------------------------------------------------------------*/

struct collected {
	struct buffer text;
	json_t *logprobs;
};

static void collect_delta(struct generation *g, uint32_t i, const struct stream_view *v,
			  const struct choice_delta *d, void *ctx)
{
	struct collected *c = &((struct collected *)ctx)[i];

	buffer_append(&c->text, d->text, d->text_bytes);
	if (!g->request.logprobs)
		return;
	if (!c->logprobs)
		c->logprobs = logprobs_new(g->request.kind);
	choice_add_logprobs(&g->choice[i], v, d, c->logprobs);
}

static int collect_all(struct generation *g, struct collected *all, struct api_error *e)
{
	const struct generation_sink sink = {.delta = collect_delta, .ctx = all};

	for (;;) {
		int ret = round_once(g, &sink, e);

		if (ret < 0)
			return ret;
		if (ret == 0 && all_finished(g))
			return wait_done(g);
		if (ret == 0)
			ret = stream_wait(g->stream, g->args.socket_fd);
		if (ret < 0)
			return ret;
	}
}

static void write_answer(struct generation *g, struct collected *all, struct buffer *out)
{
	const struct api_format *f = g->args.format;
	json_t *choices = json_array();

	for (uint32_t i = 0; i < g->count; i++) {
		json_t *text = jsonout_text(all[i].text.data, all[i].text.used);

		out->failed |= all[i].text.failed;
		(void)json_array_append_new(
			choices, f->whole(i, text, all[i].logprobs, g->choice[i].finish));
		all[i].logprobs = NULL;
	}
	json_t *answer = frame(g, f->object, choices);
	(void)json_object_set_new(answer, "usage", usage_json(&g->usage, true));
	(void)json_object_set_new(answer, "kvd", usage_kvd_json(&g->usage));
	sse_json(out, answer);
}

int generation_collect(struct generation *g, struct buffer *out, struct api_error *e)
{
	struct collected *all = calloc(g->count, sizeof(*all));

	if (!all)
		return no_memory(e);
	int ret = collect_all(g, all, e);
	if (ret == 0)
		write_answer(g, all, out);
	if (ret == 0 && out->failed)
		ret = no_memory(e);
	for (uint32_t i = 0; i < g->count; i++) {
		buffer_fini(&all[i].text);
		json_decref(all[i].logprobs);
	}
	free(all);
	return ret;
}

/* --- a stream
 * -----------------------------------------------------------------------------------*/

/* A chunk with one choice, which is taken, or with none. */
static void write_chunk(struct generation *g, json_t *choice, struct buffer *out)
{
	json_t *choices = json_array();

	if (choice)
		(void)json_array_append_new(choices, choice);
	json_t *chunk = frame(g, g->args.format->chunk_object, choices);
	if (!choice) {
		(void)json_object_set_new(chunk, "usage", usage_json(&g->usage, true));
		(void)json_object_set_new(chunk, "kvd", usage_kvd_json(&g->usage));
	} else if (g->request.continuous_usage) {
		(void)json_object_set_new(chunk, "usage", usage_json(&g->usage, false));
	} else if (g->request.include_usage) {
		(void)json_object_set_new(chunk, "usage", json_null());
	}
	sse_event(out, chunk);
}

static void stream_delta(struct generation *g, uint32_t i, const struct stream_view *v,
			 const struct choice_delta *d, void *ctx)
{
	json_t *logprobs = NULL;

	if (g->request.logprobs) {
		logprobs = logprobs_new(g->request.kind);
		choice_add_logprobs(&g->choice[i], v, d, logprobs);
	}
	json_t *text = jsonout_text(d->text, d->text_bytes);
	write_chunk(g, g->args.format->chunk(i, text, logprobs, d->finish), ctx);
}

static void write_opening(struct generation *g, struct buffer *out)
{
	for (uint32_t i = 0; g->args.format->opening && !g->opened && i < g->count; i++)
		write_chunk(g, g->args.format->opening(i), out);
	g->opened = true;
}

static int write_end(struct generation *g, struct buffer *out)
{
	if (g->request.include_usage) {
		int ret = wait_done(g);

		if (ret < 0)
			return ret;
		write_chunk(g, NULL, out);
	}
	sse_end(out);
	return 0;
}

static int write_error(const struct api_error *e, struct buffer *out)
{
	sse_event(out, errors_json(e));
	sse_end(out);
	return 0;
}

int generation_read(struct generation *g, struct buffer *out)
{
	const struct generation_sink sink = {.delta = stream_delta, .ctx = out};
	struct api_error e;

	write_opening(g, out);
	for (;;) {
		int ret = round_once(g, &sink, &e);

		if (ret == -EINVAL)
			return write_error(&e, out);
		if (ret == 0 && all_finished(g))
			return write_end(g, out);
		if (out->failed)
			return -EPIPE;
		if (out->used > 0)
			return 1;
		ret = stream_wait(g->stream, g->args.socket_fd);
		if (ret < 0)
			return ret;
	}
}
