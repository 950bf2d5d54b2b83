/* SPDX-License-Identifier: Apache-2.0 */
/* Slabs move between geometries and namespaces, and nobody loses what is in use. */
#include "tests/unit/core/harness.h"

static uint32_t tokens[256];

static void idle_slab_changes_geometry(void **state)
{
	struct harness *h = harness_new(8, 4);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t small = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);
	uint32_t large = harness_format(h, s, 2, 16, 1, 2 * HARNESS_PAGE_BYTES);

	harness_tokens(1, 256, tokens);
	harness_cache(h, s, small, tokens, 128);
	struct kvd_req req = {.op = KVD_OP_ACQUIRE,
			      .format = large,
			      .n = 48,
			      .in_bytes = 192,
			      .deadline_ms = 10,
			      .out_bytes = 64};
	uint32_t tag = harness_send(h, s, req, tokens);
	harness_time(h, 1);
	struct harness_reply *r = &h->replies[tag % HARNESS_REPLIES_MAX];
	assert_true(r->came);
	assert_int_equal(r->rep.result, 0);
	assert_int_equal(h->core->counters[KVD_C_SLABS_RETIRED], 2);
	assert_int_equal(h->core->node_count, 3);
	harness_free(h);
}

static void importers_are_asked_then_forced(void **state)
{
	struct harness *h = harness_new(4, 4);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t deaf = harness_session(h, 0, 0, 0);
	uint32_t small = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);
	uint32_t large = harness_format(h, s, 2, 16, 1, 2 * HARNESS_PAGE_BYTES);
	struct kvd_slab_wire wire;

	harness_tokens(1, 256, tokens);
	uint32_t page = harness_acquire(h, s, small, tokens, 16, 0)->handles[0].page;
	assert_int_equal(core_slab_find(h->core, s, page, &wire), 0);
	assert_int_equal(wire.page_count, 4);
	assert_int_equal(core_slab_imported(h->core, s, wire.slab), 0);
	assert_int_equal(core_slab_imported(h->core, deaf, wire.slab), 0);
	uint64_t lease = KVD_LEASE_ID(1, 1);
	assert_int_equal(harness_release(h, s, lease), 0);
	struct kvd_req req = {.op = KVD_OP_ACQUIRE,
			      .format = large,
			      .n = 16,
			      .in_bytes = 64,
			      .deadline_ms = 500,
			      .out_bytes = 64};
	uint32_t tag = harness_send(h, s, req, tokens);
	assert_int_equal(h->session_rows[s].retiring_slab, wire.slab + 1);
	assert_int_equal(h->session_rows[deaf].retiring_slab, wire.slab + 1);
	struct kvd_req gone = {.op = KVD_OP_SLAB_GONE, .arg32 = wire.slab};
	assert_int_equal(harness_call(h, s, gone, NULL)->rep.result, 0);
	assert_int_equal(h->session_rows[s].retiring_slab, 0);
	assert_int_equal(harness_call(h, s, gone, NULL)->rep.result, KVD_STALE);
	harness_time(h, 99);
	assert_false(h->replies[tag % HARNESS_REPLIES_MAX].came);
	harness_time(h, 1);
	assert_int_equal(h->expelled, 1u << deaf);
	harness_close(h, deaf, CORE_END_BROKEN);
	assert_true(h->replies[tag % HARNESS_REPLIES_MAX].came);
	assert_int_equal(h->replies[tag % HARNESS_REPLIES_MAX].rep.result, 0);
	harness_free(h);
}

