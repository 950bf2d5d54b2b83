/* SPDX-License-Identifier: Apache-2.0 */
/* Deaths: quarantine, groups of ranks, BYE, HELLO from a process that has stopped. */
#include "tests/unit/core/harness.h"

#include <errno.h>

static uint32_t tokens[64];

static void open_pages_wait_for_proof(void **state)
{
	struct harness *h = harness_new(16, 16);
	uint32_t s = harness_session(h, 0, 7, 0);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);

	harness_tokens(1, 64, tokens);
	uint64_t lease = harness_acquire(h, s, f, tokens, 48, 1)->rep.lease;
	assert_int_equal(harness_seal(h, s, lease, 0, 1), 0);
	harness_close(h, s, CORE_END_BROKEN);
	assert_int_equal(harness_pages(h, KVD_PAGE_QUARANTINE), 3);
	assert_int_equal(harness_pages(h, KVD_PAGE_SEALED), 1);
	core_process_dead(h->core, 8, h->now_ns);
	assert_int_equal(harness_pages(h, KVD_PAGE_QUARANTINE), 3);
	core_process_dead(h->core, 7, h->now_ns);
	assert_int_equal(harness_pages(h, KVD_PAGE_QUARANTINE), 0);
	harness_free(h);
}

static void proof_may_come_first(void **state)
{
	struct harness *h = harness_new(16, 16);
	uint32_t s = harness_session(h, 0, 7, 0);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);

	harness_tokens(1, 64, tokens);
	harness_acquire(h, s, f, tokens, 48, 1);
	core_process_dead(h->core, 7, h->now_ns);
	harness_close(h, s, CORE_END_BROKEN);
	assert_int_equal(harness_pages(h, KVD_PAGE_FREE), 16);
	harness_free(h);
}

static void quiesced_hello_frees(void **state)
{
	struct harness *h = harness_new(16, 16);
	uint32_t s = harness_session(h, 0, 7, 0);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);
	struct core_session_args args = {
		.leases_max = 8, .process = 7, .quiesced = true, .name = "again"};

	harness_tokens(1, 64, tokens);
	harness_acquire(h, s, f, tokens, 48, 1);
	harness_close(h, s, CORE_END_BROKEN);
	assert_int_equal(harness_pages(h, KVD_PAGE_QUARANTINE), 4);
	assert_true(core_session_open(h->core, &args, h->now_ns) >= 0);
	assert_int_equal(harness_pages(h, KVD_PAGE_QUARANTINE), 0);
	harness_free(h);
}

static void bye_frees_at_once(void **state)
{
	struct harness *h = harness_new(16, 16);
	uint32_t s = harness_session(h, 0, 7, 0);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);
	struct kvd_req topup = {.op = KVD_OP_TOPUP, .format = f, .n = 3, .out_bytes = 24};

	harness_tokens(1, 64, tokens);
	harness_acquire(h, s, f, tokens, 48, 1);
	assert_int_equal(harness_call(h, s, topup, NULL)->rep.result, 0);
	harness_close(h, s, CORE_END_BYE);
	assert_int_equal(harness_pages(h, KVD_PAGE_FREE), 16);
	harness_free(h);
}

/* The other rank's lease is revoked, and nothing of the group is free before both are quiet. */
static void death_of_a_rank_ends_the_group(void **state)
{
	struct harness *h = harness_new(16, 16);
	uint32_t a = harness_session(h, 0, 7, 0);
	uint64_t group = core_session_group(h->core, a);
	uint32_t b = harness_session(h, 0, 8, group);
	uint32_t f = harness_format(h, a, 1, 16, 1, HARNESS_PAGE_BYTES);
	struct kvd_req topup = {.op = KVD_OP_TOPUP, .format = f, .n = 2, .out_bytes = 16};
	struct core_session_args late = {.leases_max = 8, .process = 9, .group = group};

	harness_tokens(1, 64, tokens);
	assert_int_equal(harness_call(h, a, topup, NULL)->rep.result, 0);
	uint64_t lease = harness_acquire(h, b, f, tokens, 48, 0)->rep.lease;
	harness_close(h, a, CORE_END_BROKEN);
	assert_int_equal(harness_row(h, b, lease)->state, KVD_LEASE_REVOKED);
	assert_int_equal(core_session_open(h->core, &late, h->now_ns), -ENOENT);
	assert_int_equal(harness_seal(h, b, lease, 0, 1), KVD_STALE);
	assert_int_equal(harness_acquire(h, b, f, tokens, 48, 0)->rep.result, KVD_DRAINING);
	assert_int_equal(harness_release(h, b, lease), 0);
	assert_int_equal(harness_pages(h, KVD_PAGE_QUARANTINE), 3);
	core_process_dead(h->core, 7, h->now_ns);
	assert_int_equal(harness_pages(h, KVD_PAGE_OPEN), 2);
	harness_close(h, b, CORE_END_BYE);
	assert_int_equal(harness_pages(h, KVD_PAGE_FREE), 16);
	harness_free(h);
}

static void large_magazine_comes_back_in_slices(void **state)
{
	enum { PAGES = 2 * CORE_STEP_MAX };
	struct harness *h = harness_new(4 * PAGES, PAGES);
	uint32_t s = harness_session(h, 0, 7, 0);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);
	struct kvd_req topup = {
		.op = KVD_OP_TOPUP, .format = f, .n = PAGES, .out_bytes = PAGES * 8};

	harness_call(h, s, topup, NULL);
	assert_int_equal(harness_pages(h, KVD_PAGE_OPEN), PAGES);
	core_session_close(h->core, s, CORE_END_BROKEN, h->now_ns);
	assert_true(harness_pages(h, KVD_PAGE_OPEN) >= PAGES - CORE_STEP_MAX);
	assert_true(core_busy(h->core));
	harness_time(h, 0);
	assert_int_equal(harness_pages(h, KVD_PAGE_QUARANTINE), PAGES);
	core_process_dead(h->core, 7, h->now_ns);
	harness_time(h, 0);
	assert_int_equal(harness_pages(h, KVD_PAGE_QUARANTINE), 0);
	harness_free(h);
}

/* Ids are counted up: who guesses one could end a stranger's leases by his own death. */
static void only_its_user_joins_a_group(void **state)
{
	struct harness *h = harness_new(16, 16);
	struct core_session_args args = {.leases_max = 4, .process = 5, .uid = 1, .name = "a"};
	int a = core_session_open(h->core, &args, h->now_ns);

	args.group = core_session_group(h->core, (uint32_t)a);
	args.process = 6;
	args.uid = 2;
	assert_int_equal(core_session_open(h->core, &args, h->now_ns), -ENOENT);
	args.uid = 1;
	assert_true(core_session_open(h->core, &args, h->now_ns) >= 0);
	harness_free(h);
}

TEST_MAIN(group, cmocka_unit_test(open_pages_wait_for_proof),
	  cmocka_unit_test(proof_may_come_first), cmocka_unit_test(quiesced_hello_frees),
	  cmocka_unit_test(bye_frees_at_once), cmocka_unit_test(death_of_a_rank_ends_the_group),
	  cmocka_unit_test(only_its_user_joins_a_group),
	  cmocka_unit_test(large_magazine_comes_back_in_slices))
