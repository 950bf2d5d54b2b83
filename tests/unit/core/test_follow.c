/* SPDX-License-Identifier: Apache-2.0 */
/* Followers, builders that leave, TAKE and CALL. */
#include "tests/unit/core/harness.h"

static uint32_t tokens[256];

struct fixture {
	struct harness *h;
	uint32_t a, b, c; /* sessions */
	uint32_t format;
};

static struct fixture setup(void)
{
	struct fixture x = {.h = harness_new(64, 16)};

	x.a = harness_session(x.h, 0, 11, 0);
	x.b = harness_session(x.h, 0, 12, 0);
	x.c = harness_session(x.h, 0, 13, 0);
	x.format = harness_format(x.h, x.a, 1, 16, 1, HARNESS_PAGE_BYTES);
	harness_tokens(3, 256, tokens);
	return x;
}

static struct harness_reply *extend(struct fixture *x, uint32_t session, uint64_t lease,
				    uint32_t flags, uint32_t first, uint32_t m)
{
	struct kvd_req req = {.op = KVD_OP_EXTEND,
			      .flags = (uint16_t)flags,
			      .lease = lease,
			      .first = first,
			      .m = m,
			      .out_bytes = 1024};

	return harness_call(x->h, session, req, NULL);
}

static void follower_gets_what_is_sealed(void **state)
{
	struct fixture x = setup();
	uint64_t builder = harness_acquire(x.h, x.a, x.format, tokens, 64, 0)->rep.lease;
	struct harness_reply *r = harness_acquire(x.h, x.b, x.format, tokens, 80, 1);
	uint64_t follower = r->rep.lease;

	assert_int_equal(r->rep.at.event, KVD_EVENT_FOLLOW);
	assert_int_equal(r->rep.at.build_from, 64);
	assert_int_equal(r->rep.at.follows_own, 0);
	assert_int_equal(r->rep.at.handle_count, 6);
	assert_int_equal(r->handles[0].page, KVD_PAGE_NONE);
	assert_int_not_equal(r->handles[4].page, KVD_PAGE_NONE);
	assert_int_equal(harness_row(x.h, x.b, follower)->ready_tokens, 0);
	assert_int_equal(harness_seal(x.h, x.a, builder, 0, 3), 0);
	assert_int_equal(harness_row(x.h, x.b, follower)->ready_tokens, 48);
	r = extend(&x, x.b, follower, 0, 0, 4);
	assert_int_not_equal(r->handles[2].page, KVD_PAGE_NONE);
	assert_int_equal(r->handles[3].page, KVD_PAGE_NONE);
	harness_free(x.h);
}

static void death_of_the_builder_calls_the_oldest(void **state)
{
	struct fixture x = setup();
	uint64_t builder = harness_acquire(x.h, x.a, x.format, tokens, 64, 0)->rep.lease;
	uint64_t old = harness_acquire(x.h, x.b, x.format, tokens, 64, 0)->rep.lease;
	uint64_t young = harness_acquire(x.h, x.c, x.format, tokens, 64, 0)->rep.lease;

	assert_int_equal(harness_seal(x.h, x.a, builder, 0, 1), 0);
	harness_close(x.h, x.a, CORE_END_BROKEN);
	assert_int_equal(harness_pages(x.h, KVD_PAGE_QUARANTINE), 3);
	assert_int_equal(harness_row(x.h, x.b, old)->state, KVD_LEASE_CALL);
	assert_int_equal(harness_row(x.h, x.b, old)->event_seq, 1);
	assert_int_equal(harness_row(x.h, x.c, young)->state, KVD_LEASE_OK);
	struct harness_reply *r = extend(&x, x.b, old, KVD_EXTEND_CALL, 1, 3);
	assert_int_equal(r->rep.result, 0);
	assert_int_equal(r->rep.at.event, KVD_EVENT_COMPUTE);
	assert_int_equal(r->rep.at.build_from, 16);
	assert_int_equal(r->rep.at.event_seq, 1);
	assert_int_equal(r->rep.at.handle_count, 3);
	assert_int_equal(harness_row(x.h, x.b, old)->state, KVD_LEASE_OK);
	assert_int_equal(harness_seal(x.h, x.b, old, 1, 3), 0);
	assert_int_equal(harness_row(x.h, x.c, young)->ready_tokens, 64);
	core_process_dead(x.h->core, 11, x.h->now_ns);
	assert_int_equal(harness_pages(x.h, KVD_PAGE_QUARANTINE), 0);
	harness_free(x.h);
}

