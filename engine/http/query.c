/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every parameter is read by one small function that knows its range and its default. A parameter
 * we cannot honour is refused unless it has its neutral value: an answer must not silently differ
 * from what was asked. Names we do not know are ignored, as OpenAI's server does with `metadata`
 * and other servers with each other's extensions.
 */
#include "engine/http/query.h"
#include "engine/http/body.h"
#include "engine/http/messages.h"
#include "engine/text/tokenizer.h"
#include <base/assert.h>
#include <base/bits.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define COMPLETION_MAX_TOKENS_DEFAULT 16

static int parse_model(const json_t *root, const struct query_env *env, struct api_error *e)
{
	const char *model = env->model;
	size_t bytes = strlen(env->model);
	int ret = body_string(root, "model", &model, &bytes, e);

	if (ret < 0)
		return ret;
	if (bytes != strlen(env->model) || memcmp(model, env->model, bytes) != 0)
		return errors_set(e, 404, "model_not_found", "model",
				  "the model '%.100s' is not served here: use '%.100s'", model,
				  env->model);
	return 0;
}

/* null, false, 0, "", [], {} and the number that means "off". */
static bool is_neutral(const json_t *v, double off)
{
	if (!v || json_is_null(v) || json_is_false(v))
		return true;
	if (json_is_number(v))
		return json_number_value(v) == off;
	if (json_is_string(v))
		return json_string_length(v) == 0;
	if (json_is_array(v))
		return json_array_size(v) == 0;
	return json_is_object(v) && json_object_size(v) == 0;
}

static int parse_unsupported(const json_t *root, struct api_error *e)
{
	static const struct {
		const char *name;
		double off;
	} unsupported[] = {
		{"presence_penalty", 0},
		{"frequency_penalty", 0},
		{"repetition_penalty", 1},
		{"best_of", 1},
		{"logit_bias", 0},
		{"suffix", 0},
		{"tools", 0},
		{"functions", 0},
		{"use_beam_search", 0},
		{"stop_token_ids", 0},
		{"structured_outputs", 0},
		{"guided_json", 0},
		{"guided_regex", 0},
		{"guided_choice", 0},
		{"guided_grammar", 0},
	};
	const json_t *format = json_object_get(root, "response_format");
	const json_t *type = json_object_get(format, "type");

	for (size_t i = 0; i < ARRAY_LEN(unsupported); i++) {
		const char *name = unsupported[i].name;

		if (!is_neutral(json_object_get(root, name), unsupported[i].off))
			return errors_bad(e, name, "%s is not supported: leave it out", name);
	}
	if (format && !json_is_null(format) &&
	    !(json_is_string(type) && strcmp(json_string_value(type), "text") == 0))
		return errors_bad(e, "response_format",
				  "response_format is not supported but for {\"type\": \"text\"}");
	return 0;
}

static int parse_sampling(const json_t *root, struct query *r, struct api_error *e)
{
	double temperature = 1;
	double top_p = 1;
	double min_p = 0;
	int64_t top_k = 0;
	int64_t seed = 0;
	int ret = body_real(root, "temperature", 0, 2, &temperature, e);

	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) < 0)
		seed = 0;
	if (ret == 0)
		ret = body_real(root, "top_p", 0x1p-20, 1, &top_p, e);
	if (ret == 0)
		ret = body_real(root, "min_p", 0, 1, &min_p, e);
	if (ret == 0)
		ret = body_int(root, "top_k", -1, UINT32_MAX, &top_k, e);
	if (ret == 0)
		ret = body_int(root, "seed", INT64_MIN, INT64_MAX, &seed, e);
	r->sampling = (struct engine_sampling){
		.temperature = (float)temperature,
		.top_p = (float)top_p,
		.min_p = (float)min_p,
		.top_k = top_k < 0 ? 0 : (uint32_t)top_k,
		.seed = (uint64_t)seed,
	};
	return ret;
}

/* -1 in *out: not given. */
static int parse_max_tokens(const json_t *root, enum query_kind kind, int64_t *out,
			    struct api_error *e)
{
	int ret = body_int(root, "max_tokens", 0, UINT32_MAX, out, e);

	if (ret == 0 && kind == QUERY_CHAT)
		ret = body_int(root, "max_completion_tokens", 0, UINT32_MAX, out, e);
	return ret;
}

