/* SPDX-License-Identifier: Apache-2.0 */
/* What goes first: one core for each policy, chains of blocks, and room for fewer of them. */
#include "kvd/core/evict.h"
#include "kvd/core/index.h"
#include "tests/unit/core/harness.h"

#define PAGE_TOKENS 16u

static struct harness *start(const char *policy, uint32_t pages, uint32_t *session,
			     uint32_t *format)
{
	struct core_config config = harness_config(pages, pages);
	config.policy = policy;
	struct harness *h = harness_with(&config);

	*session = harness_session(h, 0, 0, 0);
	*format = harness_format(h, *session, 1, PAGE_TOKENS, 1, HARNESS_PAGE_BYTES);
	return h;
}

/* Asks for a chain of `blocks`, computes what is missing, and leaves. Returns the blocks found. */
static uint32_t ask(struct harness *h, uint32_t session, uint32_t format, uint32_t chain,
		    uint32_t blocks)
{
	uint32_t tokens[16 * PAGE_TOKENS];

	harness_tokens(chain, blocks * PAGE_TOKENS, tokens);
	struct kvd_rep rep =
		harness_acquire(h, session, format, tokens, blocks * PAGE_TOKENS, 0)->rep;
	uint32_t found = rep.at.cached_tokens / PAGE_TOKENS;
	assert_int_equal(rep.result, 0);
	if (found < blocks)
		assert_int_equal(harness_seal(h, session, rep.lease, found, blocks - found), 0);
	assert_int_equal(harness_release(h, session, rep.lease), 0);
	return found;
}

static void lru_forgets_the_oldest(void **state)
{
	uint32_t s, f;
	struct harness *h = start("lru", 8, &s, &f);

	for (uint32_t chain = 1; chain <= 4; chain++)
		ask(h, s, f, chain, 2);
	assert_int_equal(ask(h, s, f, 1, 2), 2);
	ask(h, s, f, 5, 2);
	assert_int_equal(ask(h, s, f, 1, 2), 2);
	assert_int_equal(ask(h, s, f, 2, 2), 0);
	harness_free(h);
}

/* A chain that was used again outlives any number of chains that are asked for once. */
static void scan_passes_by(void **state)
{
	static const char *const policies[] = {"s3fifo", "cost"};

	for (uint32_t i = 0; i < 2; i++) {
		uint32_t s, f;
		struct harness *h = start(policies[i], 16, &s, &f);
		uint32_t rounds = i == 0 ? 40 : 8;
		ask(h, s, f, 1, 4);
		ask(h, s, f, 2, 6);
		assert_int_equal(ask(h, s, f, 1, 4), 4);
		for (uint32_t n = 0; n < 200; n++) {
			ask(h, s, f, 3, 1);
			ask(h, s, f, 4, 1);
		}
		for (uint32_t n = 0; n < rounds; n++)
			ask(h, s, f, 100 + n, 1);
		assert_int_equal(ask(h, s, f, 1, 4), 4);
		harness_free(h);
	}
}

/* With the same requests LRU keeps nothing of the chain that was used again. */
static void cost_learns_how_long_to_wait(void **state)
{
	static const char *const policies[] = {"lru", "cost"};
	uint32_t found[2] = {0};

	for (uint32_t i = 0; i < 2; i++) {
		uint32_t s, f;
		struct harness *h = start(policies[i], 16, &s, &f);
		for (uint32_t n = 0; n < 400; n++) {
			found[i] += ask(h, s, f, 1 + n % 3, 4);
			for (uint32_t k = 0; k < 3; k++)
				ask(h, s, f, 1000 + n * 3 + k, 2);
		}
		harness_free(h);
	}
	assert_int_equal(found[0], 0);
	assert_true(found[1] > 400);
}

/* What an evicted block was used for counts again when it comes back. */
static void uses_come_back(void **state)
{
	uint32_t s, f;
	struct harness *h = start("cost", 8, &s, &f);

	for (uint32_t n = 0; n < 5; n++)
		ask(h, s, f, 1, 2);
	for (uint32_t n = 0; n < 60; n++)
		ask(h, s, f, 10 + n, 8);
	assert_int_equal(ask(h, s, f, 1, 2), 0);
	uint32_t five = 0;
	for (uint32_t i = 0; i < h->core->node_slots; i++)
		five += h->core->nodes[i].state == NODE_SEALED && h->core->nodes[i].uses == 5;
	assert_int_equal(five, 2);
	harness_free(h);
}

/* A block that comes back under a parent that was forgotten: the parent was used as often. */
static void uses_rise_to_the_parent(void **state)
{
	uint32_t s, f, word;
	struct harness *h = start("cost", 8, &s, &f);
	struct node *nodes = h->core->nodes;

	for (uint32_t n = 0; n < 5; n++)
		ask(h, s, f, 1, 2);
	uint32_t first = nodes[f].first_child;
	uint64_t hash[2] = {nodes[first].hash[0], nodes[first].hash[1]};
	for (uint32_t n = 0; n < 60; n++)
		ask(h, s, f, 10 + n, 8);
	assert_true(index_ghost_uses(h->core, hash, &word));
	index_ghost_add(h->core, hash, false, 0);
	assert_int_equal(ask(h, s, f, 1, 2), 0);
	for (uint32_t n = nodes[f].first_child; n != CORE_NONE; n = nodes[n].next_sibling)
		if (nodes[n].hash[0] == hash[0])
			assert_int_equal(nodes[n].uses, 5);
	harness_free(h);
}

static void reuse_age_is_a_mean(void **state)
{
	uint32_t s, f;
	struct harness *h = start("cost", 16, &s, &f);
	const struct shelf *shelf = machine_shelf(h->core, 0, 0);

	assert_int_equal(evict_reuse_age(shelf), 0);
	ask(h, s, f, 1, 1);
	for (uint32_t n = 0; n < 8000; n++) {
		ask(h, s, f, 100 + n, 3);
		ask(h, s, f, 1, 1);
	}
	assert_in_range(evict_reuse_age(shelf), 2, 3);
	harness_free(h);
}

/* Chains that share their beginning: whatever goes, no block is left without its parent. */
static void no_chain_is_broken(void **state)
{
	static const char *const policies[] = {"lru", "s3fifo", "cost"};

	for (uint32_t i = 0; i < 3; i++) {
		uint32_t s, f;
		uint64_t random = 7;
		struct harness *h = start(policies[i], 24, &s, &f);
		for (uint32_t n = 0; n < 3000; n++)
			ask(h, s, f, 1 + (uint32_t)(test_random(&random) % 9),
			    1 + (uint32_t)(test_random(&random) % 8));
		harness_free(h);
	}
}

static void names_are_known(void **state)
{
	assert_string_equal(evict_policy(NULL)->name, "lru");
	assert_string_equal(evict_policy("s3fifo")->name, "s3fifo");
	assert_string_equal(evict_policy("cost")->name, "cost");
	assert_null(evict_policy("best"));
}

TEST_MAIN(core_evict, cmocka_unit_test(names_are_known), cmocka_unit_test(lru_forgets_the_oldest),
	  cmocka_unit_test(scan_passes_by), cmocka_unit_test(cost_learns_how_long_to_wait),
	  cmocka_unit_test(uses_come_back), cmocka_unit_test(uses_rise_to_the_parent),
	  cmocka_unit_test(reuse_age_is_a_mean), cmocka_unit_test(no_chain_is_broken))
