/* SPDX-License-Identifier: Apache-2.0 */
/* pretok.c: words of known texts, for each rule; that nothing is lost; that time is bounded. */
#include "engine/text/pretok.h"
#include "tests/test.h"

#include <base/bits.h>
#include <errno.h>

struct words {
	char joined[512]; /* with '|' between */
	size_t used;
	size_t bytes; /* of all words */
	size_t count;
};

static int note_word(void *ctx, const char *word, size_t bytes)
{
	struct words *w = ctx;

	assert_true(bytes > 0);
	w->bytes += bytes;
	if (w->used + bytes + 2 < sizeof(w->joined)) {
		if (w->count)
			w->joined[w->used++] = '|';
		memcpy(w->joined + w->used, word, bytes);
		w->used += bytes;
	}
	w->count++;
	return 0;
}

static void split(const char *rule, const char *text, size_t bytes, struct words *out)
{
	const struct pretok_rule *r = pretok_rule_find(rule, strlen(rule));
	struct pretok *p;
	char error[256];

	assert_non_null(r);
	assert_int_equal(pretok_new(r, &p, error, sizeof(error)), 0);
	struct pretok_work *w = pretok_work_new(p);
	assert_non_null(w);
	*out = (struct words){0};
	assert_int_equal(pretok_split(p, w, text, bytes, note_word, out), 0);
	assert_int_equal(out->bytes, bytes);
	pretok_work_free(w);
	pretok_free(p);
}

static void known_texts_give_known_words(void **state)
{
	static const struct {
		const char *rule, *text, *words;
	} cases[] = {
		{"smollm", "Hello world", "Hello| world"},
		{"smollm", "a  1", "a|  |1"},
		{"smollm", "a 12b", "a| |1|2|b"},
		{"smollm", "I've don't I'LL", "I|'ve| don|'t| I|'|LL"},
		{"smollm", "x  y", "x| | y"},
		{"smollm", "x \n\n", "x| \n\n"},
		{"smollm", "f(x)!=\xc2\xbd", "f|(|x|)!=|\xc2\xbd"},
		{"smollm",
		 "\xe1\xa0\x8e"
		 "a",
		 "\xe1\xa0\x8e|a"},
		{"smollm",
		 "\xc2\xa0"
		 "a",
		 "\xc2\xa0|a"},
		{"gpt-2", "a  1", "a| | 1"},
		{"gpt-2", "a 123", "a| 123"},
		{"llama-bpe", "I'LL pay 12345 now\n\n x", "I|'LL| pay| |123|45| now|\n\n| x"},
		{"llama-bpe", "(hello)", "(hello|)"},
		{"llama-bpe", "it'\xc5\xbf", "it|'\xc5\xbf"},
		{"qwen2", "a 12\r\n", "a| |1|2|\r\n"},
		{"qwen2", "!!\n x", "!!\n| x"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct words w;

		split(cases[i].rule, cases[i].text, strlen(cases[i].text), &w);
		assert_string_equal(w.joined, cases[i].words);
	}
}

static void unknown_rules_are_not_found(void **state)
{
	(void)state;
	assert_null(pretok_rule_find("default", 7));
	assert_null(pretok_rule_find("smoll", 5));
	assert_null(pretok_rule_find("", 0));
}

/* Quadratic time would take minutes for each; a limit that is hit would be an error. */
static void long_runs_are_no_special_case(void **state)
{
	static const char *const rules[] = {"smollm", "gpt-2", "llama-bpe", "qwen2"};
	static const char *const runs[] = {
		"a", " ", "\n", " \n", "1", "'", "'s", "\t ", "\xf0\x9f\x98\x80"};
	size_t bytes = 1u << 19;
	char *text = malloc(bytes + 8);

	(void)state;
	for (size_t r = 0; r < ARRAY_LEN(rules); r++) {
		for (size_t i = 0; i < ARRAY_LEN(runs); i++) {
			struct words w;
			size_t step = strlen(runs[i]);

			for (size_t at = 0; at < bytes; at += step)
				memcpy(text + at, runs[i], step);
			text[bytes / step * step] = 'x';
			split(rules[r], text, bytes / step * step + 1, &w);
		}
	}
	free(text);
}

static int stop_at_once(void *ctx, const char *word, size_t bytes)
{
	uint32_t *calls = ctx;

	(void)word;
	(void)bytes;
	++*calls;
	return -ECANCELED;
}

static void the_callee_can_stop(void **state)
{
	const struct pretok_rule *r = pretok_rule_find("smollm", 6);
	struct pretok *p;
	uint32_t calls = 0;

	(void)state;
	assert_int_equal(pretok_new(r, &p, NULL, 0), 0);
	struct pretok_work *w = pretok_work_new(p);
	assert_int_equal(pretok_split(p, w, "a b c", 5, stop_at_once, &calls), -ECANCELED);
	assert_int_equal(calls, 1);
	pretok_work_free(w);
	pretok_free(p);
}

TEST_MAIN(pretok, cmocka_unit_test(known_texts_give_known_words),
	  cmocka_unit_test(unknown_rules_are_not_found),
	  cmocka_unit_test(long_runs_are_no_special_case), cmocka_unit_test(the_callee_can_stop))
