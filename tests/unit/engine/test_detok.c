/* SPDX-License-Identifier: Apache-2.0 */
/* detok.c: whole characters only, and the same text as decoding all at once. */
#include "tests/unit/engine/text_tiny.h"

#include <base/bits.h>
#include <errno.h>

static struct tokenizer *t;

static int setup(void **state)
{
	(void)state;
	t = text_tiny();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	tokenizer_free(t);
	return 0;
}

/* Byte by byte through the detokeniser; "+" marks in `steps` which pushes gave something. */
static size_t decode(const char *bytes, size_t count, char *out, char *steps)
{
	struct detok d;
	size_t used = 0;

	detok_init(&d, t);
	for (size_t i = 0; i < count; i++) {
		int got = detok_push(&d, TINY_BYTE0 + (uint8_t)bytes[i], out + used, 1024);

		assert_true(got >= 0);
		steps[i] = got ? '+' : '-';
		used += (size_t)got;
	}
	steps[count] = '\0';
	int got = detok_finish(&d, out + used, 1024);
	assert_true(got >= 0);
	return used + (size_t)got;
}

#define FFFD "\xef\xbf\xbd"

/* The texts are what Python's bytes.decode("utf-8", "replace") gives. */
static void bytes_become_valid_text_as_early_as_possible(void **state)
{
	static const struct {
		const char *bytes, *text, *steps;
	} cases[] = {
		{"abc", "abc", "+++"},
		{"\xc3\xa9", "\xc3\xa9", "-+"},
		{"\xe2\x82\xac", "\xe2\x82\xac", "--+"},
		{"\xf0\x9f\x98\x80!", "\xf0\x9f\x98\x80!", "---++"},
		{"\xc3(", FFFD "(", "-+"},
		{"\xe2\x82"
		 "a",
		 FFFD "a", "--+"},
		{"\xe2\x82\xe2\x82\xac", FFFD "\xe2\x82\xac", "--+-+"},
		{"\xff", FFFD, "+"},
		{"\xc0\x80", FFFD FFFD, "++"},
		{"\xed\xa0\x80", FFFD FFFD FFFD, "-++"},
		{"\xf4\x90\x80\x80", FFFD FFFD FFFD FFFD, "-+++"},
		{"\xf0\x9f\x98", FFFD, "---"},
		{"a\xe2\x82", "a" FFFD, "+--"},
		{"\xf0\x9f\xc3\xa9", FFFD "\xc3\xa9", "--++"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char out[2048], steps[16];
		size_t used = decode(cases[i].bytes, strlen(cases[i].bytes), out, steps);

		assert_int_equal(used, strlen(cases[i].text));
		assert_memory_equal(out, cases[i].text, used);
		if (i != ARRAY_LEN(cases) - 1)
			assert_string_equal(steps, cases[i].steps);
	}
}

/* Tokens of several bytes come to the same as their bytes one at a time. */
static void cuts_between_tokens_do_not_matter(void **state)
{
	static const char text[] = " the hello\n\n and in\xc3\xa9 of \xf0\x9f\x98\x80 to \xff the";
	uint32_t ids[64];
	char whole[2048], bytewise[2048], steps[64];
	struct detok d;
	size_t used = 0;

	(void)state;
	int64_t count = tokenizer_encode(t, text, sizeof(text) - 1, false, ids, ARRAY_LEN(ids));
	assert_in_range(count, 1, sizeof(text) - 2);
	detok_init(&d, t);
	for (int64_t i = 0; i < count; i++)
		used += (size_t)detok_push(&d, ids[i], whole + used, 1024);
	used += (size_t)detok_finish(&d, whole + used, 1024);
	assert_int_equal(decode(text, sizeof(text) - 1, bytewise, steps), used);
	assert_memory_equal(whole, bytewise, used);
}

static void control_and_unknown_tokens_are_silent(void **state)
{
	struct detok d;
	char out[1024];

	(void)state;
	detok_init(&d, t);
	assert_int_equal(detok_push(&d, TINY_IM_END, out, sizeof(out)), 0);
	assert_int_equal(detok_push(&d, tiny_vocab(), out, sizeof(out)), 0);
	assert_int_equal(detok_push(&d, UINT32_MAX, out, sizeof(out)), 0);
	/* They do not tear a character apart either. */
	assert_int_equal(detok_push(&d, TINY_BYTE0 + 0xc3, out, sizeof(out)), 0);
	assert_int_equal(detok_push(&d, TINY_IM_END, out, sizeof(out)), 0);
	assert_int_equal(detok_push(&d, TINY_BYTE0 + 0xa9, out, sizeof(out)), 2);
}

static void a_full_buffer_loses_nothing(void **state)
{
	struct detok d;
	char out[8];

	(void)state;
	detok_init(&d, t);
	assert_int_equal(detok_push(&d, TINY_BYTE0 + 0xc3, out, 0), 0);
	assert_int_equal(detok_push(&d, TINY_BYTE0 + 0xa9, out, 1), -ENOSPC);
	assert_int_equal(detok_push(&d, TINY_BYTE0 + 0xa9, out, 2), 2);
	assert_int_equal(detok_push(&d, TINY_BYTE0 + 0xc3, out, 0), 0);
	assert_int_equal(detok_finish(&d, out, 2), -ENOSPC);
	assert_int_equal(detok_finish(&d, out, 3), 3);
	assert_int_equal(detok_finish(&d, out, 3), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_become_valid_text_as_early_as_possible),
		cmocka_unit_test(cuts_between_tokens_do_not_matter),
		cmocka_unit_test(control_and_unknown_tokens_are_silent),
		cmocka_unit_test(a_full_buffer_loses_nothing),
	};

	return cmocka_run_group_tests_name("detok", tests, setup, teardown);
}
