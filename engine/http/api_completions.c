/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/completions: a chunk and an answer have the same shape. */
#include "engine/http/api.h"

static json_t *choice(uint32_t index, json_t *text, json_t *logprobs, const char *finish)
{
	return json_pack("{s:i, s:o, s:o, s:s?}", "index", (int)index, "text", text, "logprobs",
			 logprobs ? logprobs : json_null(), "finish_reason", finish);
}

const struct api_format api_completions_format = {
	.kind = QUERY_COMPLETION,
	.id_prefix = "cmpl-",
	.object = "text_completion",
	.chunk_object = "text_completion",
	.chunk = choice,
	.whole = choice,
};
