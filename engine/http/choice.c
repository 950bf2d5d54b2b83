/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A token that may be the last (by count, or an end token) waits for what follows it, which the
 * engine says in the same step: so the last token and the finish reason are one delta. Only the
 * connection's thread comes here.
 */
#include "engine/http/choice.h"
#include "engine/http/jsonout.h"
#include "engine/http/logprobs.h"
#include <base/assert.h>
#include <errno.h>

/* detok_push() needs 1,024 bytes at most, and stop_push() takes as many. */
#define PIECE_BYTES_MAX STOP_PUSH_BYTES_MAX

void choice_init(struct choice *c, const struct query *r, const struct tokenizer *t, uint32_t index)
{
	*c = (struct choice){.request = r, .tokenizer = t, .index = index, .echoed = !r->echo};
	detok_init(&c->detok, t);
	stop_init(&c->stop, &r->stop);
}

void choice_fini(struct choice *c)
{
	buffer_fini(&c->text);
}

static uint32_t piece_chars(const struct choice *c, uint32_t token)
{
	const char *text;
	size_t bytes;

	if (tokenizer_piece(c->tokenizer, token, false, &text, &bytes) < 0)
		return 0;
	return (uint32_t)jsonout_chars(text, bytes);
}

/* Text through the stop strings, if they count already. */
static void add_text(struct choice *c, const char *text, size_t bytes)
{
	char safe[sizeof(c->stop.held)];

	if (c->generated <= c->request->min_tokens && c->request->min_tokens)
		buffer_append(&c->text, text, bytes);
	else if (!c->stop.hit)
		buffer_append(&c->text, safe, stop_push(&c->stop, text, bytes, safe));
}

static void echo_prompt(struct choice *c, struct choice_delta *out)
{
	const struct prompt *p = query_prompt(c->request, c->index);
	char piece[PIECE_BYTES_MAX];

	for (uint32_t i = 0; i < p->count; i++) {
		int n = detok_push(&c->detok, p->tokens[i], piece, sizeof(piece));

		buffer_append(&c->text, piece, n > 0 ? (size_t)n : 0);
		c->chars += piece_chars(c, p->tokens[i]);
	}
	out->echo = true;
	out->count = query_echo_tokens(c->request, c->index);
	c->cursor = out->count;
	c->echoed = true;
}

static void read_token(struct choice *c, uint32_t token, struct choice_delta *out)
{
	char piece[PIECE_BYTES_MAX];
	int n = detok_push(&c->detok, token, piece, sizeof(piece));

	out->count = 1;
	c->cursor++;
	c->generated++;
	c->chars += piece_chars(c, token);
	add_text(c, piece, n > 0 ? (size_t)n : 0);
	if (c->stop.hit) {
		c->finish = "stop";
		out->stop = true;
	}
}

/* The engine has ended it, and all its tokens are read. */
static void finish(struct choice *c, const struct engine_done *d)
{
	char rest[sizeof(c->stop.held)];
	int n = detok_finish(&c->detok, rest, sizeof(rest));

	add_text(c, rest, n > 0 ? (size_t)n : 0);
	if (!c->stop.hit)
		buffer_append(&c->text, rest, stop_finish(&c->stop, rest));
	c->finish = c->stop.hit || d->finish == ENGINE_FINISH_STOP ? "stop" : "length";
}

static int failed(const struct engine_done *d, struct api_error *e)
{
	if (d->finish == ENGINE_FINISH_CANCELLED)
		return errors_set(e, 503, "shutting_down", NULL, "the engine is shutting down");
	return errors_set(e, d->status, NULL, NULL, "%s", d->error);
}

static bool ended_well(const struct engine_done *d)
{
	return d && (d->finish == ENGINE_FINISH_STOP || d->finish == ENGINE_FINISH_LENGTH);
}

/* Whether the token at the cursor can be told from a last one. */
static bool token_ready(const struct choice *c, const struct stream_view *v)
{
	bool may_end = c->generated + 1 == query_token_limit(c->request, c->index) ||
		       tokenizer_is_end(c->tokenizer, v->token[c->cursor].token);

	return !may_end || c->cursor + 1 < v->count || v->done;
}

/* 1 if a step was taken, with what it read. */
static int step(struct choice *c, const struct stream_view *v, struct choice_delta *out)
{
	if (!c->echoed) {
		if (v->count < query_echo_tokens(c->request, c->index) && !ended_well(v->done))
			return 0;
		echo_prompt(c, out);
		return 1;
	}
	if (c->request->echo_only)
		c->cursor = v->count;
	if (c->cursor == v->count)
		return v->done != NULL;
	if (!token_ready(c, v))
		return 0;
	read_token(c, v->token[c->cursor].token, out);
	return 1;
}

int choice_next(struct choice *c, const struct stream_view *v, struct choice_delta *out,
		struct api_error *e)
{
	if (c->finish)
		return 0;
	if (v->done && !ended_well(v->done) && (c->cursor == v->count || !c->echoed))
		return failed(v->done, e);
	c->text.used = 0;
	*out = (struct choice_delta){.first = c->cursor, .chars_before = c->chars};
	if (!step(c, v, out))
		return 0;
	if (!c->finish && ended_well(v->done) && c->cursor == v->count)
		finish(c, v->done);
	if (c->text.failed)
		return errors_set(e, 503, NULL, NULL, "no memory for the answer: try again");
	out->text = c->text.data ? c->text.data : "";
	out->text_bytes = c->text.used;
	out->finish = c->finish;
	return 1;
}

void choice_add_logprobs(const struct choice *c, const struct stream_view *v,
			 const struct choice_delta *d, json_t *lp)
{
	uint32_t each = c->request->top_logprobs;
	struct logprobs_entry entry = {.chars_before = d->chars_before};

	if (d->echo) {
		entry.token = query_prompt(c->request, c->index)->tokens[0];
		logprobs_add(c->request->kind, lp, c->tokenizer, &entry);
		entry.chars_before += piece_chars(c, entry.token);
	}
	for (uint32_t i = d->first; i < d->first + d->count; i++) {
		entry.known = true;
		entry.token = v->token[i].token;
		entry.logprob = v->token[i].logprob;
		entry.top = each ? &v->top[(size_t)i * each] : NULL;
		entry.top_count = v->token[i].top_count;
		logprobs_add(c->request->kind, lp, c->tokenizer, &entry);
		entry.chars_before += piece_chars(c, entry.token);
	}
}
