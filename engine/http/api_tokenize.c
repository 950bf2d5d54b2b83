/* SPDX-License-Identifier: Apache-2.0 */
/* /tokenize and /detokenize: what a client must know to count, and to send token ids. */
#include "engine/http/answer.h"
#include "engine/http/body.h"
#include "engine/http/handlers.h"
#include "engine/http/jsonout.h"
#include "engine/http/messages.h"
#include "engine/http/prompt.h"

static int parse_one(struct exchange *x, struct prompt **out, uint32_t *out_count)
{
	json_t *root;
	int ret = exchange_json(x, &root);

	if (ret < 0)
		return ret;
	*out_count = 1;
	if (json_object_get(root, "messages"))
		ret = messages_parse(root, &x->http->env, out, &x->error);
	else
		ret = prompt_parse(root, &x->http->env, out, out_count, &x->error);
	exchange_json_free(x, root);
	if (ret == 0 && *out_count != 1) {
		prompt_list_free(*out, *out_count);
		ret = errors_bad(&x->error, "prompt", "prompt must be one string here");
	}
	return ret;
}

enum MHD_Result api_tokenize_run(struct exchange *x)
{
	struct prompt *p;
	uint32_t count;

	if (parse_one(x, &p, &count) < 0)
		return answer_error(x, NULL);
	json_t *tokens = json_array();
	for (uint32_t i = 0; i < p->count; i++)
		(void)json_array_append_new(tokens, json_integer(p->tokens[i]));
	json_t *out = json_pack("{s:I, s:I, s:o}", "count", (json_int_t)p->count, "max_model_len",
				(json_int_t)x->http->env.context, "tokens", tokens);
	prompt_list_free(p, 1);
	return answer_json(x, 200, out);
}

static json_t *text_of(const struct prompt *p, const struct tokenizer *t)
{
	struct buffer text = {0};
	struct detok d;
	char piece[1024];

	detok_init(&d, t);
	for (uint32_t i = 0; i < p->count; i++) {
		int n = detok_push(&d, p->tokens[i], piece, sizeof(piece));

		buffer_append(&text, piece, n > 0 ? (size_t)n : 0);
	}
	int n = detok_finish(&d, piece, sizeof(piece));
	buffer_append(&text, piece, n > 0 ? (size_t)n : 0);
	json_t *out = text.failed ? NULL : jsonout_text(text.data, text.used);
	buffer_fini(&text);
	return out;
}

enum MHD_Result api_tokenize_reverse(struct exchange *x)
{
	struct prompt *p = NULL;
	uint32_t count = 0;
	json_t *root;
	int ret = exchange_json(x, &root);

	if (ret < 0)
		return answer_error(x, NULL);
	json_t *tokens = json_object_get(root, "tokens");
	json_t *as_prompt = json_pack("{s:O*}", "prompt", tokens);
	if (!json_is_array(tokens) || !json_is_integer(json_array_get(tokens, 0)))
		ret = errors_bad(&x->error, "tokens", "tokens must be a list of token ids");
	else
		ret = prompt_parse(as_prompt, &x->http->env, &p, &count, &x->error);
	json_decref(as_prompt);
	exchange_json_free(x, root);
	if (ret < 0)
		return answer_error(x, NULL);
	json_t *text = text_of(p, x->http->service.tokenizer);
	prompt_list_free(p, count);
	return answer_json(x, 200, json_pack("{s:o}", "prompt", text));
}
