/* SPDX-License-Identifier: Apache-2.0 */
/* How cold blocks come back: loaded, computed, or called for when they do not come. */
#include "tests/unit/core/tier_scene.h"

#include <base/units.h>
#include <errno.h>

static struct tier_scene cold_chain(uint32_t blocks)
{
	struct core_config config = tier_scene_config(16, 4, 16);
	struct tier_scene s = tier_scene_start(&config);

	tier_scene_cool(&s, 1, blocks, 16);
	return s;
}

static void cold_blocks_are_loaded_and_followed(void **state)
{
	struct tier_scene s = cold_chain(6);
	struct harness *h = s.h;
	struct kvd_rep rep = tier_scene_acquire(&s, 1, 8)->rep;

	assert_int_equal(rep.result, 0);
	assert_int_equal(rep.at.cached_tokens, 0);
	assert_int_equal(rep.at.event, KVD_EVENT_LOAD);
	assert_int_equal(rep.at.build_from, 6 * SCENE_PAGE_TOKENS);
	assert_int_equal(h->transfer_count, 4);
	assert_int_equal(h->transfers[0].kind, CORE_TRANSFER_LOAD);
	for (uint32_t i = 1; i <= 6; i++) {
		harness_transfer(h, 0, 0);
		assert_int_equal(tier_scene_ready(&s, rep.lease), i);
	}
	assert_int_equal(tier_scene_count(&s, KVD_C_LOADED_TOKENS), 6 * SCENE_PAGE_TOKENS);
	assert_int_equal(harness_seal(h, s.session, rep.lease, 6, 2), 0);
	assert_int_equal(harness_release(h, s.session, rep.lease), 0);
	harness_transfers(h, 0);
	harness_free(h);
}

static void what_comes_early_waits_for_its_parent(void **state)
{
	struct tier_scene s = cold_chain(4);
	struct kvd_rep rep = tier_scene_acquire(&s, 1, 5)->rep;

	harness_transfer(s.h, 3, 0);
	harness_transfer(s.h, 2, 0);
	harness_transfer(s.h, 1, 0);
	assert_int_equal(tier_scene_ready(&s, rep.lease), 0);
	harness_transfer(s.h, 0, 0);
	assert_int_equal(tier_scene_ready(&s, rep.lease), 4);
	harness_free(s.h);
}

static void a_second_request_follows_the_load(void **state)
{
	struct tier_scene s = cold_chain(4);
	struct kvd_rep a = tier_scene_acquire(&s, 1, 5)->rep;
	struct kvd_rep b = tier_scene_acquire(&s, 1, 4)->rep;

	assert_int_equal(b.result, 0);
	assert_int_equal(b.at.event, KVD_EVENT_LOAD);
	assert_int_equal(s.h->transfer_count, 4);
	assert_int_equal(harness_transfers(s.h, 0), 4);
	assert_int_equal(tier_scene_ready(&s, a.lease), 4);
	assert_int_equal(tier_scene_ready(&s, b.lease), 4);
	harness_free(s.h);
}

/* The block that is lost and what is behind it are the oldest follower's to compute. */
static void a_load_that_fails_calls_its_follower(void **state)
{
	struct tier_scene s = cold_chain(4);
	struct harness *h = s.h;
	struct kvd_rep rep = tier_scene_acquire(&s, 1, 5)->rep;

	harness_transfer(h, 0, 0);
	harness_transfer(h, 1, 0);
	harness_transfer(h, 0, -EBADMSG);
	const struct kvd_lease_row *row = harness_row(h, s.session, rep.lease);
	assert_int_equal(tier_scene_ready(&s, rep.lease), 1);
	assert_int_equal(row->state, KVD_LEASE_CALL);
	struct kvd_req extend = {.op = KVD_OP_EXTEND,
				 .flags = KVD_EXTEND_CALL,
				 .lease = rep.lease,
				 .m = 5,
				 .out_bytes = 8192,
				 .arg32 = row->event_seq};
	struct harness_reply *r = harness_call(h, s.session, extend, NULL);
	assert_int_equal(r->rep.result, 0);
	assert_int_equal(r->rep.at.build_from, 1 * SCENE_PAGE_TOKENS);
	assert_int_equal(harness_seal(h, s.session, rep.lease, 1, 4), 0);
	assert_int_equal(tier_scene_ready(&s, rep.lease), 5);
	assert_int_equal(tier_scene_count(&s, KVD_C_LOST_TOKENS), SCENE_PAGE_TOKENS);
	harness_transfers(h, 0);
	assert_int_equal(harness_release(h, s.session, rep.lease), 0);
	harness_transfers(h, 0);
	harness_free(h);
}

