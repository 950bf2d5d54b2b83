/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting, refusing with numbers, fairness, and slabs that are slow or do not come. */
#include "tests/unit/core/harness.h"

#include <errno.h>

static uint32_t tokens[256];

static struct kvd_req acquire_req(uint32_t format, uint32_t n, uint32_t deadline_ms)
{
	return (struct kvd_req){.op = KVD_OP_ACQUIRE,
				.format = format,
				.n = n,
				.in_bytes = n * 4,
				.deadline_ms = deadline_ms,
				.out_bytes = 256};
}

static bool came(const struct harness *h, uint32_t tag)
{
	return h->replies[tag % HARNESS_REPLIES_MAX].came;
}

static int result(const struct harness *h, uint32_t tag)
{
	assert_true(came(h, tag));
	return h->replies[tag % HARNESS_REPLIES_MAX].rep.result;
}

static void refusal_has_the_numbers(void **state)
{
	struct harness *h = harness_new(8, 4);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);

	harness_tokens(1, 256, tokens);
	harness_cache(h, s, f, tokens, 32);
	harness_tokens(2, 256, tokens);
	harness_acquire(h, s, f, tokens, 64, 0);
	harness_tokens(3, 256, tokens);
	struct kvd_rep rep = harness_call(h, s, acquire_req(f, 80, 0), tokens)->rep;
	assert_int_equal(rep.result, KVD_FULL);
	assert_int_equal(rep.full.needed_pages, 5);
	assert_int_equal(rep.full.free_pages, 2);
	assert_int_equal(rep.full.evictable_pages, 2);
	assert_int_equal(h->core->counters[KVD_C_REFUSED_FULL], 1);
	rep = harness_call(h, s, acquire_req(f, 64, 0), tokens)->rep;
	assert_int_equal(rep.result, 0);
	assert_int_equal(h->core->counters[KVD_C_EVICTED_PAGES], 2);
	harness_free(h);
}

static void first_come_first_served(void **state)
{
	struct harness *h = harness_new(8, 4);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t t = harness_session(h, 0, 0, 0);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);

	harness_tokens(1, 256, tokens);
	uint64_t lease = harness_acquire(h, s, f, tokens, 96, 0)->rep.lease;
	harness_tokens(2, 256, tokens);
	uint32_t big = harness_send(h, t, acquire_req(f, 112, 100), tokens);
	harness_tokens(3, 256, tokens);
	uint32_t small = harness_send(h, t, acquire_req(f, 16, 100), tokens);
	assert_false(came(h, big));
	assert_false(came(h, small));
	harness_release(h, s, lease);
	assert_int_equal(result(h, big), 0);
	assert_int_equal(result(h, small), 0);
	harness_free(h);
}

/* Who waits for his own share is in nobody's way. */
static void own_limit_blocks_nobody(void **state)
{
	struct harness *h = harness_new(8, 4);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);

	harness_tokens(1, 256, tokens);
	harness_acquire(h, s, f, tokens, 96, 0);
	harness_tokens(2, 256, tokens);
	uint32_t big = harness_send(h, s, acquire_req(f, 112, 100), tokens);
	harness_tokens(3, 256, tokens);
	uint32_t small = harness_send(h, s, acquire_req(f, 16, 100), tokens);
	assert_false(came(h, big));
	assert_int_equal(result(h, small), 0);
	harness_free(h);
}

static void deadline_cancel_and_busy(void **state)
{
	struct harness *h = harness_new(8, 4);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);
	uint32_t tags[5];

	harness_tokens(1, 256, tokens);
	harness_acquire(h, s, f, tokens, 128, 0);
	harness_tokens(2, 256, tokens);
	for (uint32_t i = 0; i < 5; i++)
		tags[i] = harness_send(h, s, acquire_req(f, 16, 10 + i), tokens);
	assert_int_equal(result(h, tags[4]), KVD_BUSY);
	struct kvd_req cancel = {.op = KVD_OP_CANCEL, .arg32 = tags[1]};
	assert_int_equal(harness_call(h, s, cancel, NULL)->rep.result, 0);
	assert_int_equal(result(h, tags[1]), -ECANCELED);
	assert_int_equal(harness_call(h, s, cancel, NULL)->rep.result, KVD_MISS);
	assert_int_equal(core_deadline_ns(h->core), h->now_ns + 10000000);
	harness_time(h, 10);
	assert_int_equal(result(h, tags[0]), KVD_FULL);
	assert_false(came(h, tags[2]));
	harness_close(h, s, CORE_END_BYE);
	assert_false(came(h, tags[2]));
	harness_free(h);
}

