/* SPDX-License-Identifier: Apache-2.0 */
/* Token memory and the hash table, against plain models; seeds are printed. */
#include "kvd/core/arena.h"
#include "tests/unit/core/harness.h"

#define SPANS 64

static void spans_do_not_overlap(void **state)
{
	struct harness *h = harness_new(16, 4);
	uint64_t seed = 42;
	uint32_t spans[SPANS];
	uint32_t sizes[SPANS] = {0};
	uint64_t used = 0;

	print_message("seed %llu\n", (unsigned long long)seed);
	for (uint32_t step = 0; step < 20000; step++) {
		uint32_t i = (uint32_t)(test_random(&seed) % SPANS);
		if (sizes[i] != 0) {
			const uint32_t *words = arena_words(h->core, spans[i]);
			for (uint32_t w = 0; w < sizes[i]; w++)
				assert_int_equal(words[w], i);
			arena_free(h->core, spans[i]);
			used -= sizes[i];
			sizes[i] = 0;
			continue;
		}
		sizes[i] = 16u << (test_random(&seed) % 4);
		spans[i] = arena_alloc(h->core, sizes[i]);
		assert_int_not_equal(spans[i], CORE_NONE);
		for (uint32_t w = 0; w < sizes[i]; w++)
			arena_words(h->core, spans[i])[w] = i;
		used += sizes[i];
		assert_int_equal(h->core->arena_tokens, used);
	}
	for (uint32_t i = 0; i < SPANS; i++)
		if (sizes[i] != 0)
			arena_free(h->core, spans[i]);
	assert_int_equal(h->core->arena_tokens, 0);
	harness_free(h);
}

static void arena_can_be_full(void **state)
{
	struct core_config config = harness_config(16, 4);
	config.index_tokens_max = 256;
	struct harness *h = harness_with(&config);

	uint32_t a = arena_alloc(h->core, 128);
	uint32_t b = arena_alloc(h->core, 100);
	assert_int_not_equal(a, CORE_NONE);
	assert_int_not_equal(b, CORE_NONE);
	assert_int_equal(arena_alloc(h->core, 1), CORE_NONE);
	arena_free(h->core, a);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_not_equal(arena_alloc(h->core, 16), CORE_NONE);
	assert_int_equal(arena_alloc(h->core, 16), CORE_NONE);
	core_free(h->core);
	free(h);
}

/* Prefixes come and go until the table has been rewritten many times over. */
static void table_finds_what_is_there(void **state)
{
	struct core_config config = harness_config(64, 16);
	config.nodes_max = 60;
	struct harness *h = harness_with(&config);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);
	uint32_t tokens[96];

	for (uint32_t i = 0; i < 400; i++) {
		harness_tokens(i % 37, 96, tokens);
		harness_cache(h, s, f, tokens, 16 * (1 + i % 6));
		struct kvd_rep rep = harness_acquire(h, s, f, tokens, 16 * (1 + i % 6), 0)->rep;
		assert_int_equal(rep.at.cached_tokens, 16 * (1 + i % 6));
		harness_release(h, s, rep.lease);
	}
	assert_true(h->core->counters[KVD_C_EVICTED_PAGES] > 100);
	harness_free(h);
}

TEST_MAIN(arena, cmocka_unit_test(spans_do_not_overlap), cmocka_unit_test(arena_can_be_full),
	  cmocka_unit_test(table_finds_what_is_there))