static void other_namespace_keeps_its_floor(void **state)
{
	struct harness *h = harness_new(8, 4);
	struct core_space_args args = {.name = "kept", .floor_bytes = 4 * HARNESS_PAGE_BYTES};
	uint32_t kept = (uint32_t)core_space_add(h->core, &args);
	uint32_t a = harness_session(h, 0, 0, 0);
	uint32_t b = harness_session(h, kept, 0, 0);
	uint32_t fa = harness_format(h, a, 1, 16, 1, HARNESS_PAGE_BYTES);
	uint32_t fb = harness_format(h, b, 1, 16, 1, HARNESS_PAGE_BYTES);

	harness_tokens(1, 256, tokens);
	harness_cache(h, b, fb, tokens, 64);
	harness_cache(h, a, fa, tokens, 64);
	harness_tokens(2, 256, tokens);
	harness_cache(h, a, fa, tokens, 64);
	harness_tokens(1, 256, tokens);
	assert_int_equal(harness_acquire(h, b, fb, tokens, 64, 0)->rep.at.cached_tokens, 64);
	struct kvd_slab_wire wire;
	assert_int_equal(core_slab_find(h->core, a, 0, &wire) == 0,
			 h->core->slabs[0].space == 0 && h->core->pages[0].slab == 0);
	harness_free(h);
}

static void nothing_crosses_a_namespace(void **state)
{
	struct harness *h = harness_new(16, 4);
	uint32_t a = harness_session(h, 0, 0, 0);
	uint32_t b = harness_session(h, harness_space(h, "other"), 0, 0);
	uint32_t fa = harness_format(h, a, 1, 16, 1, HARNESS_PAGE_BYTES);
	uint32_t fb = harness_format(h, b, 1, 16, 1, HARNESS_PAGE_BYTES);
	struct kvd_slab_wire wire;

	harness_tokens(1, 64, tokens);
	harness_cache(h, a, fa, tokens, 64);
	assert_int_not_equal(fa, fb);
	struct harness_reply *r = harness_acquire(h, b, fb, tokens, 64, 0);
	assert_int_equal(r->rep.at.cached_tokens, 0);
	assert_true(core_slab_find(h->core, a, r->handles[0].page, &wire) < 0);
	assert_int_equal(core_slab_find(h->core, b, r->handles[0].page, &wire), 0);
	assert_true(harness_acquire(h, b, fa, tokens, 64, 0)->rep.result < 0);
	harness_free(h);
}

/* Slabs that come free for one request are not counted on by another. */
static void one_turns_at_a_time(void **state)
{
	struct harness *h = harness_new(8, 4);
	uint32_t a = harness_session(h, 0, 0, 0);
	uint32_t b = harness_session(h, harness_space(h, "first"), 0, 0);
	uint32_t c = harness_session(h, harness_space(h, "second"), 0, 0);
	uint32_t large = harness_format(h, a, 1, 16, 1, 2 * HARNESS_PAGE_BYTES);
	struct kvd_req req = {.op = KVD_OP_ACQUIRE,
			      .format = large,
			      .n = 64,
			      .in_bytes = 256,
			      .deadline_ms = 1000,
			      .out_bytes = 256};

	harness_tokens(1, 256, tokens);
	uint64_t lease = harness_call(h, a, req, tokens)->rep.lease;
	req.n = 96;
	req.in_bytes = 384;
	req.format = harness_format(h, b, 2, 16, 1, HARNESS_PAGE_BYTES);
	uint32_t one = harness_send(h, b, req, tokens);
	req.format = harness_format(h, c, 2, 16, 1, HARNESS_PAGE_BYTES);
	uint32_t two = harness_send(h, c, req, tokens);
	assert_int_equal(harness_release(h, a, lease), 0);
	harness_time(h, 200);
	const struct harness_reply *r = &h->replies[one % HARNESS_REPLIES_MAX];
	assert_true(r->came);
	assert_int_equal(r->rep.result, 0);
	assert_int_equal(harness_release(h, b, r->rep.lease), 0);
	harness_time(h, 200);
	assert_int_equal(h->replies[two % HARNESS_REPLIES_MAX].rep.result, 0);
	harness_free(h);
}

TEST_MAIN(turnover, cmocka_unit_test(idle_slab_changes_geometry),
	  cmocka_unit_test(importers_are_asked_then_forced), cmocka_unit_test(one_turns_at_a_time),
	  cmocka_unit_test(other_namespace_keeps_its_floor),
	  cmocka_unit_test(nothing_crosses_a_namespace))
