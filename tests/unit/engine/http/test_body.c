/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies as trees: what is refused before it is parsed, and how one value is read. */
#include "engine/http/body.h"
#include "tests/test.h"
#include <errno.h>

static int parse(const char *text, json_t **out, struct api_error *e)
{
	return body_parse(text, strlen(text), out, e);
}

static void refuses(const char *text, const char *word)
{
	struct api_error e;
	json_t *root;

	assert_int_equal(parse(text, &root, &e), -EINVAL);
	assert_int_equal(e.status, 400);
	assert_non_null(strstr(e.message, word));
}

static void test_refuses_what_is_no_object(void **state)
{
	refuses("", "empty");
	refuses("[1]", "an array");
	refuses("{\"a\": 1", "not JSON");
	refuses("{\"a\": 1, \"a\": 2}", "not JSON");
	refuses("{\"a\": \"\xff\"}", "not JSON");
	refuses("garbage", "not JSON");
}

static void test_refuses_depth(void **state)
{
	char text[400];

	memset(text, '[', 200);
	memset(text + 200, ']', 200);
	text[399] = '\0';
	refuses(text, "deeper");
}

static void test_refuses_too_many_values(void **state)
{
	const size_t values = BODY_VALUES_MAX + 2;
	char *text = malloc(2 * values + 16);
	size_t at = (size_t)sprintf(text, "{\"a\":[");

	for (size_t i = 0; i < values; i++) {
		text[at++] = '1';
		text[at++] = ',';
	}
	strcpy(text + at - 1, "]}");
	refuses(text, "more than");
	free(text);
}

/* Brackets and commas inside of strings are not structure. */
static void test_strings_do_not_count(void **state)
{
	struct api_error e;
	json_t *root;

	assert_int_equal(
		parse("{\"a\": \"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[[[,,,\"}", &root, &e),
		0);
	json_decref(root);
}

static void test_reads_values(void **state)
{
	struct api_error e;
	json_t *root;
	bool b = false;
	int64_t n = 7;
	double r = 0.5;
	const char *text = "default";
	size_t bytes = 7;

	assert_int_equal(
		parse("{\"b\": true, \"n\": 3.0, \"r\": 2, \"s\": \"x\\u0000y\", \"z\": null}",
		      &root, &e),
		0);
	assert_int_equal(body_bool(root, "b", &b, &e), 0);
	assert_true(b);
	assert_int_equal(body_int(root, "n", 0, 5, &n, &e), 0);
	assert_int_equal(n, 3);
	assert_int_equal(body_real(root, "r", 0, 2, &r, &e), 0);
	assert_true(r == 2);
	assert_int_equal(body_string(root, "s", &text, &bytes, &e), 0);
	assert_int_equal(bytes, 3);
	assert_int_equal(body_int(root, "z", 0, 5, &n, &e), 0);
	assert_int_equal(n, 3);
	assert_int_equal(body_int(root, "absent", 0, 5, &n, &e), 0);
	assert_int_equal(body_int(root, "n", 4, 5, &n, &e), -EINVAL);
	assert_string_equal(e.param, "n");
	assert_int_equal(body_int(root, "s", 0, 5, &n, &e), -EINVAL);
	assert_int_equal(body_bool(root, "n", &b, &e), -EINVAL);
	assert_int_equal(body_real(root, "b", 0, 1, &r, &e), -EINVAL);
	assert_int_equal(body_string(root, "b", &text, &bytes, &e), -EINVAL);
	json_decref(root);
}

static void test_integers_must_be_whole(void **state)
{
	struct api_error e;
	json_t *root;
	int64_t n = 1;

	assert_int_equal(parse("{\"half\": 1.5, \"huge\": 1e300}", &root, &e), 0);
	assert_int_equal(body_int(root, "half", 0, 5, &n, &e), -EINVAL);
	assert_int_equal(body_int(root, "huge", 0, INT64_MAX, &n, &e), -EINVAL);
	assert_int_equal(n, 1);
	json_decref(root);
}

TEST_MAIN(body, cmocka_unit_test(test_refuses_what_is_no_object),
	  cmocka_unit_test(test_refuses_depth), cmocka_unit_test(test_refuses_too_many_values),
	  cmocka_unit_test(test_strings_do_not_count), cmocka_unit_test(test_reads_values),
	  cmocka_unit_test(test_integers_must_be_whole))
