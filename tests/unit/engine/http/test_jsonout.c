/* SPDX-License-Identifier: Apache-2.0 */
/* What JSON cannot hold: bytes that are not UTF-8, numbers that are not finite. */
#include "engine/http/jsonout.h"
#include "tests/test.h"
#include <math.h>

static void becomes(const char *text, size_t bytes, const char *want)
{
	json_t *v = jsonout_text(text, bytes);

	assert_non_null(v);
	assert_string_equal(json_string_value(v), want);
	json_decref(v);
}

static void test_text(void **state)
{
	becomes(NULL, 0, "");
	becomes("abc", 3, "abc");
	becomes("a\xC3\xA9", 3, "a\xC3\xA9");
	becomes("a\xC3", 2, "a\xEF\xBF\xBD");
	becomes("\xFFz", 2, "\xEF\xBF\xBDz");
	becomes("a\xF0\x9F", 3, "a\xEF\xBF\xBD");
	becomes("\xE2\x82z", 3, "\xEF\xBF\xBDz");
	becomes("\xED\xA0\x80", 3, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
}

static void test_logprob_is_finite(void **state)
{
	const float odd[] = {-INFINITY, NAN, INFINITY};

	for (size_t i = 0; i < 3; i++) {
		json_t *v = jsonout_logprob(odd[i]);

		assert_true(json_real_value(v) == -9999.0);
		json_decref(v);
	}
}

static void test_chars(void **state)
{
	assert_int_equal(jsonout_chars("a\xC3\xA9\xE2\x82\xAC", 6), 3);
	assert_int_equal(jsonout_chars("", 0), 0);
}

TEST_MAIN(jsonout, cmocka_unit_test(test_text), cmocka_unit_test(test_logprob_is_finite),
	  cmocka_unit_test(test_chars))