static int parse_length(const json_t *root, struct query *r, struct api_error *e)
{
	int64_t max_tokens = r->kind == QUERY_CHAT ? -1 : COMPLETION_MAX_TOKENS_DEFAULT;
	int64_t min_tokens = 0;
	int ret = parse_max_tokens(root, r->kind, &max_tokens, e);

	if (ret == 0)
		ret = body_int(root, "min_tokens", 0, r->context, &min_tokens, e);
	if (ret == 0)
		ret = body_bool(root, "ignore_eos", &r->ignore_end, e);
	if (ret == 0 && r->kind == QUERY_COMPLETION)
		ret = body_bool(root, "echo", &r->echo, e);
	if (ret < 0)
		return ret;
	if (max_tokens == 0 && !r->echo)
		return errors_bad(e, "max_tokens", "max_tokens must be at least 1 without echo");
	if (max_tokens > 0 && min_tokens > max_tokens)
		return errors_bad(e, "min_tokens", "min_tokens must not be above max_tokens");
	r->echo_only = max_tokens == 0;
	r->max_tokens = r->echo_only ? 1 : max_tokens < 0 ? 0 : (uint32_t)max_tokens;
	r->min_tokens = (uint32_t)min_tokens;
	return 0;
}

/* Completions: the number of alternatives. Chat: true, and the number apart. */
static int parse_logprobs(const json_t *root, struct query *r, struct api_error *e)
{
	int64_t top = -1;
	int ret;

	if (r->kind == QUERY_COMPLETION) {
		ret = body_int(root, "logprobs", 0, ENGINE_LOGPROBS_MAX, &top, e);
		r->logprobs = top >= 0;
	} else {
		ret = body_bool(root, "logprobs", &r->logprobs, e);
		if (ret == 0)
			ret = body_int(root, "top_logprobs", 0, ENGINE_LOGPROBS_MAX, &top, e);
		if (ret == 0 && top > 0 && !r->logprobs)
			return errors_bad(e, "top_logprobs", "top_logprobs needs logprobs: true");
	}
	r->top_logprobs = top > 0 ? (uint32_t)top : 0;
	return ret;
}

static int parse_stream(const json_t *root, struct query *r, struct api_error *e)
{
	const json_t *options = NULL;
	int ret = body_bool(root, "stream", &r->stream, e);

	if (ret == 0)
		ret = body_object(root, "stream_options", &options, e);
	if (ret == 0 && options)
		ret = body_bool(options, "include_usage", &r->include_usage, e);
	if (ret == 0 && options)
		ret = body_bool(options, "continuous_usage_stats", &r->continuous_usage, e);
	return ret;
}

static int check_stop(const json_t *v, struct api_error *e)
{
	if (!json_is_string(v))
		return errors_bad(e, "stop", "stop must be a string or a list of strings");
	if (json_string_length(v) == 0 || json_string_length(v) > STOP_BYTES_MAX)
		return errors_bad(e, "stop", "a stop string must have 1 to %u bytes",
				  STOP_BYTES_MAX);
	return 0;
}

/* The i-th string of "x" or ["x", ...]. */
static const json_t *stop_at(const json_t *v, size_t i)
{
	return json_is_array(v) ? json_array_get(v, i) : v;
}

static int parse_stop(const json_t *root, struct query *r, struct api_error *e)
{
	const json_t *v = json_object_get(root, "stop");
	size_t count = json_is_array(v) ? json_array_size(v) : (v && !json_is_null(v));
	size_t bytes = 0;

	if (count > STOP_STRINGS_MAX)
		return errors_bad(e, "stop", "stop must hold at most %u strings, it holds %zu",
				  STOP_STRINGS_MAX, count);
	for (size_t i = 0; i < count; i++) {
		int ret = check_stop(stop_at(v, i), e);

		if (ret < 0)
			return ret;
		bytes += json_string_length(stop_at(v, i));
	}
	r->stop_text = malloc(bytes + 1);
	if (!r->stop_text)
		return prompt_check_length(NULL, "stop", -ENOMEM, e);
	char *at = r->stop_text;
	for (size_t i = 0; i < count; i++) {
		size_t n = json_string_length(stop_at(v, i));

		memcpy(at, json_string_value(stop_at(v, i)), n);
		r->stop.string[r->stop.count++] = (struct stop_string){.text = at, .bytes = n};
		at += n;
	}
	return 0;
}

