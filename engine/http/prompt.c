/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The four forms of /v1/completions' prompt: "text", ["text", ...], [1, 2], [[1, 2], ...]. A
 * list whose first element is a number is one prompt of token ids. Text is read as Hugging Face's
 * tokenizers read it: special spellings become their tokens, and BOS is put in front where the
 * model wants it.
 */
#include "engine/http/prompt.h"
#include "engine/http/body.h"
#include "engine/http/query.h"
#include "engine/text/tokenizer.h"
#include <errno.h>
#include <stdlib.h>

#define PROMPT_PARAM "prompt"

int prompt_check_length(const struct query_env *env, const char *param, int64_t tokens,
			struct api_error *e)
{
	if (tokens < 0)
		return errors_set(e, 503, NULL, NULL, "no memory to read the prompt: try again");
	if (tokens == 0)
		return errors_bad(e, param, "%s holds no tokens", param);
	if (tokens >= env->context)
		return errors_set(e, 400, "context_length_exceeded", param,
				  "%s has %lld tokens, and the context of %u must hold it and at "
				  "least one more: shorten it",
				  param, (long long)tokens, env->context);
	return 0;
}

int prompt_check_text(const struct query_env *env, const char *param, uint64_t bytes,
		      struct api_error *e)
{
	if (bytes <= env->text_bytes_max)
		return 0;
	return errors_set(e, 400, "context_length_exceeded", param,
			  "%s has %llu bytes, which cannot fit into the context of %u tokens: "
			  "shorten it",
			  param, (unsigned long long)bytes, env->context);
}

static int from_text(const json_t *v, const struct query_env *env, struct prompt *out,
		     struct api_error *e)
{
	const struct tokenizer *t = env->tokenizer;
	uint32_t bos = tokenizer_adds_bos(t) ? 1 : 0;
	int ret = prompt_check_text(env, PROMPT_PARAM, json_string_length(v), e);

	if (ret < 0)
		return ret;
	uint32_t *tokens = malloc(env->context * sizeof(*tokens));
	if (!tokens)
		return prompt_check_length(env, PROMPT_PARAM, -ENOMEM, e);
	if (bos)
		tokens[0] = tokenizer_bos(t);
	int64_t n = tokenizer_encode(t, json_string_value(v), json_string_length(v), true,
				     tokens + bos, env->context - bos);
	ret = prompt_check_length(env, PROMPT_PARAM, n < 0 ? n : n + bos, e);
	if (ret < 0) {
		free(tokens);
		return ret;
	}
	*out = (struct prompt){.tokens = tokens, .count = (uint32_t)n + bos};
	return 0;
}

static int read_id(const json_t *v, uint32_t vocab, uint32_t *out, struct api_error *e)
{
	if (!json_is_integer(v))
		return errors_bad(e, PROMPT_PARAM, "prompt: a token id must be an integer, not %s",
				  body_kind(v));
	json_int_t id = json_integer_value(v);
	if (id < 0 || id >= vocab)
		return errors_bad(e, PROMPT_PARAM,
				  "prompt: token id %lld is outside of the vocabulary of %u",
				  (long long)id, vocab);
	*out = (uint32_t)id;
	return 0;
}

static int from_ids(const json_t *v, const struct query_env *env, struct prompt *out,
		    struct api_error *e)
{
	size_t count = json_array_size(v);
	int ret = prompt_check_length(env, PROMPT_PARAM, (int64_t)count, e);

	if (ret < 0)
		return ret;
	uint32_t *tokens = malloc(count * sizeof(*tokens));
	if (!tokens)
		return prompt_check_length(env, PROMPT_PARAM, -ENOMEM, e);
	for (size_t i = 0; ret == 0 && i < count; i++)
		ret = read_id(json_array_get(v, i), tokenizer_vocab(env->tokenizer), &tokens[i], e);
	if (ret < 0) {
		free(tokens);
		return ret;
	}
	*out = (struct prompt){.tokens = tokens, .count = (uint32_t)count};
	return 0;
}

static int from_one(const json_t *v, const struct query_env *env, struct prompt *out,
		    struct api_error *e)
{
	if (json_is_string(v))
		return from_text(v, env, out, e);
	if (json_is_array(v))
		return from_ids(v, env, out, e);
	return errors_bad(e, PROMPT_PARAM,
			  "prompt must be a string, a list of strings, a list of token ids or a "
			  "list of such lists; it holds %s",
			  body_kind(v));
}

/* A list of prompts, or one prompt: anything but a list, or a list of ids. */
static bool is_list(const json_t *v)
{
	return json_is_array(v) && !json_is_integer(json_array_get(v, 0));
}

int prompt_parse(const json_t *root, const struct query_env *env, struct prompt **out,
		 uint32_t *out_count, struct api_error *e)
{
	const json_t *v = json_object_get(root, PROMPT_PARAM);
	int ret = 0;

	if (!v || json_is_null(v))
		return errors_bad(e, PROMPT_PARAM, "prompt is missing");
	size_t count = is_list(v) ? json_array_size(v) : 1;
	if (count == 0 || count > PROMPT_LIST_MAX)
		return errors_bad(e, PROMPT_PARAM, "prompt must hold 1 to %u prompts, it holds %zu",
				  PROMPT_LIST_MAX, count);
	struct prompt *list = calloc(count, sizeof(*list));
	if (!list)
		return prompt_check_length(env, PROMPT_PARAM, -ENOMEM, e);
	for (size_t i = 0; ret == 0 && i < count; i++)
		ret = from_one(is_list(v) ? json_array_get(v, i) : v, env, &list[i], e);
	if (ret < 0) {
		prompt_list_free(list, (uint32_t)count);
		return ret;
	}
	*out = list;
	*out_count = (uint32_t)count;
	return 0;
}

void prompt_list_free(struct prompt *list, uint32_t count)
{
	for (uint32_t i = 0; list && i < count; i++)
		free(list[i].tokens);
	free(list);
}
