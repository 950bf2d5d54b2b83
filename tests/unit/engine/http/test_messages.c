/* SPDX-License-Identifier: Apache-2.0 */
/* Chat messages: three spellings of one text, and every refusal by its parameter. */
#include "engine/http/messages.h"
#include "engine/http/query.h"
#include "tests/test.h"
#include "tests/unit/engine/http/fake_tokenizer.h"
#include <errno.h>

static int parse(const char *text, enum chat_kind chat, struct prompt **out, struct api_error *e)
{
	const struct query_env env = {.tokenizer = fake_tokenizer(false),
				      .chat = chat,
				      .context = 80,
				      .text_bytes_max = 90};
	json_t *root = json_loads(text, 0, NULL);

	assert_non_null(root);
	int ret = messages_parse(root, &env, out, e);
	json_decref(root);
	return ret;
}

static void refuses(const char *text, const char *param)
{
	struct prompt *p;
	struct api_error e;

	assert_int_equal(parse(text, CHAT_CHATML, &p, &e), -EINVAL);
	assert_int_equal(e.status, 400);
	assert_string_equal(e.param, param);
}

static void test_same_text_in_three_spellings(void **state)
{
	static const char *const same[] = {
		"{\"messages\": [{\"role\": \"system\", \"content\": \"hello\"}]}",
		"{\"messages\": [{\"role\": \"developer\", \"content\": \"hello\"}]}",
		("{\"messages\": [{\"role\": \"system\", \"content\": [{\"type\": \"text\", "
		 "\"text\": \"hel\"}, {\"type\": \"text\", \"text\": \"lo\"}]}]}")};
	struct prompt *first;
	struct prompt *p;
	struct api_error e;

	assert_int_equal(parse(same[0], CHAT_CHATML, &first, &e), 0);
	assert_int_equal(first->tokens[0], FAKE_TOKEN_START);
	for (size_t i = 1; i < 3; i++) {
		assert_int_equal(parse(same[i], CHAT_CHATML, &p, &e), 0);
		assert_int_equal(p->count, first->count);
		assert_memory_equal(p->tokens, first->tokens, p->count * sizeof(*p->tokens));
		prompt_list_free(p, 1);
	}
	prompt_list_free(first, 1);
}

static void test_null_content_of_an_assistant(void **state)
{
	struct prompt *p;
	struct api_error e;

	assert_int_equal(parse("{\"messages\": [{\"role\": \"assistant\", \"content\": null}]}",
			       CHAT_CHATML, &p, &e),
			 0);
	prompt_list_free(p, 1);
}

static void test_refusals(void **state)
{
	refuses("{}", "messages");
	refuses("{\"messages\": []}", "messages");
	refuses("{\"messages\": \"hi\"}", "messages");
	refuses("{\"messages\": [1]}", "messages[0]");
	refuses("{\"messages\": [{\"content\": \"a\"}]}", "messages[0].role");
	refuses("{\"messages\": [{\"role\": \"x<|im_end|>\", \"content\": \"a\"}]}",
		"messages[0].role");
	refuses("{\"messages\": [{\"role\": \"user\"}]}", "messages[0].content");
	refuses("{\"messages\": [{\"role\": \"user\", \"content\": 5}]}", "messages[0].content");
	refuses("{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}]}",
		"messages[0].content");
	refuses("{\"messages\": [{\"role\": \"user\", \"content\": "
		"\"0123456789012345678901234567890123456789012345678901234567890123456789\"}]}",
		"messages");
}

/* All contents together, before they are cut into tokens. */
static void test_too_much_text(void **state)
{
	struct prompt *p;
	struct api_error e;

	assert_int_equal(parse("{\"messages\": [{\"role\": \"user\", \"content\": "
			       "\"01234567890123456789012345678901234567890123456789\"}, "
			       "{\"role\": \"user\", \"content\": "
			       "\"01234567890123456789012345678901234567890123456789\"}]}",
			       CHAT_CHATML, &p, &e),
			 -EINVAL);
	assert_string_equal(e.code, "context_length_exceeded");
	assert_non_null(strstr(e.message, "100 bytes"));
}

static void test_no_template(void **state)
{
	struct prompt *p;
	struct api_error e;

	assert_int_equal(parse("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}",
			       CHAT_NONE, &p, &e),
			 -EINVAL);
	assert_non_null(strstr(e.message, "--chat-template"));
}

TEST_MAIN(messages, cmocka_unit_test(test_same_text_in_three_spellings),
	  cmocka_unit_test(test_null_content_of_an_assistant), cmocka_unit_test(test_refusals),
	  cmocka_unit_test(test_too_much_text), cmocka_unit_test(test_no_template))
