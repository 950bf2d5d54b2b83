/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.h: a completion or chat request, parsed and checked, ready to be submitted. Parsing
 * needs no server: it is what the fuzzer feeds.
 */
#ifndef ENGINE_HTTP_REQUEST_H
#define ENGINE_HTTP_REQUEST_H

#include "engine/engine.h"
#include "engine/http/errors.h"
#include "engine/http/prompt.h"
#include "engine/http/stop.h"
#include "engine/text/tokenizer.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Prompts times n. */
#define REQUEST_CHOICES_MAX 128u

enum request_kind { REQUEST_COMPLETION, REQUEST_CHAT };

struct request {
	enum request_kind kind;
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
struct request_env {
	const struct tokenizer *tokenizer;
	enum chat_kind chat;
	const char *model;
	uint32_t context;
};

/* 0, or -EINVAL with *e. On success request_fini() is due; *out keeps nothing of root. */
int request_parse(enum request_kind kind, const struct request_env *env, const json_t *root,
		  struct request *out, struct api_error *e);
void request_fini(struct request *r);

/* How many tokens choice `choice` (prompt * n + k) may generate: the rest of the context, at most.
 */
uint32_t request_token_limit(const struct request *r, uint32_t choice);
/* How many of its log's first entries are echoed prompt tokens. */
uint32_t request_echo_tokens(const struct request *r, uint32_t choice);
const struct prompt *request_prompt(const struct request *r, uint32_t choice);
uint32_t request_choice_count(const struct request *r);
/* All but the sink. The tokens stay the request's. */
struct engine_submit_args request_submit_args(const struct request *r, uint32_t choice,
					      const struct tokenizer *tokenizer);

#endif
