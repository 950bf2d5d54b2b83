/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/chat/completions: the first chunk names the role, the others hold content. */
#include "engine/http/api.h"

static json_t *opening(uint32_t index)
{
	return json_pack("{s:i, s:{s:s, s:s}, s:n, s:n}", "index", (int)index, "delta", "role",
			 "assistant", "content", "", "logprobs", "finish_reason");
}

static json_t *chunk(uint32_t index, json_t *text, json_t *logprobs, const char *finish)
{
	return json_pack("{s:i, s:{s:o}, s:o, s:s?}", "index", (int)index, "delta", "content", text,
			 "logprobs", logprobs ? logprobs : json_null(), "finish_reason", finish);
}

static json_t *whole(uint32_t index, json_t *text, json_t *logprobs, const char *finish)
{
	return json_pack("{s:i, s:{s:s, s:o, s:n}, s:o, s:s?}", "index", (int)index, "message",
			 "role", "assistant", "content", text, "refusal", "logprobs",
			 logprobs ? logprobs : json_null(), "finish_reason", finish);
}

const struct api_format api_chat_format = {
	.kind = QUERY_CHAT,
	.id_prefix = "chatcmpl-",
	.object = "chat.completion",
	.chunk_object = "chat.completion.chunk",
	.opening = opening,
	.chunk = chunk,
	.whole = whole,
};