static void running_sequences_go_first(void **state)
{
	struct harness *h = harness_new(8, 4);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);
	struct kvd_req topup = {
		.op = KVD_OP_TOPUP, .format = f, .n = 2, .out_bytes = 16, .deadline_ms = 100};

	harness_tokens(1, 256, tokens);
	uint64_t a = harness_acquire(h, s, f, tokens, 32, 0)->rep.lease;
	harness_tokens(2, 256, tokens);
	uint64_t b = harness_acquire(h, s, f, tokens, 96, 0)->rep.lease;
	harness_tokens(3, 256, tokens);
	uint32_t waits = harness_send(h, s, acquire_req(f, 128, 100), tokens);
	uint32_t runs = harness_send(h, s, topup, NULL);
	harness_release(h, s, a);
	assert_int_equal(result(h, runs), 0);
	assert_false(came(h, waits));
	assert_int_equal(h->session_rows[s].want_back_pages, 0);
	harness_release(h, s, b);
	harness_time(h, 100);
	assert_int_equal(result(h, waits), KVD_FULL);
	harness_free(h);
}

static void slab_is_waited_for_whatever_the_deadline(void **state)
{
	struct harness *h = harness_new(16, 4);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);

	h->slow = true;
	harness_tokens(1, 256, tokens);
	uint32_t tag = harness_send(h, s, acquire_req(f, 96, 0), tokens);
	assert_int_equal(h->order_count, 2);
	harness_time(h, 5);
	assert_false(came(h, tag));
	harness_orders(h, 0);
	harness_time(h, 0);
	assert_int_equal(result(h, tag), 0);
	harness_free(h);
}

static void pool_shrinks_when_a_slab_cannot_be_made(void **state)
{
	struct harness *h = harness_new(16, 4);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);

	h->slow = true;
	harness_tokens(1, 256, tokens);
	uint32_t tag = harness_send(h, s, acquire_req(f, 32, 0), tokens);
	harness_orders(h, -ENOMEM);
	harness_time(h, 0);
	assert_int_equal(result(h, tag), KVD_FULL);
	assert_int_equal(h->core->banks[0].bytes, 0);
	tag = harness_send(h, s, acquire_req(f, 32, 2000), tokens);
	assert_false(came(h, tag));
	h->slow = false;
	assert_int_equal(core_deadline_ns(h->core), h->now_ns + 1000000000);
	harness_time(h, 1000);
	assert_int_equal(result(h, tag), 0);
	harness_free(h);
}

static void drain_lets_nobody_in(void **state)
{
	struct harness *h = harness_new(8, 4);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t admin = harness_admin(h);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);
	struct kvd_req drain = {.op = KVD_OP_DRAIN, .arg32 = 1};

	harness_tokens(1, 256, tokens);
	harness_acquire(h, s, f, tokens, 128, 0);
	uint32_t tag = harness_send(h, s, acquire_req(f, 144 - 128, 100), tokens + 130);
	assert_false(came(h, tag));
	assert_int_equal(harness_call(h, s, drain, NULL)->rep.result, -EPERM);
	assert_int_equal(harness_call(h, admin, drain, NULL)->rep.result, 0);
	assert_int_equal(result(h, tag), KVD_DRAINING);
	assert_int_equal(h->session_rows[s].draining, 1);
	assert_int_equal(harness_acquire(h, s, f, tokens, 16, 0)->rep.result, KVD_DRAINING);
	harness_free(h);
}

/* Decoding makes a session larger than its prompts were: the share holds for that, too. */
static void share_bounds_topups(void **state)
{
	struct core_config config = harness_config(16, 4);

	config.session_share_permille = 500;
	struct harness *h = harness_with(&config);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t t = harness_session(h, 0, 0, 0);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);
	struct kvd_req topup = {.op = KVD_OP_TOPUP, .format = f, .n = 1, .out_bytes = 8};

	harness_tokens(1, 256, tokens);
	uint64_t lease = harness_acquire(h, s, f, tokens, 128, 0)->rep.lease;
	assert_int_equal(harness_call(h, s, topup, NULL)->rep.result, KVD_FULL);
	assert_int_equal(harness_call(h, t, topup, NULL)->rep.result, 0);
	harness_release(h, s, lease);
	assert_int_equal(harness_call(h, s, topup, NULL)->rep.result, 0);
	harness_free(h);
}

