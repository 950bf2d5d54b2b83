/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages are checked one by one, and rendered by chat_encode(). Roles come from a list, since a
 * role is part of the template's frame: a free one could forge a turn. Content is a string, null
 * for an assistant that only called tools, or a list of text parts, which are joined.
 */
#include "engine/http/messages.h"
#include "engine/http/body.h"
#include "engine/http/buffer.h"
#include "engine/http/query.h"
#include "engine/text/tokenizer.h"
#include <base/bits.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct messages {
	struct chat_message *message;
	char **joined; /* of messages whose content is a list */
	size_t count;
	uint64_t text_bytes; /* of all contents */
};

/* The name that the template gets, or NULL. */
static const char *known_role(const char *role)
{
	static const char *const known[][2] = {{"system", "system"},
					       {"developer", "system"},
					       {"user", "user"},
					       {"assistant", "assistant"},
					       {"tool", "tool"}};

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (strcmp(role, known[i][0]) == 0)
			return known[i][1];
	return NULL;
}

static int read_role(const json_t *m, size_t i, const char **out, struct api_error *e)
{
	const json_t *v = json_object_get(m, "role");
	char param[48];

	snprintf(param, sizeof(param), "messages[%zu].role", i);
	*out = json_is_string(v) ? known_role(json_string_value(v)) : NULL;
	if (!*out)
		return errors_bad(e, param, "%s must be system, developer, user, assistant or tool",
				  param);
	return 0;
}

/* The text of one {"type": "text", "text": ...}, or NULL. */
static const json_t *part_text(const json_t *part)
{
	const json_t *type = json_object_get(part, "type");
	const json_t *text = json_object_get(part, "text");
	bool is_text = json_is_string(type) && strcmp(json_string_value(type), "text") == 0;

	return is_text && json_is_string(text) ? text : NULL;
}

static int join_parts(const json_t *parts, const char *param, struct buffer *out,
		      struct api_error *e)
{
	for (size_t i = 0; i < json_array_size(parts); i++) {
		const json_t *text = part_text(json_array_get(parts, i));

		if (!text)
			return errors_bad(
				e, param,
				"%s[%zu] must be {\"type\": \"text\", \"text\": \"...\"}: "
				"this model reads text only",
				param, i);
		buffer_append(out, json_string_value(text), json_string_length(text));
	}
	return out->failed ? prompt_check_length(NULL, param, -ENOMEM, e) : 0;
}

static int read_content(const json_t *m, size_t i, struct messages *out, struct api_error *e)
{
	const json_t *v = json_object_get(m, "content");
	struct chat_message *c = &out->message[i];
	struct buffer joined = {0};
	char param[40];

	snprintf(param, sizeof(param), "messages[%zu].content", i);
	if (json_is_string(v)) {
		c->content = json_string_value(v);
		c->content_bytes = json_string_length(v);
		return 0;
	}
	if ((!v || json_is_null(v)) && strcmp(c->role, "assistant") == 0) {
		c->content = "";
		return 0;
	}
	if (!json_is_array(v))
		return errors_bad(e, param, "%s must be a string or a list of text parts", param);
	int ret = join_parts(v, param, &joined, e);
	out->joined[i] = joined.data;
	c->content = joined.data ? joined.data : "";
	c->content_bytes = joined.used;
	return ret;
}

static int read_message(const json_t *m, size_t i, struct messages *out, struct api_error *e)
{
	char param[48];

	snprintf(param, sizeof(param), "messages[%zu]", i);
	if (!json_is_object(m))
		return errors_bad(e, param, "%s must be an object with role and content", param);
	int ret = read_role(m, i, &out->message[i].role, e);
	return ret < 0 ? ret : read_content(m, i, out, e);
}

static void messages_fini(struct messages *m)
{
	for (size_t i = 0; m->joined && i < m->count; i++)
		free(m->joined[i]);
	free(m->joined);
	free(m->message);
}

static int encode(const struct messages *m, const struct query_env *env, struct prompt **out,
		  struct api_error *e)
{
	struct prompt *p = calloc(1, sizeof(*p));
	int64_t n = -ENOMEM;

	if (p)
		p->tokens = malloc(env->context * sizeof(*p->tokens));
	if (p && p->tokens)
		n = chat_encode(env->tokenizer, env->chat, m->message, m->count, p->tokens,
				env->context);
	int ret = prompt_check_length(env, "messages", n, e);
	if (ret < 0) {
		prompt_list_free(p, 1);
		return ret;
	}
	p->count = (uint32_t)n;
	*out = p;
	return 0;
}

int messages_parse(const json_t *root, const struct query_env *env, struct prompt **out,
		   struct api_error *e)
{
	const json_t *v = json_object_get(root, "messages");
	struct messages m = {.count = json_array_size(v)};
	int ret = 0;

	if (env->chat == CHAT_NONE)
		return errors_bad(e, NULL,
				  "this model has no chat template: use /v1/completions, or start "
				  "the engine with --chat-template chatml");
	if (m.count == 0 || m.count > MESSAGES_MAX)
		return errors_bad(e, "messages", "messages must be a list of 1 to %u messages",
				  MESSAGES_MAX);
	m.message = calloc(m.count, sizeof(*m.message));
	m.joined = calloc(m.count, sizeof(*m.joined));
	if (!m.message || !m.joined)
		ret = prompt_check_length(env, "messages", -ENOMEM, e);
	for (size_t i = 0; ret == 0 && i < m.count; i++) {
		ret = read_message(json_array_get(v, i), i, &m, e);
		m.text_bytes += m.message[i].content_bytes;
	}
	if (ret == 0)
		ret = prompt_check_text(env, "messages", m.text_bytes, e);
	if (ret == 0)
		ret = encode(&m, env, out, e);
	messages_fini(&m);
	return ret;
}
