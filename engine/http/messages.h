/* SPDX-License-Identifier: Apache-2.0 */
/* Chat messages, as the token ids of one prompt. */
#ifndef ENGINE_HTTP_MESSAGES_H
#define ENGINE_HTTP_MESSAGES_H

#include "engine/http/errors.h"
#include "engine/http/prompt.h"
#include <jansson.h>

#define MESSAGES_MAX 1024u

/* Reads root.messages. 0, or -EINVAL with *e. *out is a list of one: prompt_list_free() it. */
int messages_parse(const json_t *root, const struct query_env *env, struct prompt **out,
		   struct api_error *e);

#endif
