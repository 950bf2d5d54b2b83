/* SPDX-License-Identifier: Apache-2.0 */
/* FORK: what is shared, what is one's own, and how long the parent stays. */
#include "tests/unit/core/harness.h"

#include <errno.h>

static uint32_t tokens[256];

static void child_shares_and_outlives(void **state)
{
	struct harness *h = harness_new(64, 16);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);

	harness_tokens(1, 256, tokens);
	struct harness_reply *r = harness_acquire(h, s, f, tokens, 40, 0);
	uint64_t parent = r->rep.lease;
	uint32_t live = r->handles[2].page;
	assert_int_equal(harness_seal(h, s, parent, 0, 2), 0);
	struct kvd_req req = {.op = KVD_OP_FORK,
			      .lease = parent,
			      .first = 2,
			      .m = 8,
			      .arg32 = 1,
			      .out_bytes = 256};
	r = harness_call(h, s, req, NULL);
	uint64_t child = r->rep.lease;
	assert_int_equal(r->rep.result, 0);
	assert_int_equal(r->rep.at.cached_tokens, 32);
	assert_int_equal(r->rep.at.build_from, 32);
	assert_int_equal(r->rep.at.tail.page, live);
	assert_int_equal(r->rep.at.tail_tokens, 8);
	assert_int_equal(r->rep.at.handle_count, 4);
	assert_int_not_equal(r->handles[2].page, live);
	assert_int_equal(harness_release(h, s, parent), 0);
	assert_int_equal(harness_pages(h, KVD_PAGE_OPEN), 3);
	assert_int_equal(harness_row(h, s, parent)->state, KVD_LEASE_NONE);
	assert_int_equal(harness_release(h, s, child), 0);
	assert_int_equal(harness_pages(h, KVD_PAGE_OPEN), 0);
	assert_int_equal(h->core->lease_count, 0);
	harness_free(h);
}

/* What the parent kept for itself is readable by the child as well. */
static void private_blocks_are_shared(void **state)
{
	struct harness *h = harness_new(64, 16);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);
	struct kvd_req req = {.op = KVD_OP_ACQUIRE,
			      .flags = KVD_ACQUIRE_NO_HIT,
			      .format = f,
			      .n = 40,
			      .in_bytes = 160,
			      .out_bytes = 256};

	harness_tokens(1, 256, tokens);
	struct harness_reply *r = harness_call(h, s, req, tokens);
	uint64_t parent = r->rep.lease;
	uint32_t page = r->handles[1].page;
	assert_int_equal(harness_seal(h, s, parent, 0, 2), KVD_KEPT);
	req = (struct kvd_req){
		.op = KVD_OP_FORK, .lease = parent, .first = 1, .m = 8, .out_bytes = 256};
	assert_int_equal(harness_call(h, s, req, NULL)->rep.result, -EINVAL);
	req.first = 2;
	r = harness_call(h, s, req, NULL);
	assert_int_equal(r->rep.at.cached_tokens, 32);
	assert_int_equal(r->handles[1].page, page);
	harness_release(h, s, parent);
	assert_int_equal(harness_pages(h, KVD_PAGE_SEALED), 2);
	harness_close(h, s, CORE_END_BYE);
	assert_int_equal(harness_pages(h, KVD_PAGE_SEALED), 0);
	harness_free(h);
}

static void magazine_tail_is_bound_once(void **state)
{
	struct harness *h = harness_new(64, 16);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);
	uint8_t in[64 + 8];

	harness_tokens(1, 256, tokens);
	struct kvd_req req = {.op = KVD_OP_TOPUP, .format = f, .n = 1, .out_bytes = 8};
	struct kvd_handle page = harness_call(h, s, req, NULL)->handles[0];
	uint64_t parent = harness_acquire(h, s, f, tokens, 16, 0)->rep.lease;
	assert_int_equal(harness_seal(h, s, parent, 0, 1), 0);
	req = (struct kvd_req){.op = KVD_OP_FORK,
			       .lease = parent,
			       .first = 1,
			       .m = 3,
			       .arg64 = (uint64_t)page.generation << 32 | page.page,
			       .out_bytes = 64};
	assert_int_equal(harness_call(h, s, req, NULL)->rep.at.tail.page, page.page);
	memcpy(in, tokens + 16, 64);
	memcpy(in + 64, &page, 8);
	req = (struct kvd_req){.op = KVD_OP_SEAL,
			       .lease = parent,
			       .first = 1,
			       .m = 1,
			       .n = 16,
			       .arg32 = 1,
			       .in_bytes = sizeof(in)};
	assert_int_equal(harness_call(h, s, req, in)->rep.result, 0);
	harness_free(h);
}

TEST_MAIN(fork, cmocka_unit_test(child_shares_and_outlives),
	  cmocka_unit_test(private_blocks_are_shared),
	  cmocka_unit_test(magazine_tail_is_bound_once))