/* Nobody waits for a disk that hangs; its pages stay its own until it lets go. */
static void a_late_load_is_computed_instead(void **state)
{
	struct tier_scene s = cold_chain(2);
	struct harness *h = s.h;
	struct kvd_rep rep = tier_scene_acquire(&s, 1, 3)->rep;
	uint64_t filling = harness_pages(h, KVD_PAGE_FILLING);

	assert_int_equal(filling, 2);
	core_transfer_late(h->core, h->transfers[0].id, h->now_ns);
	harness_time(h, 0);
	harness_check(h);
	assert_int_equal(harness_row(h, s.session, rep.lease)->state, KVD_LEASE_CALL);
	assert_int_equal(harness_pages(h, KVD_PAGE_FILLING), 2);
	assert_int_equal(harness_release(h, s.session, rep.lease), 0);
	harness_transfer(h, 0, 0);
	harness_transfer(h, 0, -ECANCELED);
	assert_int_equal(harness_pages(h, KVD_PAGE_FILLING), 0);
	harness_free(h);
}

static void a_load_goes_on_without_its_request(void **state)
{
	struct tier_scene s = cold_chain(4);
	struct kvd_rep rep = tier_scene_acquire(&s, 1, 4)->rep;

	assert_int_equal(harness_release(s.h, s.session, rep.lease), 0);
	assert_int_equal(harness_transfers(s.h, 0), 4);
	rep = tier_scene_acquire(&s, 1, 4)->rep;
	assert_int_equal(rep.at.cached_tokens, 4 * SCENE_PAGE_TOKENS);
	harness_free(s.h);
}

/* A follower whose patience is over computes; what is loaded meanwhile is used if it is first. */
static void a_follower_may_take_over(void **state)
{
	struct tier_scene s = cold_chain(4);
	struct harness *h = s.h;
	struct kvd_rep rep = tier_scene_acquire(&s, 1, 5)->rep;
	struct kvd_req take = {.op = KVD_OP_EXTEND,
			       .flags = KVD_EXTEND_TAKE,
			       .lease = rep.lease,
			       .m = 5,
			       .out_bytes = 8192};

	assert_int_equal(harness_call(h, s.session, take, NULL)->rep.result, 0);
	assert_int_equal(harness_seal(h, s.session, rep.lease, 0, 2), 0);
	assert_int_equal(tier_scene_ready(&s, rep.lease), 2);
	harness_transfers(h, 0);
	assert_int_equal(tier_scene_ready(&s, rep.lease), 4);
	assert_int_equal(harness_seal(h, s.session, rep.lease, 2, 3), 0);
	assert_int_equal(harness_release(h, s.session, rep.lease), 0);
	harness_transfers(h, 0);
	harness_free(h);
}

static void prefetch_loads_and_takes_no_lease(void **state)
{
	struct tier_scene s = cold_chain(4);
	uint32_t tokens[4 * SCENE_PAGE_TOKENS];
	struct kvd_req req = {.op = KVD_OP_PREFETCH,
			      .format = s.format,
			      .n = ARRAY_LEN(tokens),
			      .in_bytes = sizeof(tokens)};

	harness_tokens(1, ARRAY_LEN(tokens), tokens);
	struct harness_reply *r = harness_call(s.h, s.session, req, tokens);
	assert_int_equal(r->rep.result, 0);
	assert_int_equal(r->rep.aux, sizeof(tokens) / 4);
	assert_int_equal(harness_transfers(s.h, 0), 4);
	assert_int_equal(tier_scene_count(&s, KVD_C_PREFETCHED_TOKENS), ARRAY_LEN(tokens));
	struct kvd_rep rep = tier_scene_acquire(&s, 1, 4)->rep;
	assert_int_equal(rep.at.cached_tokens, ARRAY_LEN(tokens));
	harness_free(s.h);
}

/* --- the decision ----------------------------------------------------------------------------- */

static void set_rate(struct tier_scene *s, uint64_t tokens_per_s)
{
	struct kvd_req req = {.op = KVD_OP_RATE, .format = s->format, .arg64 = tokens_per_s};

	assert_int_equal(harness_call(s->h, s->session, req, NULL)->rep.result, 0);
}

