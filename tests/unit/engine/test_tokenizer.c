/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.c over the tiny vocabulary: special spellings, broken text, limits, hostile files. */
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

static void expect(const char *text, bool special, const uint32_t *want, size_t count)
{
	uint32_t got[64];
	int64_t n = tokenizer_encode(t, text, strlen(text), special, got, ARRAY_LEN(got));

	assert_int_equal(n, count);
	assert_memory_equal(got, want, count * sizeof(*got));
}

#define BYTE(b) (TINY_BYTE0 + (uint8_t)(b))

static void special_spellings_are_tokens_only_on_request(void **state)
{
	uint32_t plain[16];
	static const char text[] = "<|im_end|>";

	(void)state;
	expect(text, true, (const uint32_t[]){TINY_IM_END}, 1);
	expect("x<|im_start|><|im_end|>y", true,
	       (const uint32_t[]){BYTE('x'), TINY_IM_START, TINY_IM_END, BYTE('y')}, 4);
	expect("<<|im_end|>", true, (const uint32_t[]){BYTE('<'), TINY_IM_END}, 2);
	int64_t n = tokenizer_encode(t, text, strlen(text), false, plain, ARRAY_LEN(plain));
	assert_in_range(n, 5, ARRAY_LEN(plain));
	for (int64_t i = 0; i < n; i++)
		assert_in_range(plain[i], TINY_BYTE0, tiny_vocab());
}

static void broken_text_becomes_replacement_characters(void **state)
{
	(void)state;
	expect("a\xff"
	       "b",
	       false, (const uint32_t[]){BYTE('a'), BYTE(0xef), BYTE(0xbf), BYTE(0xbd), BYTE('b')},
	       5);
	expect("\xe2\x82", false, (const uint32_t[]){BYTE(0xef), BYTE(0xbf), BYTE(0xbd)}, 3);
}

static void tokens_beyond_the_array_are_counted(void **state)
{
	uint32_t ids[3] = {9, 9, 9};

	(void)state;
	assert_int_equal(tokenizer_encode(t, "zqzq", 4, false, ids, 2), 4);
	assert_int_equal(ids[1], BYTE('q'));
	assert_int_equal(ids[2], 9);
	assert_int_equal(tokenizer_encode(t, "zqzq", 4, false, NULL, 0), 4);
	assert_int_equal(tokenizer_encode(t, "", 0, true, NULL, 0), 0);
}

/* What was learnt of a word changes nothing: not the first time, nor where the array was short. */
static void words_are_the_same_again(void **state)
{
	static const char text[] = "the hello hell and thehello Zing ing 's";
	uint32_t first[64], again[64], none[1];
	struct tokenizer *fresh = text_tiny();
	int64_t n = tokenizer_encode(fresh, text, strlen(text), false, first, ARRAY_LEN(first));

	(void)state;
	assert_in_range(n, 1, ARRAY_LEN(first));
	for (size_t i = 0; i < 3; i++) {
		int64_t m =
			tokenizer_encode(fresh, text, strlen(text), false, again, ARRAY_LEN(again));

		assert_int_equal(m, n);
		assert_memory_equal(again, first, (size_t)n * sizeof(*first));
	}
	tokenizer_free(fresh);
	fresh = text_tiny();
	assert_int_equal(tokenizer_encode(fresh, text, strlen(text), false, none, 1), n);
	assert_int_equal(tokenizer_encode(fresh, text, strlen(text), false, again, 64), n);
	assert_memory_equal(again, first, (size_t)n * sizeof(*first));
	tokenizer_free(fresh);
}

/* Every byte has a token here, so any valid text comes back as it was. */
static void random_texts_come_back(void **state)
{
	static const char *const parts[] = {"the",
					    " ",
					    "hello",
					    "\n",
					    "1",
					    "\xc3\xa9",
					    "\xe6\x97\xa5",
					    "\xf0\x9f\x98\x80",
					    "<|im_end|>",
					    "'s",
					    "\t",
					    "and",
					    "\x7f",
					    "\xc2\x85",
					    "Z",
					    "<",
					    "ing"};
	uint64_t random = 8;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		char text[512], back[1024];
		uint32_t ids[512];
		size_t bytes = 0, used = 0, count = test_random(&random) % 40;

		for (size_t i = 0; i < count; i++) {
			const char *part = parts[test_random(&random) % ARRAY_LEN(parts)];

			memcpy(text + bytes, part, strlen(part));
			bytes += strlen(part);
		}
		bool special = round % 2;
		int64_t n = tokenizer_encode(t, text, bytes, special, ids, ARRAY_LEN(ids));
		for (int64_t i = 0; i < n; i++) {
			const char *piece;
			size_t length;

			assert_int_equal(tokenizer_piece(t, ids[i], true, &piece, &length), 0);
			memcpy(back + used, piece, length);
			used += length;
		}
		assert_int_equal(used, bytes);
		assert_memory_equal(back, text, bytes);
	}
}

