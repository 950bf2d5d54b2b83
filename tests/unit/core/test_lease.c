/* SPDX-License-Identifier: Apache-2.0 */
/* Leases: ids, shares, work that takes several steps, and magazines. */
#include "tests/unit/core/harness.h"

#include <errno.h>

static uint32_t tokens[HARNESS_TOKENS_MAX];

static void ids_do_not_come_back(void **state)
{
	struct harness *h = harness_new(64, 16);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);

	harness_tokens(1, 64, tokens);
	uint64_t first = harness_acquire(h, s, f, tokens, 16, 0)->rep.lease;
	harness_release(h, s, first);
	uint64_t second = harness_acquire(h, s, f, tokens, 16, 0)->rep.lease;
	assert_int_equal(KVD_LEASE_ROW(first), KVD_LEASE_ROW(second));
	assert_int_not_equal(first, second);
	assert_int_equal(harness_release(h, s, first), KVD_STALE);
	assert_int_equal(harness_release(h, s, 0), KVD_STALE);
	assert_int_equal(harness_release(h, s, UINT64_MAX), KVD_STALE);
	assert_int_equal(harness_release(h, s, second), 0);
	harness_free(h);
}

static void a_session_has_its_share(void **state)
{
	struct core_config config = harness_config(16, 4);
	config.session_share_permille = 500;
	struct harness *h = harness_with(&config);
	uint32_t a = harness_session(h, 0, 0, 0);
	uint32_t b = harness_session(h, 0, 0, 0);
	uint32_t f = harness_format(h, a, 1, 16, 1, HARNESS_PAGE_BYTES);

	harness_tokens(1, 256, tokens);
	assert_int_equal(harness_acquire(h, a, f, tokens, 144, 0)->rep.result, -E2BIG);
	uint64_t lease = harness_acquire(h, a, f, tokens, 96, 0)->rep.lease;
	assert_int_equal(harness_seal(h, a, lease, 0, 6), 0);
	assert_int_equal(h->core->sessions[a].held_bytes[0], 6 * HARNESS_PAGE_BYTES);
	assert_int_equal(harness_acquire(h, b, f, tokens, 96, 0)->rep.result, 0);
	assert_int_equal(h->core->sessions[b].held_bytes[0], 0);
	harness_tokens(2, 256, tokens);
	assert_int_equal(harness_acquire(h, a, f, tokens, 48, 0)->rep.result, KVD_FULL);
	assert_int_equal(harness_acquire(h, b, f, tokens, 48, 0)->rep.result, 0);
	harness_free(h);
}

/* A death with more pages than a step may touch goes on until all are free. */
static void big_work_takes_steps(void **state)
{
	struct core_config config = harness_config(10240, 1024);
	config.request_tokens_max = 1 << 18;
	config.nodes_max = 1 << 15;
	config.index_tokens_max = 1 << 20;
	struct harness *h = harness_with(&config);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);

	harness_tokens(1, HARNESS_TOKENS_MAX, tokens);
	assert_int_equal(harness_acquire(h, s, f, tokens, 16, 9000)->rep.result, 0);
	assert_int_equal(harness_pages(h, KVD_PAGE_OPEN), 9001);
	core_session_close(h->core, s, CORE_END_BYE, h->now_ns);
	assert_true(core_busy(h->core));
	assert_true(core_session_busy(h->core, s));
	assert_int_equal(harness_pages(h, KVD_PAGE_OPEN), 9001 - CORE_STEP_MAX);
	harness_check(h);
	core_time(h->core, h->now_ns);
	assert_true(core_busy(h->core));
	harness_time(h, 0);
	assert_false(core_session_busy(h->core, s));
	assert_int_equal(harness_pages(h, KVD_PAGE_OPEN), 0);
	harness_free(h);
}

static void magazine_has_a_ceiling_and_an_owner(void **state)
{
	struct core_config config = harness_config(64, 16);
	config.magazine_permille = 100;
	struct harness *h = harness_with(&config);
	uint32_t a = harness_session(h, 0, 0, 0);
	uint32_t b = harness_session(h, 0, 0, 0);
	uint32_t f = harness_format(h, a, 1, 16, 1, HARNESS_PAGE_BYTES);
	struct kvd_req topup = {.op = KVD_OP_TOPUP, .format = f, .n = 7, .out_bytes = 256};
	struct kvd_req back = {.op = KVD_OP_RETURN, .n = 2, .in_bytes = 16};
	struct kvd_handle pages[6];

	assert_int_equal(harness_call(h, a, topup, NULL)->rep.result, -E2BIG);
	topup.n = 6;
	memcpy(pages, harness_call(h, a, topup, NULL)->handles, sizeof(pages));
	topup.n = 1;
	assert_int_equal(harness_call(h, a, topup, NULL)->rep.result, KVD_FULL);
	assert_int_equal(harness_call(h, b, back, pages)->rep.result, KVD_STALE);
	pages[1] = pages[0];
	assert_int_equal(harness_call(h, a, back, pages)->rep.result, KVD_STALE);
	assert_int_equal(harness_call(h, a, back, pages + 2)->rep.result, 0);
	assert_int_equal(harness_call(h, a, back, pages + 2)->rep.result, KVD_STALE);
	assert_int_equal(harness_pages(h, KVD_PAGE_OPEN), 4);
	harness_free(h);
}

TEST_MAIN(lease, cmocka_unit_test(ids_do_not_come_back), cmocka_unit_test(a_session_has_its_share),
	  cmocka_unit_test(big_work_takes_steps),
	  cmocka_unit_test(magazine_has_a_ceiling_and_an_owner))