static int parse_choices(const json_t *root, struct query *r, struct api_error *e)
{
	int64_t n = 1;
	int ret = body_int(root, "n", 1, QUERY_CHOICES_MAX, &n, e);

	if (ret == 0 && (uint64_t)n * r->prompt_count > QUERY_CHOICES_MAX)
		ret = errors_bad(e, "n", "n times the number of prompts must be at most %u",
				 QUERY_CHOICES_MAX);
	r->n = (uint32_t)n;
	return ret;
}

static int parse_prompts(const json_t *root, const struct query_env *env, struct query *r,
			 struct api_error *e)
{
	if (r->kind == QUERY_COMPLETION)
		return prompt_parse(root, env, &r->prompt, &r->prompt_count, e);
	r->prompt_count = 1;
	return messages_parse(root, env, &r->prompt, e);
}

int query_parse(enum query_kind kind, const struct query_env *env, const json_t *root,
		struct query *out, struct api_error *e)
{
	struct query r = {.kind = kind, .context = env->context, .use_cache = true};
	int ret = parse_model(root, env, e);

	if (ret == 0)
		ret = parse_unsupported(root, e);
	if (ret == 0)
		ret = parse_sampling(root, &r, e);
	if (ret == 0)
		ret = parse_length(root, &r, e);
	if (ret == 0)
		ret = parse_logprobs(root, &r, e);
	if (ret == 0)
		ret = parse_stream(root, &r, e);
	if (ret == 0)
		ret = body_bool(root, "cache", &r.use_cache, e);
	if (ret == 0)
		ret = parse_stop(root, &r, e);
	if (ret == 0)
		ret = parse_prompts(root, env, &r, e);
	if (ret == 0)
		ret = parse_choices(root, &r, e);
	if (ret < 0) {
		query_fini(&r);
		return ret;
	}
	*out = r;
	return 0;
}

uint64_t query_text_bytes_max(const struct tokenizer *t, uint32_t context)
{
	size_t longest = 1;

	for (uint32_t token = 0; token < tokenizer_vocab(t); token++) {
		const char *text;
		size_t bytes;

		if (tokenizer_piece(t, token, true, &text, &bytes) == 0)
			longest = BITS_MAX(longest, bytes);
	}
	return (uint64_t)context * longest;
}

void query_fini(struct query *r)
{
	prompt_list_free(r->prompt, r->prompt_count);
	free(r->stop_text);
	*r = (struct query){0};
}

uint32_t query_choice_count(const struct query *r)
{
	return r->prompt_count * r->n;
}

const struct prompt *query_prompt(const struct query *r, uint32_t choice)
{
	return &r->prompt[choice / r->n];
}

uint32_t query_token_limit(const struct query *r, uint32_t choice)
{
	uint32_t room = r->context - query_prompt(r, choice)->count;

	return r->max_tokens && r->max_tokens < room ? r->max_tokens : room;
}

uint32_t query_echo_tokens(const struct query *r, uint32_t choice)
{
	return r->echo && r->logprobs ? query_prompt(r, choice)->count - 1 : 0;
}

struct engine_submit_args query_submit_args(const struct query *r, uint32_t choice,
					    const struct tokenizer *tokenizer)
{
	const struct prompt *p = query_prompt(r, choice);
	uint32_t limit = query_token_limit(r, choice);
	struct engine_submit_args args = {
		.tokens = p->tokens,
		.token_count = p->count,
		.max_tokens = limit,
		.min_tokens = r->min_tokens < limit ? r->min_tokens : limit,
		.ignore_end = r->ignore_end,
		.use_cache = r->use_cache,
		.logprobs = r->logprobs ? r->top_logprobs : 0,
		.prompt_logprobs = r->echo && r->logprobs,
		.sampling = r->sampling,
	};

	ASSERT(choice < query_choice_count(r));
	args.sampling.seed += choice % r->n;
	args.end_count = tokenizer_ends(tokenizer, args.end_tokens, ENGINE_ENDS_MAX);
	return args;
}
