/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query.h: a completion or chat request, parsed and checked, ready to be submitted. Parsing
 * needs no server: it is what the fuzzer feeds.
 */
#ifndef ENGINE_HTTP_QUERY_H
#define ENGINE_HTTP_QUERY_H

#include "engine/engine.h"
#include "engine/http/errors.h"
#include "engine/http/prompt.h"
#include "engine/http/stop.h"
#include "engine/text/tokenizer.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Prompts times n. */
#define QUERY_CHOICES_MAX 128u

enum query_kind { QUERY_COMPLETION, QUERY_CHAT };

struct query {
	enum query_kind kind;
	struct prompt *prompt;
	uint32_t prompt_count;
	uint32_t n; /* choices for each prompt */
	uint32_t context;
	uint32_t max_tokens; /* 0: until the context is full */
	uint32_t min_tokens;
	bool ignore_end;
	bool use_cache;
	bool echo;
	bool echo_only; /* max_tokens was 0: the one generated token is dropped */
	bool logprobs;
	uint32_t top_logprobs;
	bool stream;
	bool include_usage;
	bool continuous_usage;
	struct engine_sampling sampling;
	struct stop_set stop;
	char *stop_text; /* owns the stop strings */
};

/* What a parser must know of the model. */
struct query_env {
	const struct tokenizer *tokenizer;
	enum chat_kind chat;
	const char *model;
	uint32_t context;
	uint64_t text_bytes_max; /* of a prompt: more cannot fit, however it is cut into tokens */
};

/* The longest text that `context` tokens can stand for. Reads the whole vocabulary. */
uint64_t query_text_bytes_max(const struct tokenizer *t, uint32_t context);

/* 0, or -EINVAL with *e. On success query_fini() is due; *out keeps nothing of root. */
int query_parse(enum query_kind kind, const struct query_env *env, const json_t *root,
		struct query *out, struct api_error *e);
void query_fini(struct query *r);

/* How many tokens choice `choice` (prompt * n + k) may generate: the rest of the context, at most.
 */
uint32_t query_token_limit(const struct query *r, uint32_t choice);
/* How many of its log's first entries are echoed prompt tokens. */
uint32_t query_echo_tokens(const struct query *r, uint32_t choice);
const struct prompt *query_prompt(const struct query *r, uint32_t choice);
uint32_t query_choice_count(const struct query *r);
/* All but the sink. The tokens stay the request's. */
struct engine_submit_args query_submit_args(const struct query *r, uint32_t choice,
					    const struct tokenizer *tokenizer);

#endif
