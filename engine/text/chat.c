/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chat templates are programs in Jinja. Only one shape is known here, ChatML, with or without a
 * system message of the template's own; a template is taken for it only if it is exactly that,
 * up to spaces inside tags and the way a line feed is written. Everything else is refused rather
 * than guessed.
 *
 * Turns are put together from tokens: the marks of a turn are pushed as ids, and what a message
 * says is encoded as plain text. So nothing that a user writes can open or close a turn.
 */
#include "engine/model/fail.h"
#include "engine/text/parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define START "<|im_start|>"
#define END "<|im_end|>"

/* Templates in canonical form, see canonical(). */
#define LOOP "{%for message in messages%}"
#define IF_NO_SYSTEM "{%if loop.first and messages[0]['role']!='system'%}{{'" START "system\n"
#define AFTER_SYSTEM END "\n'}}{%endif%}"
#define TURNS                                                                                      \
	"{{'" START "'+message['role']+'\n'+message['content']+'" END "'+'\n'}}{%endfor%}"         \
	"{%if add_generation_prompt%}{{'" START "assistant\n'}}{%endif%}"

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_';
}

/* A space inside a tag matters only between two words. */
static bool drops_space(const char *in, const char *start, const char *written, const char *out)
{
	return in == start || written == out || !is_word(written[-1]) || !is_word(in[1]);
}

/*
 * Copies a template without the spaces that mean nothing, with ' for " and line feeds for \n.
 * Text outside of tags and inside of quotes stays as it is. out[strlen(in) + 1].
 */
static void canonical(const char *in, char *out)
{
	const char *start = in, *first = out;
	char quote = 0;
	bool tag = false;

	for (; *in; in++) {
		if (quote && in[0] == '\\' && in[1] == 'n') {
			*out++ = '\n';
			in++;
		} else if (quote && *in == quote) {
			quote = 0;
			*out++ = '\'';
		} else if (tag && !quote && (*in == '\'' || *in == '"')) {
			quote = *in;
			*out++ = '\'';
		} else if (tag && !quote && *in == ' ' && drops_space(in, start, out, first)) {
			continue;
		} else {
			if (!quote && in[0] == '{' && (in[1] == '{' || in[1] == '%'))
				tag = true;
			else if (!quote && in[0] == '}')
				tag = false;
			*out++ = *in;
		}
	}
	*out = '\0';
}

/* Steps over `what` at *at. */
static bool take(const char **at, const char *what)
{
	size_t bytes = strlen(what);

	if (strncmp(*at, what, bytes) != 0)
		return false;
	*at += bytes;
	return true;
}

/* Recognises ChatML in canonical form; what the template says as system goes to *system. */
static int recognise(struct chat_template *c, const char *at)
{
	if (!take(&at, LOOP))
		return 0;
	const char *system = NULL, *after = NULL;
	if (take(&at, IF_NO_SYSTEM)) {
		system = at;
		after = strstr(at, AFTER_SYSTEM);
		if (!after || memchr(system, '\'', (size_t)(after - system)) ||
		    memchr(system, '\\', (size_t)(after - system)))
			return 0;
		at = after + strlen(AFTER_SYSTEM);
	}
	if (strcmp(at, TURNS) != 0)
		return 0;
	if (system) {
		c->system = strndup(system, (size_t)(after - system));
		if (!c->system)
			return -ENOMEM;
	}
	c->chatml = true;
	return 0;
}

int chat_init(struct tokenizer *t)
{
	struct chat_template *c = &t->chat;

	c->start = vocab_find_added(&t->vocab, START);
	c->end = vocab_find_added(&t->vocab, END);
	if (!t->chat_text)
		return 0;
	char *text = malloc(strlen(t->chat_text) + 1);
	if (!text)
		return -ENOMEM;
	canonical(t->chat_text, text);
	int status = recognise(c, text);
	free(text);
	return status;
}

void chat_fini(struct tokenizer *t)
{
	free(t->chat.system);
	t->chat = (struct chat_template){0};
}

int chat_detect(const struct tokenizer *t, const char *choice, enum chat_kind *out, char *error,
		size_t size)
{
	bool tokens = t->chat.start != VOCAB_NONE && t->chat.end != VOCAB_NONE;

	if (choice && strcmp(choice, "none") == 0) {
		*out = CHAT_NONE;
		return 0;
	}
	if (choice && strcmp(choice, "auto") != 0 && strcmp(choice, "chatml") != 0)
		return fail_with(error, size, -ENOTSUP,
				 "--chat-template is auto, chatml or none, not \"%s\"", choice);
	bool forced = choice && strcmp(choice, "chatml") == 0;
	if (!forced && !t->chat.chatml)
		return fail_with(
			error, size, -ENOTSUP,
			"the file's chat template is %s: choose one with --chat-template chatml "
			"or --chat-template none",
			t->chat_text ? "not one that is known" : "missing");
	if (!tokens)
		return fail_with(error, size, -ENOTSUP,
				 "the model has no tokens " START " and " END
				 " for ChatML: use --chat-template none");
	*out = CHAT_CHATML;
	return 0;
}

/* What stands between the marks is one text to the tokenizer, and so it is here. */
static int add_turn(struct encoding *e, const struct chat_template *c, const char *role,
		    const char *content, size_t bytes)
{
	size_t role_bytes = strlen(role);
	char *text = malloc(role_bytes + 1 + bytes);

	if (!text)
		return -ENOMEM;
	memcpy(text, role, role_bytes);
	text[role_bytes] = '\n';
	if (bytes)
		memcpy(text + role_bytes + 1, content, bytes);
	tokenizer_encoding_push(e, c->start);
	int status = tokenizer_encoding_add(e, text, role_bytes + 1 + bytes, false);
	free(text);
	tokenizer_encoding_push(e, c->end);
	return status ? status : tokenizer_encoding_add(e, "\n", 1, false);
}

static int add_chatml(struct encoding *e, const struct chat_template *c,
		      const struct chat_message *messages, size_t count)
{
	int status = 0;

	if (c->system && count && strcmp(messages[0].role, "system") != 0)
		status = add_turn(e, c, "system", c->system, strlen(c->system));
	for (size_t i = 0; !status && i < count; i++)
		status = add_turn(e, c, messages[i].role, messages[i].content,
				  messages[i].content_bytes);
	tokenizer_encoding_push(e, c->start);
	return status ? status : tokenizer_encoding_add(e, "assistant\n", 10, false);
}

/* Without a template a conversation is the lines of its messages. */
static int add_lines(struct encoding *e, const struct chat_message *messages, size_t count)
{
	int status = 0;

	for (size_t i = 0; !status && i < count; i++) {
		status = tokenizer_encoding_add(e, messages[i].content, messages[i].content_bytes,
						false);
		if (!status)
			status = tokenizer_encoding_add(e, "\n", 1, false);
	}
	return status;
}

int64_t chat_encode(const struct tokenizer *t, enum chat_kind kind,
		    const struct chat_message *messages, size_t count, uint32_t *out, size_t max)
{
	struct encoding *e = tokenizer_encoding_new(t, out, max);
	int status;

	if (!e)
		return -ENOMEM;
	if (t->adds_bos)
		tokenizer_encoding_push(e, t->bos);
	if (kind == CHAT_CHATML)
		status = add_chatml(e, &t->chat, messages, count);
	else
		status = add_lines(e, messages, count);
	return tokenizer_encoding_end(e, status);
}
