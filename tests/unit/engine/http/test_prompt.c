/* SPDX-License-Identifier: Apache-2.0 */
/* The four forms of a prompt, BOS and special spellings, and every refusal. */
#include "engine/http/prompt.h"
#include "engine/http/query.h"
#include "tests/test.h"
#include "tests/unit/engine/http/fake_tokenizer.h"
#include <errno.h>

static int parse(const char *text, bool bos, struct prompt **out, uint32_t *count,
		 struct api_error *e)
{
	const struct query_env env = {
		.tokenizer = fake_tokenizer(bos), .context = 10, .text_bytes_max = 20};
	json_t *root = json_loads(text, 0, NULL);

	assert_non_null(root);
	int ret = prompt_parse(root, &env, out, count, e);
	json_decref(root);
	return ret;
}

static void gives(const char *text, bool bos, uint32_t want_prompts, const uint32_t *want,
		  uint32_t want_count)
{
	struct prompt *list;
	struct api_error e;
	uint32_t count;

	assert_int_equal(parse(text, bos, &list, &count, &e), 0);
	assert_int_equal(count, want_prompts);
	assert_int_equal(list[count - 1].count, want_count);
	assert_memory_equal(list[count - 1].tokens, want, want_count * sizeof(*want));
	prompt_list_free(list, count);
}

static void refuses(const char *text, const char *word)
{
	struct prompt *list;
	struct api_error e;
	uint32_t count;

	assert_int_equal(parse(text, false, &list, &count, &e), -EINVAL);
	assert_int_equal(e.status, 400);
	assert_string_equal(e.param, "prompt");
	assert_non_null(strstr(e.message, word));
}

static void test_four_forms(void **state)
{
	gives("{\"prompt\": \"ab\"}", false, 1, (uint32_t[]){'a', 'b'}, 2);
	gives("{\"prompt\": [\"x\", \"ab\"]}", false, 2, (uint32_t[]){'a', 'b'}, 2);
	gives("{\"prompt\": [7, 8, 9]}", false, 1, (uint32_t[]){7, 8, 9}, 3);
	gives("{\"prompt\": [[1], [7, 8, 9]]}", false, 2, (uint32_t[]){7, 8, 9}, 3);
}

static void test_special_and_bos(void **state)
{
	gives("{\"prompt\": \"a<|im_end|>\"}", false, 1, (uint32_t[]){'a', FAKE_TOKEN_END}, 2);
	gives("{\"prompt\": \"a\"}", true, 1, (uint32_t[]){FAKE_TOKEN_START, 'a'}, 2);
	gives("{\"prompt\": \"\"}", true, 1, (uint32_t[]){FAKE_TOKEN_START}, 1);
	gives("{\"prompt\": [65]}", true, 1, (uint32_t[]){65}, 1);
}

static void test_refusals(void **state)
{
	refuses("{}", "missing");
	refuses("{\"prompt\": null}", "missing");
	refuses("{\"prompt\": 5}", "must be a string");
	refuses("{\"prompt\": {}}", "must be a string");
	refuses("{\"prompt\": []}", "1 to 128");
	refuses("{\"prompt\": \"\"}", "no tokens");
	refuses("{\"prompt\": [[]]}", "no tokens");
	refuses("{\"prompt\": [1, \"a\"]}", "must be an integer");
	refuses("{\"prompt\": [258]}", "vocabulary");
	refuses("{\"prompt\": [-1]}", "vocabulary");
	refuses("{\"prompt\": [\"a\", true]}", "must be a string");
	refuses("{\"prompt\": \"0123456789\"}", "shorten");
	refuses("{\"prompt\": \"012345678901234567890\"}", "21 bytes");
	refuses("{\"prompt\": [0,1,2,3,4,5,6,7,8,9]}", "10 tokens");
}

TEST_MAIN(prompt, cmocka_unit_test(test_four_forms), cmocka_unit_test(test_special_and_bos),
	  cmocka_unit_test(test_refusals))
