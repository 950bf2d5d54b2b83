/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Request bodies of both APIs, through everything that reads them: the first byte chooses the API
 * and whether the model wants BOS. What is accepted must keep its promises to the engine.
 */
#include "engine/http/body.h"
#include "engine/http/query.h"
#include "tests/unit/engine/http/fake_tokenizer.h"
#include <base/assert.h>
#include <string.h>

#define CONTEXT 64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct query *r)
{
	uint32_t choices = query_choice_count(r);

	ASSERT(choices >= 1 && choices <= QUERY_CHOICES_MAX);
	ASSERT(r->stop.count <= STOP_STRINGS_MAX);
	ASSERT(r->sampling.temperature >= 0 && r->sampling.top_p > 0 && r->sampling.top_p <= 1);
	for (uint32_t i = 0; i < choices; i++) {
		struct engine_submit_args args = query_submit_args(r, i, fake_tokenizer(false));

		ASSERT(args.token_count >= 1 && args.token_count < CONTEXT);
		ASSERT(args.max_tokens >= 1 && args.token_count + args.max_tokens <= CONTEXT);
		ASSERT(args.min_tokens <= args.max_tokens);
		ASSERT(args.logprobs <= ENGINE_LOGPROBS_MAX);
		for (uint32_t k = 0; k < args.token_count; k++)
			ASSERT(args.tokens[k] < FAKE_VOCAB);
	}
}

static void check_error(const struct api_error *e)
{
	ASSERT(e->status >= 400 && e->status < 600 && e->message[0]);
	json_t *v = errors_json(e);

	ASSERT(v);
	json_decref(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct api_error e;
	struct query r;
	json_t *root;

	if (size == 0)
		return 0;
	const struct query_env env = {.tokenizer = fake_tokenizer(data[0] & 2),
				      .chat = CHAT_CHATML,
				      .model = "tiny",
				      .context = CONTEXT,
				      .text_bytes_max = 12 * CONTEXT};
	enum query_kind kind = data[0] & 1 ? QUERY_CHAT : QUERY_COMPLETION;

	if (body_parse((const char *)data + 1, size - 1, &root, &e) < 0) {
		check_error(&e);
		return 0;
	}
	if (query_parse(kind, &env, root, &r, &e) < 0) {
		check_error(&e);
	} else {
		check(&r);
		query_fini(&r);
	}
	json_decref(root);
	return 0;
}