static void builder_without_followers_leaves_nothing(void **state)
{
	struct fixture x = setup();
	uint64_t lease = harness_acquire(x.h, x.a, x.format, tokens, 64, 2)->rep.lease;

	assert_int_equal(harness_release(x.h, x.a, lease), 0);
	assert_int_equal(x.h->core->node_count, 0);
	assert_int_equal(harness_pages(x.h, KVD_PAGE_OPEN), 0);
	assert_int_equal(harness_seal(x.h, x.a, lease, 0, 1), KVD_STALE);
	harness_free(x.h);
}

static void first_to_seal_wins_after_take(void **state)
{
	struct fixture x = setup();
	uint64_t slow = harness_acquire(x.h, x.a, x.format, tokens, 32, 0)->rep.lease;
	uint64_t quick = harness_acquire(x.h, x.b, x.format, tokens, 32, 0)->rep.lease;
	struct harness_reply *r = extend(&x, x.b, quick, KVD_EXTEND_TAKE, 0, 2);

	assert_int_equal(r->rep.at.build_from, 0);
	assert_int_equal(r->rep.at.event, KVD_EVENT_COMPUTE);
	uint32_t page = r->handles[0].page;
	assert_int_equal(harness_seal(x.h, x.b, quick, 0, 1), 0);
	assert_int_equal(harness_row(x.h, x.a, slow)->ready_tokens, 16);
	assert_int_equal(harness_seal(x.h, x.a, slow, 0, 2), 0);
	assert_int_equal(harness_row(x.h, x.b, quick)->ready_tokens, 32);
	assert_int_equal(harness_seal(x.h, x.b, quick, 1, 1), 0);
	harness_release(x.h, x.a, slow);
	harness_release(x.h, x.b, quick);
	assert_int_equal(harness_pages(x.h, KVD_PAGE_SEALED), 2);
	r = harness_acquire(x.h, x.c, x.format, tokens, 32, 0);
	assert_int_equal(r->handles[0].page, page);
	harness_free(x.h);
}

static void out_of_order_is_kept(void **state)
{
	struct fixture x = setup();
	uint64_t lease = harness_acquire(x.h, x.a, x.format, tokens, 48, 0)->rep.lease;

	assert_int_equal(harness_seal(x.h, x.a, lease, 1, 1), KVD_KEPT);
	assert_int_equal(harness_seal(x.h, x.a, lease, 0, 1), 0);
	assert_int_equal(harness_seal(x.h, x.a, lease, 2, 1), KVD_KEPT);
	assert_int_equal(harness_row(x.h, x.a, lease)->ready_tokens, 48);
	harness_release(x.h, x.a, lease);
	assert_int_equal(harness_pages(x.h, KVD_PAGE_SEALED), 1);
	harness_free(x.h);
}

/* What was kept behind the path does not stand in for the blocks that the path loses. */
static void shorter_path_counts_anew(void **state)
{
	struct fixture x = setup();
	uint64_t lease = harness_acquire(x.h, x.a, x.format, tokens, 48, 2)->rep.lease;
	struct kvd_req req = {
		.op = KVD_OP_SEAL, .lease = lease, .first = 3, .m = 2, .n = 32, .in_bytes = 128};

	assert_int_equal(harness_call(x.h, x.a, req, tokens + 48)->rep.result, KVD_KEPT);
	assert_int_equal(harness_row(x.h, x.a, lease)->ready_tokens, 0);
	assert_int_equal(harness_seal(x.h, x.a, lease, 1, 1), KVD_KEPT);
	assert_int_equal(harness_seal(x.h, x.a, lease, 0, 1), 0);
	assert_int_equal(harness_row(x.h, x.a, lease)->ready_tokens, 32);
	assert_int_equal(harness_seal(x.h, x.a, lease, 2, 1), KVD_KEPT);
	assert_int_equal(harness_row(x.h, x.a, lease)->ready_tokens, 80);
	harness_release(x.h, x.a, lease);
	harness_free(x.h);
}

TEST_MAIN(follow, cmocka_unit_test(follower_gets_what_is_sealed),
	  cmocka_unit_test(death_of_the_builder_calls_the_oldest),
	  cmocka_unit_test(builder_without_followers_leaves_nothing),
	  cmocka_unit_test(first_to_seal_wins_after_take), cmocka_unit_test(out_of_order_is_kept),
	  cmocka_unit_test(shorter_path_counts_anew))
