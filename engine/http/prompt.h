/* SPDX-License-Identifier: Apache-2.0 */
/* Prompts as clients write them (text, token ids, lists of both, messages), as token ids. */
#ifndef ENGINE_HTTP_PROMPT_H
#define ENGINE_HTTP_PROMPT_H

#include "engine/http/errors.h"
#include <jansson.h>
#include <stdint.h>

#define PROMPT_LIST_MAX 128u

struct query_env;

struct prompt {
	uint32_t *tokens;
	uint32_t count; /* 1 .. context - 1 */
};

/* Reads root.prompt. 0, or -EINVAL with *e. prompt_list_free() is due on success. */
int prompt_parse(const json_t *root, const struct query_env *env, struct prompt **out,
		 uint32_t *out_count, struct api_error *e);
void prompt_list_free(struct prompt *list, uint32_t count);
/*
 * 0, or -EINVAL with *e, which says how long the prompt is and what the context takes. Text is
 * checked before it is cut into tokens: megabytes of one word would take seconds.
 */
int prompt_check_text(const struct query_env *env, const char *param, uint64_t bytes,
		      struct api_error *e);
/* The same of its tokens. Negative: there was no memory to count them. */
int prompt_check_length(const struct query_env *env, const char *param, int64_t tokens,
			struct api_error *e);

#endif
