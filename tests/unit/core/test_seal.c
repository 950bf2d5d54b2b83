/* SPDX-License-Identifier: Apache-2.0 */
/* SEAL: generated blocks, magazine pages, and what must not be sealed. */
#include "tests/unit/core/harness.h"

#include <errno.h>

static uint32_t tokens[256];

static struct kvd_req seal_req(uint64_t lease, uint32_t first, uint32_t m, uint32_t n,
			       uint32_t handles)
{
	return (struct kvd_req){.op = KVD_OP_SEAL,
				.lease = lease,
				.first = first,
				.m = m,
				.n = n,
				.arg32 = handles,
				.in_bytes = n * 4 + handles * 8};
}

static void generated_blocks_are_published(void **state)
{
	struct harness *h = harness_new(64, 16);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);

	harness_tokens(1, 256, tokens);
	uint64_t lease = harness_acquire(h, s, f, tokens, 24, 1)->rep.lease;
	assert_int_equal(harness_seal(h, s, lease, 0, 1), 0);
	assert_int_equal(harness_seal(h, s, lease, 1, 1), -EINVAL);
	assert_int_equal(harness_call(h, s, seal_req(lease, 1, 1, 10, 0), tokens + 24)->rep.result,
			 0);
	assert_int_equal(harness_call(h, s, seal_req(lease, 2, 1, 14, 0), tokens + 34)->rep.result,
			 0);
	assert_int_equal(harness_row(h, s, lease)->ready_tokens, 48);
	harness_release(h, s, lease);
	assert_int_equal(harness_acquire(h, s, f, tokens, 48, 0)->rep.at.cached_tokens, 48);
	harness_free(h);
}

static void magazine_page_becomes_a_block(void **state)
{
	struct harness *h = harness_new(64, 16);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f = harness_format(h, s, 1, 16, 2, HARNESS_PAGE_BYTES);
	uint8_t in[64 + 16];

	harness_tokens(1, 256, tokens);
	struct kvd_req topup = {.op = KVD_OP_TOPUP, .format = f, .n = 2, .out_bytes = 32};
	struct harness_reply *r = harness_call(h, s, topup, NULL);
	assert_int_equal(r->rep.at.handle_count, 4);
	memcpy(in, tokens + 16, 64);
	memcpy(in + 64, r->handles, 16);
	uint64_t lease = harness_acquire(h, s, f, tokens, 16, 0)->rep.lease;
	assert_int_equal(harness_seal(h, s, lease, 0, 1), 0);
	assert_int_equal(harness_call(h, s, seal_req(lease, 1, 1, 16, 2), in)->rep.result, 0);
	assert_int_equal(h->core->groups[h->core->sessions[s].group].magazine.count, 2);
	assert_int_equal(harness_call(h, s, seal_req(lease, 2, 1, 16, 2), in)->rep.result,
			 KVD_STALE);
	harness_free(h);
}

static void identical_text_ends_at_one_node(void **state)
{
	struct harness *h = harness_new(64, 16);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);

	harness_tokens(1, 256, tokens);
	harness_cache(h, s, f, tokens, 16);
	uint64_t a = harness_acquire(h, s, f, tokens, 16, 2)->rep.lease;
	uint64_t b = harness_acquire(h, s, f, tokens, 16, 2)->rep.lease;
	assert_int_equal(harness_call(h, s, seal_req(a, 1, 1, 16, 0), tokens + 16)->rep.result, 0);
	assert_int_equal(harness_call(h, s, seal_req(b, 1, 1, 16, 0), tokens + 16)->rep.result, 0);
	assert_int_equal(h->core->node_count, 2);
	assert_int_equal(harness_call(h, s, seal_req(b, 2, 1, 16, 0), tokens + 32)->rep.result, 0);
	harness_release(h, s, a);
	harness_release(h, s, b);
	assert_int_equal(harness_pages(h, KVD_PAGE_SEALED), 3);
	assert_int_equal(harness_acquire(h, s, f, tokens, 48, 0)->rep.at.cached_tokens, 48);
	harness_free(h);
}

static void full_index_keeps_blocks_private(void **state)
{
	struct core_config config = harness_config(16, 16);
	config.nodes_max = 2;
	struct harness *h = harness_with(&config);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);

	harness_tokens(1, 64, tokens);
	struct kvd_rep rep = harness_acquire(h, s, f, tokens, 64, 0)->rep;
	struct harness_reply *r = harness_call(h, s, seal_req(rep.lease, 0, 4, 0, 0), NULL);
	assert_int_equal(r->rep.result, KVD_KEPT);
	assert_int_equal(r->rep.at.handle_count, 2);
	harness_free(h);
}

TEST_MAIN(seal, cmocka_unit_test(generated_blocks_are_published),
	  cmocka_unit_test(magazine_page_becomes_a_block),
	  cmocka_unit_test(identical_text_ends_at_one_node),
	  cmocka_unit_test(full_index_keeps_blocks_private))
