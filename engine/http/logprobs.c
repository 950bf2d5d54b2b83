/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chat: {content: [{token, logprob, bytes, top_logprobs}]}. Completions: four lists side by side.
 * A token that is no whole character is spelled "bytes:\xE2\x80" in completions, whose
 * alternatives are keyed by spelling and must not fall together; chat has the bytes beside it.
 */
#include "engine/http/logprobs.h"
#include "engine/http/buffer.h"
#include "engine/http/jsonout.h"

static void piece(const struct tokenizer *t, uint32_t token, const char **text, size_t *bytes)
{
	if (tokenizer_piece(t, token, true, text, bytes) < 0) {
		*text = "";
		*bytes = 0;
	}
}

json_t *logprobs_new(enum query_kind kind)
{
	if (kind == QUERY_CHAT)
		return json_pack("{s:[], s:n}", "content", "refusal");
	return json_pack("{s:[], s:[], s:[], s:[]}", "tokens", "token_logprobs", "top_logprobs",
			 "text_offset");
}

static json_t *spelling(const struct tokenizer *t, uint32_t token)
{
	struct buffer b = {0};
	const char *text;
	size_t bytes;

	piece(t, token, &text, &bytes);
	if (jsonout_is_utf8(text, bytes))
		return json_stringn(text, bytes);
	buffer_append(&b, "bytes:", 6);
	for (size_t i = 0; i < bytes; i++)
		buffer_printf(&b, "\\x%02x", (unsigned char)text[i]);
	json_t *out = b.failed ? NULL : json_stringn(b.data, b.used);
	buffer_fini(&b);
	return out;
}

static void set_by_spelling(json_t *top, const struct tokenizer *t, uint32_t token, float logprob)
{
	json_t *key = spelling(t, token);

	if (key)
		(void)json_object_setn_new(top, json_string_value(key), json_string_length(key),
					   jsonout_logprob(logprob));
	json_decref(key);
}

/* The alternatives, and the token itself where it is none of them. */
static json_t *top_by_spelling(const struct tokenizer *t, const struct logprobs_entry *entry)
{
	json_t *top = json_object();

	for (uint32_t i = 0; i < entry->top_count; i++)
		set_by_spelling(top, t, entry->top[i].token, entry->top[i].logprob);
	set_by_spelling(top, t, entry->token, entry->logprob);
	return top;
}

static void add_completion(json_t *lp, const struct tokenizer *t,
			   const struct logprobs_entry *entry)
{
	json_t *logprob = entry->known ? jsonout_logprob(entry->logprob) : json_null();
	json_t *top = entry->known ? top_by_spelling(t, entry) : json_null();

	(void)json_array_append_new(json_object_get(lp, "tokens"), spelling(t, entry->token));
	(void)json_array_append_new(json_object_get(lp, "token_logprobs"), logprob);
	(void)json_array_append_new(json_object_get(lp, "top_logprobs"), top);
	(void)json_array_append_new(json_object_get(lp, "text_offset"),
				    json_integer(entry->chars_before));
}

static json_t *chat_token(const struct tokenizer *t, uint32_t token, float logprob)
{
	const char *text;
	size_t bytes;

	piece(t, token, &text, &bytes);
	return json_pack("{s:o, s:o, s:o}", "token", jsonout_text(text, bytes), "logprob",
			 jsonout_logprob(logprob), "bytes", jsonout_bytes(text, bytes));
}

static void add_chat(json_t *lp, const struct tokenizer *t, const struct logprobs_entry *entry)
{
	json_t *item = chat_token(t, entry->token, entry->logprob);
	json_t *top = json_array();

	for (uint32_t i = 0; i < entry->top_count; i++)
		(void)json_array_append_new(
			top, chat_token(t, entry->top[i].token, entry->top[i].logprob));
	(void)json_object_set_new(item, "top_logprobs", top);
	(void)json_array_append_new(json_object_get(lp, "content"), item);
}

void logprobs_add(enum query_kind kind, json_t *lp, const struct tokenizer *t,
		  const struct logprobs_entry *entry)
{
	if (kind == QUERY_CHAT)
		add_chat(lp, t, entry);
	else
		add_completion(lp, t, entry);
}