static void questions_are_answered(void **state)
{
	const char *text;
	size_t bytes;

	(void)state;
	assert_int_equal(tokenizer_vocab(t), tiny_vocab());
	assert_int_equal(tokenizer_bos(t), TINY_IM_START);
	assert_false(tokenizer_adds_bos(t));
	assert_true(tokenizer_is_end(t, TINY_IM_END));
	assert_true(tokenizer_is_end(t, TINY_ENDOFTEXT));
	assert_false(tokenizer_is_end(t, TINY_IM_START));
	assert_false(tokenizer_is_end(t, UINT32_MAX));
	assert_non_null(strstr(tokenizer_template(t), "<|im_start|>"));
	assert_int_equal(tokenizer_piece(t, tiny_vocab(), true, &text, &bytes), -EINVAL);
	assert_int_equal(tokenizer_piece(t, TINY_IM_END, false, &text, &bytes), 0);
	assert_int_equal(bytes, 0);
	assert_int_equal(tokenizer_piece(t, TINY_IM_END, true, &text, &bytes), 0);
	assert_int_equal(bytes, 10);
	assert_int_equal(tokenizer_piece(t, BYTE(0), false, &text, &bytes), 0);
	assert_int_equal(bytes, 1);
	assert_int_equal(text[0], 0);
}

static void wrong_files_are_refused(void **state)
{
	/* Each replaces bytes of the file, found by what stands there. */
	static const struct {
		const char *find, *replace;
		int status;
		const char *words;
	} cases[] = {
		{"gpt2", "bert", -ENOTSUP, "tokenizer \"bert\""},
		{"smollm", "smolly", -ENOTSUP, "pre-tokenizer \"smolly\""},
		{"tokenizer.ggml.tokens", "tokenizer.ggml.tokenz", -EINVAL, "no list of tokens"},
		{"tokenizer.ggml.merges", "tokenizer.ggml.mergez", -EINVAL, "no list of at most"},
		{"\xc4\xa0t he", "\xc4\xa0t hx", -EINVAL, "does not make one token"},
		{"\xc4\xa0t he", "\xc4\xa0t_he", -EINVAL, "does not make one token"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct tiny_options o = tiny_defaults(1);
		size_t bytes;
		uint8_t *file = tiny_build(&o, &bytes);
		char error[256] = "";
		struct tokenizer *bad = NULL;
		struct gguf *g;

		uint8_t *at = memmem(file, bytes, cases[i].find, strlen(cases[i].find));
		assert_non_null(at);
		memcpy(at, cases[i].replace, strlen(cases[i].replace));
		assert_int_equal(gguf_open_memory(file, bytes, &g, error, sizeof(error)), 0);
		assert_int_equal(tokenizer_new(g, &bad, error, sizeof(error)), cases[i].status);
		assert_null(bad);
		if (!strstr(error, cases[i].words))
			fail_msg("\"%s\" does not say \"%s\"", error, cases[i].words);
		gguf_close(g);
		free(file);
	}
}

static void ids_outside_of_the_list_are_refused(void **state)
{
	struct tiny_options o = tiny_defaults(1);
	static const char key[] = "tokenizer.ggml.eos_token_id";
	size_t bytes;
	uint8_t *file = tiny_build(&o, &bytes);
	struct tokenizer *bad = NULL;
	char error[256] = "";
	struct gguf *g;

	(void)state;
	uint8_t *at = memmem(file, bytes, key, strlen(key));
	assert_non_null(at);
	at[strlen(key) + 4 + 1] = 0xff;
	assert_int_equal(gguf_open_memory(file, bytes, &g, error, sizeof(error)), 0);
	assert_int_equal(tokenizer_new(g, &bad, error, sizeof(error)), -EINVAL);
	assert_non_null(strstr(error, key));
	gguf_close(g);
	free(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(special_spellings_are_tokens_only_on_request),
		cmocka_unit_test(broken_text_becomes_replacement_characters),
		cmocka_unit_test(tokens_beyond_the_array_are_counted),
		cmocka_unit_test(words_are_the_same_again),
		cmocka_unit_test(random_texts_come_back),
		cmocka_unit_test(questions_are_answered),
		cmocka_unit_test(wrong_files_are_refused),
		cmocka_unit_test(ids_outside_of_the_list_are_refused),
	};

	return cmocka_run_group_tests_name("tokenizer", tests, setup, teardown);
}
