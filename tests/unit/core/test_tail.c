/* SPDX-License-Identifier: Apache-2.0 */
/* Tails: kept at RELEASE, found at ACQUIRE, never longer than what is the same. */
#include "tests/unit/core/harness.h"

static uint32_t tokens[256];

static struct kvd_req release_req(uint64_t lease, uint32_t first, uint32_t m, uint32_t n)
{
	return (struct kvd_req){.op = KVD_OP_RELEASE,
				.flags = KVD_RELEASE_KEEP_TAIL,
				.lease = lease,
				.first = first,
				.m = m,
				.n = n,
				.in_bytes = n * 4};
}

static void kept_tail_is_found(void **state)
{
	struct harness *h = harness_new(64, 16);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f = harness_format(h, s, 1, 16, 2, HARNESS_PAGE_BYTES);

	harness_tokens(1, 256, tokens);
	struct harness_reply *r = harness_acquire(h, s, f, tokens, 28, 0);
	uint32_t part0 = r->handles[2].page;
	uint32_t part1 = r->handles[3].page;
	uint64_t lease = r->rep.lease;
	assert_int_equal(harness_seal(h, s, lease, 0, 1), 0);
	assert_int_equal(harness_call(h, s, release_req(lease, 1, 14, 2), tokens + 28)->rep.aux, 1);
	assert_int_equal(harness_pages(h, KVD_PAGE_SEALED), 4);
	tokens[27] = 0;
	r = harness_acquire(h, s, f, tokens, 40, 0);
	assert_int_equal(r->rep.at.cached_tokens, 16);
	assert_int_equal(r->rep.at.tail_tokens, 11);
	assert_int_equal(r->rep.at.tail.page, part0);
	assert_int_equal(r->rep.at.handle_count, 6);
	assert_int_equal(r->handles[6].page, part0);
	assert_int_equal(r->handles[7].page, part1);
	harness_free(h);
}

static void short_and_useless_tails_are_not_kept(void **state)
{
	struct harness *h = harness_new(64, 16);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);

	harness_tokens(1, 256, tokens);
	uint64_t lease = harness_acquire(h, s, f, tokens, 7, 0)->rep.lease;
	assert_int_equal(harness_call(h, s, release_req(lease, 0, 7, 0), NULL)->rep.aux, 0);
	lease = harness_acquire(h, s, f, tokens, 12, 0)->rep.lease;
	assert_int_equal(harness_call(h, s, release_req(lease, 0, 12, 0), NULL)->rep.aux, 1);
	lease = harness_acquire(h, s, f, tokens, 12, 0)->rep.lease;
	assert_int_equal(harness_call(h, s, release_req(lease, 0, 10, 0), NULL)->rep.aux, 0);
	lease = harness_acquire(h, s, f, tokens, 14, 0)->rep.lease;
	assert_int_equal(harness_call(h, s, release_req(lease, 0, 14, 0), NULL)->rep.aux, 1);
	assert_int_equal(h->core->node_count, 1);
	lease = harness_acquire(h, s, f, tokens, 15, 0)->rep.lease;
	assert_int_equal(harness_call(h, s, release_req(lease, 0, 15, 0), NULL)->rep.aux, 1);
	assert_int_equal(h->core->node_count, 1);
	harness_free(h);
}

static void full_block_serves_as_tail_until_its_block_is_sealed(void **state)
{
	struct harness *h = harness_new(64, 16);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);

	harness_tokens(1, 256, tokens);
	harness_cache(h, s, f, tokens, 16);
	tokens[9] = 0;
	struct kvd_rep rep = harness_acquire(h, s, f, tokens, 16, 0)->rep;
	assert_int_equal(rep.at.tail_tokens, 9);
	uint32_t node = h->core->pages[rep.at.tail.page].node;
	assert_int_equal(h->core->nodes[node].pins, 1);
	assert_int_equal(harness_seal(h, s, rep.lease, 0, 1), 0);
	assert_int_equal(h->core->nodes[node].pins, 0);
	harness_free(h);
}

TEST_MAIN(tail, cmocka_unit_test(kept_tail_is_found),
	  cmocka_unit_test(short_and_useless_tails_are_not_kept),
	  cmocka_unit_test(full_block_serves_as_tail_until_its_block_is_sealed))