/* Loads the cold chain 1 with each transfer taking so long, and cools it again. */
static void measure(struct tier_scene *s, uint64_t transfer_ms)
{
	struct kvd_rep rep = tier_scene_acquire(s, 1, 8)->rep;
	while (s->h->transfer_count > 0) {
		harness_time(s->h, transfer_ms);
		harness_transfer(s->h, 0, 0);
	}
	assert_int_equal(harness_release(s->h, s->session, rep.lease), 0);
	rep = tier_scene_acquire(s, 9999, 16)->rep;
	assert_int_equal(harness_release(s->h, s->session, rep.lease), 0);
}

static void the_faster_of_load_and_compute_is_chosen(void **state)
{
	static const struct {
		uint64_t transfer_ms;
		uint64_t tokens_per_s;
		bool loads;
	} rows[] = {{1, 1000, true}, {1, 10000000, false}, {100, 1000, false}, {100, 10, true}};

	for (uint32_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct core_config config = tier_scene_config(16, 4, 16);
		struct tier_scene s = tier_scene_start(&config);
		tier_scene_cool(&s, 1, 8, 16);
		measure(&s, rows[i].transfer_ms);
		set_rate(&s, rows[i].tokens_per_s);
		struct kvd_rep rep = tier_scene_acquire(&s, 1, 8)->rep;
		assert_int_equal(rep.result, 0);
		assert_int_equal(rep.at.build_from, rows[i].loads ? 8 * SCENE_PAGE_TOKENS : 0);
		assert_int_equal(tier_scene_count(&s, KVD_C_COMPUTES_CHOSEN), !rows[i].loads);
		assert_int_equal(tier_scene_count(&s, KVD_C_LOADS_CHOSEN), 1 + rows[i].loads);
		if (!rows[i].loads)
			assert_int_equal(harness_seal(s.h, s.session, rep.lease, 0, 8), 0);
		harness_transfers(s.h, 0);
		harness_free(s.h);
	}
}

/* A disk that was slow once is tried again after a while. */
static void doubt_grows(void **state)
{
	struct core_config config = tier_scene_config(16, 4, 16);
	struct tier_scene s = tier_scene_start(&config);

	tier_scene_cool(&s, 1, 8, 16);
	measure(&s, 1);
	measure(&s, 100);
	measure(&s, 100);
	set_rate(&s, 1000);
	struct kvd_rep rep = tier_scene_acquire(&s, 1, 8)->rep;
	assert_int_equal(rep.at.build_from, 0);
	assert_int_equal(harness_release(s.h, s.session, rep.lease), 0);
	harness_time(s.h, 300000);
	rep = tier_scene_acquire(&s, 1, 8)->rep;
	assert_int_equal(rep.at.build_from, 8 * SCENE_PAGE_TOKENS);
	harness_transfers(s.h, 0);
	harness_free(s.h);
}

static void what_is_down_is_computed(void **state)
{
	struct tier_scene s = cold_chain(4);

	core_area_down(s.h->core, CORE_TIER_FILE, 0, true);
	struct kvd_rep rep = tier_scene_acquire(&s, 1, 4)->rep;
	assert_int_equal(rep.at.build_from, 0);
	assert_int_equal(harness_release(s.h, s.session, rep.lease), 0);
	core_area_down(s.h->core, CORE_TIER_FILE, 0, false);
	rep = tier_scene_acquire(&s, 1, 4)->rep;
	assert_int_equal(rep.at.build_from, 4 * SCENE_PAGE_TOKENS);
	harness_transfers(s.h, 0);
	harness_free(s.h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cold_blocks_are_loaded_and_followed),
		cmocka_unit_test(what_comes_early_waits_for_its_parent),
		cmocka_unit_test(a_second_request_follows_the_load),
		cmocka_unit_test(a_load_that_fails_calls_its_follower),
		cmocka_unit_test(a_late_load_is_computed_instead),
		cmocka_unit_test(a_load_goes_on_without_its_request),
		cmocka_unit_test(a_follower_may_take_over),
		cmocka_unit_test(prefetch_loads_and_takes_no_lease),
		cmocka_unit_test(the_faster_of_load_and_compute_is_chosen),
		cmocka_unit_test(doubt_grows),
		cmocka_unit_test(what_is_down_is_computed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
