/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters: defaults, every one of them set, and every refusal by its name. */
#include "engine/http/body.h"
#include "engine/http/query.h"
#include "tests/test.h"
#include "tests/unit/engine/http/fake_tokenizer.h"
#include <errno.h>

static struct query_env env(void)
{
	return (struct query_env){.tokenizer = fake_tokenizer(false),
				  .chat = CHAT_CHATML,
				  .model = "tiny",
				  .context = 100,
				  .text_bytes_max = 1000};
}

static int parse(enum query_kind kind, const char *text, struct query *r, struct api_error *e)
{
	struct query_env v = env();
	json_t *root;

	assert_int_equal(body_parse(text, strlen(text), &root, e), 0);
	int ret = query_parse(kind, &v, root, r, e);
	json_decref(root);
	return ret;
}

static void refuses(enum query_kind kind, const char *text, int status, const char *param)
{
	struct query r;
	struct api_error e;

	assert_int_equal(parse(kind, text, &r, &e), -EINVAL);
	assert_int_equal(e.status, status);
	assert_string_equal(e.param, param);
	if (param[0])
		assert_non_null(strstr(e.message, e.code ? "" : param));
}

static void test_defaults(void **state)
{
	struct query r;
	struct api_error e;

	assert_int_equal(parse(QUERY_COMPLETION, "{\"prompt\": \"abc\"}", &r, &e), 0);
	assert_int_equal(r.prompt_count, 1);
	assert_int_equal(r.prompt[0].count, 3);
	assert_int_equal(r.n, 1);
	assert_int_equal(r.max_tokens, 16);
	assert_true(r.use_cache);
	assert_false(r.logprobs || r.stream || r.echo || r.ignore_end);
	assert_true(r.sampling.temperature == 1 && r.sampling.top_p == 1);
	assert_int_equal(r.sampling.top_k, 0);
	query_fini(&r);
	assert_int_equal(parse(QUERY_CHAT,
			       "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}", &r,
			       &e),
			 0);
	assert_int_equal(r.max_tokens, 0);
	assert_int_equal(query_token_limit(&r, 0), 100 - r.prompt[0].count);
	query_fini(&r);
}

static void test_every_parameter(void **state)
{
	struct query r;
	struct api_error e;
	const char *text =
		"{\"model\": \"tiny\", \"prompt\": [\"a\", \"bc\"], \"n\": 2, \"max_tokens\": 9, "
		"\"min_tokens\": 2, \"ignore_eos\": true, \"stop\": [\"x\", \"yy\"], \"seed\": -5, "
		"\"temperature\": 0, \"top_p\": 0.5, \"top_k\": -1, \"min_p\": 0.25, \"logprobs\": "
		"3, "
		"\"echo\": true, \"cache\": false, \"stream\": true, \"user\": \"me\", "
		"\"repetition_penalty\": 1.0, \"presence_penalty\": 0, \"logit_bias\": {}, "
		"\"stream_options\": {\"include_usage\": true, \"continuous_usage_stats\": true}}";

	assert_int_equal(parse(QUERY_COMPLETION, text, &r, &e), 0);
	assert_int_equal(query_choice_count(&r), 4);
	assert_int_equal(query_prompt(&r, 3)->count, 2);
	assert_int_equal(r.stop.count, 2);
	assert_memory_equal(r.stop.string[1].text, "yy", 2);
	struct engine_submit_args a = query_submit_args(&r, 3, fake_tokenizer(false));
	assert_int_equal(a.token_count, 2);
	assert_int_equal(a.max_tokens, 9);
	assert_int_equal(a.min_tokens, 2);
	assert_true(a.ignore_end && !a.use_cache && a.prompt_logprobs);
	assert_int_equal(a.logprobs, 3);
	assert_int_equal(a.sampling.seed, (uint64_t)-5 + 1);
	assert_int_equal(a.end_count, 1);
	assert_int_equal(a.end_tokens[0], FAKE_TOKEN_END);
	assert_true(r.include_usage && r.continuous_usage && r.stream);
	query_fini(&r);
}

static void test_chat_length_names(void **state)
{
	struct query r;
	struct api_error e;

	assert_int_equal(parse(QUERY_CHAT,
			       "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], "
			       "\"max_tokens\": 3, \"max_completion_tokens\": 5, \"stop\": null}",
			       &r, &e),
			 0);
	assert_int_equal(r.max_tokens, 5);
	query_fini(&r);
}

static void test_max_tokens_zero_with_echo(void **state)
{
	struct query r;
	struct api_error e;

	assert_int_equal(parse(QUERY_COMPLETION,
			       "{\"prompt\": [65, 66], \"echo\": true, \"max_tokens\": 0}", &r, &e),
			 0);
	assert_true(r.echo_only);
	assert_int_equal(r.max_tokens, 1);
	query_fini(&r);
	refuses(QUERY_COMPLETION, "{\"prompt\": \"a\", \"max_tokens\": 0}", 400, "max_tokens");
}

static void test_refusals_name_the_parameter(void **state)
{
	static const char *const bad[][2] = {
		{"\"temperature\": 3", "temperature"},
		{"\"temperature\": \"hot\"", "temperature"},
		{"\"top_p\": 0", "top_p"},
		{"\"top_k\": 1.5", "top_k"},
		{"\"min_p\": -1", "min_p"},
		{"\"seed\": []", "seed"},
		{"\"n\": 0", "n"},
		{"\"n\": 129", "n"},
		{"\"max_tokens\": -1", "max_tokens"},
		{"\"min_tokens\": 17", "min_tokens"},
		{"\"stream\": 1", "stream"},
		{"\"stream_options\": true", "stream_options"},
		{"\"stop\": 1", "stop"},
		{"\"stop\": [1]", "stop"},
		{"\"stop\": \"\"", "stop"},
		{"\"logprobs\": true", "logprobs"},
		{"\"logprobs\": 21", "logprobs"},
		{"\"echo\": \"yes\"", "echo"},
		{"\"cache\": \"no\"", "cache"},
		{"\"ignore_eos\": 0.5", "ignore_eos"},
		{"\"tools\": [{}]", "tools"},
		{"\"presence_penalty\": 0.5", "presence_penalty"},
		{"\"repetition_penalty\": 1.1", "repetition_penalty"},
		{"\"logit_bias\": {\"1\": 2}", "logit_bias"},
		{"\"response_format\": {\"type\": \"json_object\"}", "response_format"},
	};
	char text[256];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), "{\"prompt\": \"a\", %s}", bad[i][0]);
		refuses(QUERY_COMPLETION, text, 400, bad[i][1]);
	}
	refuses(QUERY_COMPLETION, "{\"prompt\": \"a\", \"model\": \"other\"}", 404, "model");
	refuses(QUERY_COMPLETION, "{\"prompt\": \"a\", \"model\": 1}", 400, "model");
	refuses(QUERY_CHAT,
		"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"top_logprobs\": 2}",
		400, "top_logprobs");
}

/* The longest spelling of the stand-in's tokens is <|im_start|>. */
static void test_text_bytes_max(void **state)
{
	assert_int_equal(query_text_bytes_max(fake_tokenizer(false), 100), 1200);
}

TEST_MAIN(query, cmocka_unit_test(test_text_bytes_max), cmocka_unit_test(test_defaults),
	  cmocka_unit_test(test_every_parameter), cmocka_unit_test(test_chat_length_names),
	  cmocka_unit_test(test_max_tokens_zero_with_echo),
	  cmocka_unit_test(test_refusals_name_the_parameter))
