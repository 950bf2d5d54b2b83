/* SPDX-License-Identifier: Apache-2.0 */
/* HANDOFF and CLAIM. */
#include "tests/unit/core/harness.h"

static uint32_t tokens[64];

static void sequence_moves_once(void **state)
{
	struct harness *h = harness_new(64, 16);
	uint32_t other = harness_space(h, "other");
	uint32_t a = harness_session(h, 0, 0, 0);
	uint32_t b = harness_session(h, 0, 0, 0);
	uint32_t c = harness_session(h, other, 0, 0);
	uint32_t f = harness_format(h, a, 1, 16, 1, HARNESS_PAGE_BYTES);
	uint8_t ticket[16];

	harness_tokens(1, 64, tokens);
	uint64_t lease = harness_acquire(h, a, f, tokens, 40, 1)->rep.lease;
	assert_int_equal(harness_seal(h, a, lease, 0, 1), 0);
	struct kvd_req req = {.op = KVD_OP_HANDOFF, .lease = lease, .arg32 = 1000, .out_bytes = 16};
	struct harness_reply *r = harness_call(h, a, req, NULL);
	assert_int_equal(r->rep.out_bytes, 16);
	memcpy(ticket, r->bytes, 16);
	assert_int_equal(harness_seal(h, a, lease, 1, 1), KVD_STALE);
	req = (struct kvd_req){.op = KVD_OP_CLAIM, .in_bytes = 16, .out_bytes = 256};
	assert_int_equal(harness_call(h, c, req, ticket)->rep.result, KVD_MISS);
	r = harness_call(h, b, req, ticket);
	assert_int_equal(r->rep.result, 0);
	assert_int_equal(r->rep.at.cached_tokens, 16);
	assert_int_equal(r->rep.at.handle_count, 4);
	assert_int_equal(KVD_CLAIM_FORMAT(r->rep.aux), f);
	assert_int_equal(KVD_CLAIM_TOKENS(r->rep.aux), 40);
	uint64_t moved = r->rep.lease;
	assert_int_equal(harness_call(h, b, req, ticket)->rep.result, KVD_MISS);
	harness_close(h, a, CORE_END_BROKEN);
	assert_int_equal(harness_seal(h, b, moved, 1, 1), 0);
	harness_free(h);
}

static void ticket_expires(void **state)
{
	struct harness *h = harness_new(64, 16);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);

	harness_tokens(1, 64, tokens);
	uint64_t lease = harness_acquire(h, s, f, tokens, 40, 1)->rep.lease;
	struct kvd_req req = {.op = KVD_OP_HANDOFF, .lease = lease, .arg32 = 20, .out_bytes = 16};
	harness_call(h, s, req, NULL);
	assert_int_equal(core_deadline_ns(h->core), h->now_ns + 20000000);
	harness_time(h, 19);
	assert_int_equal(harness_pages(h, KVD_PAGE_OPEN), 4);
	harness_time(h, 1);
	assert_int_equal(harness_pages(h, KVD_PAGE_OPEN), 0);
	assert_int_equal(h->core->lease_count, 0);
	harness_free(h);
}

TEST_MAIN(ticket, cmocka_unit_test(sequence_moves_once), cmocka_unit_test(ticket_expires))
