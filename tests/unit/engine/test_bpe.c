/* SPDX-License-Identifier: Apache-2.0 */
/* bpe.c against the definition: look at all pairs, merge the best, start again. */
#include "engine/text/bpe.h"
#include "tests/model/tiny.h"
#include "tests/test.h"

#include <base/bits.h>

#define WORD_MAX 64u

static struct vocab vocab;
static struct merges merges;

static int setup(void **state)
{
	struct tiny_options o = tiny_defaults(1);
	size_t bytes;
	uint8_t *file = tiny_build(&o, &bytes);
	struct gguf *g;
	char error[256];

	(void)state;
	if (gguf_open_memory(file, bytes, &g, error, sizeof(error)) ||
	    vocab_init(&vocab, g, error, sizeof(error)) ||
	    merges_init(&merges, &vocab, g, error, sizeof(error)))
		return -1;
	gguf_close(g);
	free(file);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	merges_fini(&merges);
	vocab_fini(&vocab);
	return 0;
}

static size_t encode_naively(const char *text, size_t bytes, uint32_t *ids)
{
	size_t count = 0;

	for (size_t i = 0; i < bytes; i++)
		ids[count++] = TINY_BYTE0 + (uint8_t)text[i];
	for (;;) {
		const struct merge *best = NULL;
		size_t at = 0;

		for (size_t i = 0; i + 1 < count; i++) {
			const struct merge *m = merges_find(&merges, ids[i], ids[i + 1]);

			if (m && (!best || m->rank < best->rank)) {
				best = m;
				at = i;
			}
		}
		if (!best)
			return count;
		ids[at] = best->id;
		memmove(ids + at + 1, ids + at + 2, (count - at - 2) * sizeof(*ids));
		count--;
	}
}

static void random_words_match_the_definition(void **state)
{
	static const char letters[] = "thenrsoilaeu dng";
	uint64_t random = 5;
	struct bpe_work work = {0};
	uint32_t merged = 0;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		char word[WORD_MAX];
		uint32_t got[WORD_MAX], want[WORD_MAX];
		size_t bytes = 1 + test_random(&random) % WORD_MAX;

		for (size_t i = 0; i < bytes; i++)
			word[i] = letters[test_random(&random) % (sizeof(letters) - 1)];
		struct tokens out = {got, WORD_MAX, 0};
		assert_int_equal(bpe_encode(&vocab, &merges, &work, word, bytes, &out), 0);
		size_t count = encode_naively(word, bytes, want);
		assert_int_equal(out.count, count);
		assert_memory_equal(got, want, count * sizeof(*got));
		merged += count < bytes;
	}
	assert_in_range(merged, 10000, 20000);
	bpe_work_fini(&work);
}

static void known_words_give_known_tokens(void **state)
{
	struct bpe_work work = {0};
	uint32_t ids[8];
	struct tokens out = {ids, ARRAY_LEN(ids), 0};

	(void)state;
	assert_int_equal(bpe_encode(&vocab, &merges, &work, "hello", 5, &out), 0);
	assert_int_equal(out.count, 1);
	assert_int_equal(ids[0], vocab_find(&vocab, "hello", 5));
	out.count = 0;
	assert_int_equal(bpe_encode(&vocab, &merges, &work, " the\xff", 5, &out), 0);
	assert_int_equal(out.count, 2);
	assert_int_equal(ids[0], vocab_find(&vocab, " the", 4));
	assert_int_equal(ids[1], TINY_BYTE0 + 0xff);
	out.count = 0;
	assert_int_equal(bpe_encode(&vocab, &merges, &work, "", 0, &out), 0);
	assert_int_equal(out.count, 0);
	bpe_work_fini(&work);
}

/* Quadratic time would take hours here; the count is what one pass of pairs gives. */
static void a_long_word_is_no_special_case(void **state)
{
	size_t bytes = 2u << 20;
	char *word = malloc(bytes);
	struct bpe_work work = {0};
	struct tokens out = {NULL, 0, 0};

	(void)state;
	memset(word, 'l', bytes);
	assert_int_equal(bpe_encode(&vocab, &merges, &work, word, bytes, &out), 0);
	assert_int_equal(out.count, bytes / 2);
	bpe_work_fini(&work);
	free(word);
}

/* As in vocabularies that lack some bytes: what stands on both sides meets. */
static void bytes_without_a_token_are_dropped(void **state)
{
	struct bpe_work work = {0};
	uint32_t ids[8], saved = vocab.byte_token[4];
	struct tokens out = {ids, ARRAY_LEN(ids), 0};

	(void)state;
	vocab.byte_token[4] = VOCAB_NONE;
	assert_int_equal(bpe_encode(&vocab, &merges, &work, "hel\4lo", 6, &out), 0);
	assert_int_equal(out.count, 1);
	assert_int_equal(ids[0], vocab_find(&vocab, "hello", 5));
	out.count = 0;
	assert_int_equal(bpe_encode(&vocab, &merges, &work, "\4\4", 2, &out), 0);
	assert_int_equal(out.count, 0);
	vocab.byte_token[4] = saved;
	bpe_work_fini(&work);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_words_match_the_definition),
		cmocka_unit_test(known_words_give_known_tokens),
		cmocka_unit_test(a_long_word_is_no_special_case),
		cmocka_unit_test(bytes_without_a_token_are_dropped),
	};

	return cmocka_run_group_tests_name("bpe", tests, setup, teardown);
}
