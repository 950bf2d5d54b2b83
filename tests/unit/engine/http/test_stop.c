/* SPDX-License-Identifier: Apache-2.0 */
/* Stop strings: by example, at their limits, and against a naive walk over random text. */
#include "engine/http/stop.h"
#include "tests/test.h"

static struct stop_set set_of(const char *const *text, uint32_t count)
{
	struct stop_set set = {.count = count};

	for (uint32_t i = 0; i < count; i++)
		set.string[i] = (struct stop_string){.text = text[i], .bytes = strlen(text[i])};
	return set;
}

static void test_holds_back_and_lets_go(void **state)
{
	const struct stop_set set = set_of((const char *[]){"END"}, 1);
	struct stop s;
	char out[sizeof(s.held)];

	stop_init(&s, &set);
	assert_int_equal(stop_push(&s, "aE", 2, out), 1);
	assert_int_equal(stop_push(&s, "N", 1, out), 0);
	assert_int_equal(stop_push(&s, "E", 1, out), 2);
	assert_memory_equal(out, "EN", 2);
	assert_int_equal(stop_finish(&s, out), 1);
	assert_false(s.hit);
}

static void test_first_complete_match_wins(void **state)
{
	const struct stop_set set = set_of((const char *[]){"xyz", "y"}, 2);
	struct stop s;
	char out[sizeof(s.held)];

	stop_init(&s, &set);
	assert_int_equal(stop_push(&s, "axyz", 4, out), 2);
	assert_memory_equal(out, "ax", 2);
	assert_true(s.hit);
	assert_int_equal(stop_finish(&s, out), 0);
}

/* Letter by letter: the string that ends here, the longest of them. */
static char *first_complete(char *text, const char *const *list, uint32_t count)
{
	for (char *end = text + 1; end <= text + strlen(text); end++) {
		char *first = NULL;

		for (uint32_t i = 0; i < count; i++) {
			char *start = end - strlen(list[i]);

			if (start >= text && memcmp(start, list[i], strlen(list[i])) == 0 &&
			    (!first || start < first))
				first = start;
		}
		if (first)
			return first;
	}
	return NULL;
}

/* What comes out in pieces is what a walk over the whole text says, for any cutting. */
static void one_random_case(uint64_t *seed)
{
	char strings[3][6];
	const char *list[3];
	char text[64] = {0};
	char got[sizeof(text)] = {0};
	size_t used = 0;
	struct stop s;
	uint32_t count = (uint32_t)(test_random(seed) % 4);

	for (uint32_t i = 0; i < count; i++) {
		size_t n = 1 + test_random(seed) % 5;

		for (size_t k = 0; k < n; k++)
			strings[i][k] = (char)('a' + test_random(seed) % 2);
		strings[i][n] = '\0';
		list[i] = strings[i];
	}
	const struct stop_set set = set_of(list, count);
	for (size_t i = 0; i < sizeof(text) - 1; i++)
		text[i] = (char)('a' + test_random(seed) % 3);
	char *first = first_complete(text, list, count);
	stop_init(&s, &set);
	for (size_t at = 0; at < sizeof(text) - 1 && !s.hit;) {
		char out[sizeof(s.held)];
		size_t n = test_random(seed) % 5;

		n = n < sizeof(text) - 1 - at ? n : sizeof(text) - 1 - at;
		size_t more = stop_push(&s, text + at, n, out);
		memcpy(got + used, out, more);
		used += more;
		at += n;
	}
	if (!s.hit)
		used += stop_finish(&s, got + used);
	assert_int_equal(s.hit, first != NULL);
	assert_int_equal(used, first ? (size_t)(first - text) : sizeof(text) - 1);
	assert_memory_equal(got, text, used);
}

static void test_random_pieces(void **state)
{
	uint64_t seed = 7;

	print_message("seed 7\n");
	for (int i = 0; i < 20000; i++)
		one_random_case(&seed);
}

static void test_longest_strings(void **state)
{
	char text[STOP_BYTES_MAX + 1];
	struct stop s;
	char out[sizeof(s.held)];
	size_t passed = 0;

	memset(text, 'a', STOP_BYTES_MAX);
	text[STOP_BYTES_MAX - 1] = 'b';
	text[STOP_BYTES_MAX] = '\0';
	const struct stop_set set = set_of((const char *[]){text}, 1);
	memset(text, 'a', STOP_BYTES_MAX - 1);
	stop_init(&s, &set);
	char many[STOP_PUSH_BYTES_MAX];
	memset(many, 'a', sizeof(many));
	for (int i = 0; i < 5; i++)
		passed += stop_push(&s, many, sizeof(many), out);
	assert_int_equal(passed, 5 * sizeof(many) - (STOP_BYTES_MAX - 1));
	stop_push(&s, "b", 1, out);
	assert_true(s.hit);
}

TEST_MAIN(stop, cmocka_unit_test(test_holds_back_and_lets_go),
	  cmocka_unit_test(test_first_complete_match_wins), cmocka_unit_test(test_random_pieces),
	  cmocka_unit_test(test_longest_strings))