/* A step whose budget was all spent on freeing memory leaves the waiting to the next one. */
static void spent_budget_loses_no_waiter(void **state)
{
	struct harness *h = harness_new(2 * CORE_STEP_MAX, CORE_STEP_MAX);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);
	struct kvd_req all = acquire_req(f, 16, 0);

	all.flags = KVD_ACQUIRE_NO_HIT;
	all.arg32 = 2 * CORE_STEP_MAX - 1;
	harness_tokens(1, 256, tokens);
	uint64_t lease = harness_call(h, s, all, tokens)->rep.lease;
	uint32_t tag = harness_send(h, s, acquire_req(f, 16, 1000), tokens);
	assert_false(came(h, tag));
	harness_release(h, s, lease);
	assert_int_equal(result(h, tag), 0);
	harness_free(h);
}

/* What a failed attempt had pinned and let go again is no memory that came free. */
static void failed_attempt_wakes_nobody(void **state)
{
	enum { BLOCKS = 5001 };
	static uint32_t prompt[(BLOCKS + 3000) * 16];
	struct core_config config = harness_config(8192, 1024);

	config.nodes_max = 16384;
	struct harness *h = harness_with(&config);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);
	harness_tokens(1, ARRAY_LEN(prompt), prompt);
	for (uint32_t blocks = BLOCKS / 3; blocks <= BLOCKS; blocks += BLOCKS / 3)
		harness_cache(h, s, f, prompt, blocks * 16);
	struct kvd_req rest = acquire_req(f, 16, 0);
	rest.flags = KVD_ACQUIRE_NO_HIT;
	rest.arg32 = 3000;
	uint64_t lease = harness_call(h, s, rest, tokens)->rep.lease;
	uint32_t tag = harness_send(h, s, acquire_req(f, (BLOCKS + 3000) * 16, 1000), prompt);
	assert_false(came(h, tag));
	harness_release(h, s, lease);
	assert_int_equal(result(h, tag), 0);
	struct kvd_rep rep = h->replies[tag % HARNESS_REPLIES_MAX].rep;
	assert_int_equal(rep.at.cached_tokens, BLOCKS * 16);
	harness_free(h);
}

/* However many requests one session may have, there is room for those of all others. */
static void nobody_takes_all_the_room(void **state)
{
	struct harness *h = harness_new(8, 4);
	struct core_session_args args = {
		.leases_max = 4, .waiting_max = 512, .process = 5, .name = "greedy"};
	uint32_t s = (uint32_t)core_session_open(h->core, &args, h->now_ns);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);
	uint32_t t = harness_session(h, 0, 0, 0);

	harness_tokens(1, 256, tokens);
	harness_acquire(h, t, f, tokens, 128, 0);
	for (uint32_t i = 0; i < CORE_WAITERS_PER_SESSION; i++)
		assert_false(came(h, harness_send(h, s, acquire_req(f, 16, 1000), tokens + 128)));
	uint32_t tag = harness_send(h, s, acquire_req(f, 16, 1000), tokens + 128);
	assert_int_equal(result(h, tag), KVD_BUSY);
	harness_free(h);
}

TEST_MAIN(wait, cmocka_unit_test(refusal_has_the_numbers),
	  cmocka_unit_test(first_come_first_served), cmocka_unit_test(own_limit_blocks_nobody),
	  cmocka_unit_test(deadline_cancel_and_busy), cmocka_unit_test(running_sequences_go_first),
	  cmocka_unit_test(slab_is_waited_for_whatever_the_deadline),
	  cmocka_unit_test(pool_shrinks_when_a_slab_cannot_be_made),
	  cmocka_unit_test(drain_lets_nobody_in), cmocka_unit_test(spent_budget_loses_no_waiter),
	  cmocka_unit_test(failed_attempt_wakes_nobody),
	  cmocka_unit_test(nobody_takes_all_the_room), cmocka_unit_test(share_bounds_topups))
