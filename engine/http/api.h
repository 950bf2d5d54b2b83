/* SPDX-License-Identifier: Apache-2.0 */
/* What differs between the two generating APIs once the engine has answered: the shapes. */
#ifndef ENGINE_HTTP_API_H
#define ENGINE_HTTP_API_H

#include "engine/http/query.h"
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct api_format {
	enum query_kind kind;
	const char *id_prefix;
	const char *object;	  /* of an answer in one piece */
	const char *chunk_object; /* of a streamed chunk */
	/* The choice of a chunk that comes before all others, or NULL: there is none. */
	json_t *(*opening)(uint32_t index);
	/* The other choices. logprobs: taken, may be NULL; finish may be NULL. */
	json_t *(*chunk)(uint32_t index, json_t *text, json_t *logprobs, const char *finish);
	json_t *(*whole)(uint32_t index, json_t *text, json_t *logprobs, const char *finish);
};

extern const struct api_format api_completions_format;
extern const struct api_format api_chat_format;

#endif
