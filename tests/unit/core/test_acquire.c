/* SPDX-License-Identifier: Apache-2.0 */
/* ACQUIRE: what is matched, followed, promised and handed out. */
#include "tests/unit/core/harness.h"

#include <errno.h>

static uint32_t tokens[HARNESS_TOKENS_MAX];

static void cold_prompt_gets_pages(void **state)
{
	struct harness *h = harness_new(64, 16);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);

	harness_tokens(1, 40, tokens);
	struct harness_reply *r = harness_acquire(h, s, f, tokens, 40, 2);
	assert_int_equal(r->rep.result, 0);
	assert_int_equal(r->rep.at.cached_tokens, 0);
	assert_int_equal(r->rep.at.build_from, 0);
	assert_int_equal(r->rep.at.event, KVD_EVENT_COMPUTE);
	assert_int_equal(r->rep.at.handle_count, 5);
	for (uint32_t i = 0; i < 5; i++)
		assert_int_not_equal(r->handles[i].page, KVD_PAGE_NONE);
	assert_int_equal(harness_pages(h, KVD_PAGE_OPEN), 5);
	assert_int_equal(h->core->node_count, 2);
	harness_free(h);
}

/* 4,096 cached tokens, at every page size: the same pages for another process, none taken. */
static void hit_shares_pages(void **state)
{
	static const uint32_t sizes[] = {16, 32, 64, 128};

	harness_tokens(7, 4096, tokens);
	for (uint32_t i = 0; i < ARRAY_LEN(sizes); i++) {
		struct harness *h = harness_new(512, 64);
		uint32_t a = harness_session(h, 0, 0, 0);
		uint32_t b = harness_session(h, 0, 0, 0);
		uint32_t f = harness_format(h, a, 1, sizes[i], 1, HARNESS_PAGE_BYTES);
		uint32_t blocks = 4096 / sizes[i];

		struct harness_reply *r = harness_acquire(h, a, f, tokens, 4096, 0);
		uint32_t first_page = r->handles[0].page;
		uint32_t last_page = r->handles[blocks - 1].page;
		uint64_t lease = r->rep.lease;
		assert_int_equal(harness_seal(h, a, lease, 0, blocks), 0);
		r = harness_acquire(h, b, f, tokens, 4096, 0);
		assert_int_equal(r->rep.result, 0);
		assert_int_equal(r->rep.at.cached_tokens, 4096);
		assert_int_equal(r->rep.at.build_from, 4096);
		assert_int_equal(r->rep.at.handle_count, blocks);
		assert_int_equal(r->handles[0].page, first_page);
		assert_int_equal(r->handles[blocks - 1].page, last_page);
		assert_int_equal(harness_pages(h, KVD_PAGE_SEALED), blocks);
		assert_int_equal(harness_pages(h, KVD_PAGE_OPEN), 0);
		harness_free(h);
	}
}

static void divergence_ends_the_hit(void **state)
{
	struct harness *h = harness_new(64, 16);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);

	harness_tokens(1, 64, tokens);
	harness_cache(h, s, f, tokens, 64);
	tokens[35]++;
	struct harness_reply *r = harness_acquire(h, s, f, tokens, 64, 0);
	assert_int_equal(r->rep.at.cached_tokens, 32);
	assert_int_equal(r->rep.at.build_from, 32);
	harness_free(h);
}

static void cold_run_sees_and_leaves_nothing(void **state)
{
	struct harness *h = harness_new(64, 16);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);

	harness_tokens(1, 32, tokens);
	harness_cache(h, s, f, tokens, 32);
	struct kvd_req req = {.op = KVD_OP_ACQUIRE,
			      .flags = KVD_ACQUIRE_NO_HIT,
			      .format = f,
			      .n = 32,
			      .in_bytes = 128,
			      .out_bytes = 64};
	struct kvd_rep rep = harness_call(h, s, req, tokens)->rep;
	assert_int_equal(rep.at.cached_tokens, 0);
	assert_int_equal(harness_seal(h, s, rep.lease, 0, 2), KVD_KEPT);
	assert_int_equal(h->core->node_count, 2);
	harness_release(h, s, rep.lease);
	assert_int_equal(harness_pages(h, KVD_PAGE_SEALED), 2);
	harness_free(h);
}

static void extras_are_part_of_a_block(void **state)
{
	struct harness *h = harness_new(64, 16);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);
	uint8_t in[128 + sizeof(struct kvd_extra)];
	struct kvd_extra extra = {.token_pos = 20, .digest = {1}};
	struct kvd_req req = {.op = KVD_OP_ACQUIRE,
			      .format = f,
			      .n = 32,
			      .m = 1,
			      .in_bytes = sizeof(in),
			      .out_bytes = 64};

	harness_tokens(1, 32, tokens);
	harness_cache(h, s, f, tokens, 32);
	memcpy(in, tokens, 128);
	memcpy(in + 128, &extra, sizeof(extra));
	struct kvd_rep rep = harness_call(h, s, req, in)->rep;
	assert_int_equal(rep.at.cached_tokens, 16);
	assert_int_equal(harness_seal(h, s, rep.lease, 1, 1), 0);
	harness_release(h, s, rep.lease);
	assert_int_equal(harness_call(h, s, req, in)->rep.at.cached_tokens, 32);
	extra.token_pos = 40;
	memcpy(in + 128, &extra, sizeof(extra));
	assert_int_equal(harness_call(h, s, req, in)->rep.result, -EINVAL);
	harness_free(h);
}

static void what_does_not_fit_comes_by_extend(void **state)
{
	struct harness *h = harness_new(64, 16);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f = harness_format(h, s, 1, 16, 2, HARNESS_PAGE_BYTES);
	struct kvd_req req = {
		.op = KVD_OP_ACQUIRE, .format = f, .n = 64, .in_bytes = 256, .out_bytes = 40};

	harness_tokens(1, 64, tokens);
	struct kvd_rep rep = harness_call(h, s, req, tokens)->rep;
	assert_int_equal(rep.at.handle_count, 4);
	req = (struct kvd_req){
		.op = KVD_OP_EXTEND, .lease = rep.lease, .first = 2, .m = 9, .out_bytes = 4096};
	struct harness_reply *r = harness_call(h, s, req, NULL);
	assert_int_equal(r->rep.at.handle_count, 4);
	assert_int_not_equal(r->handles[3].page, KVD_PAGE_NONE);
	harness_free(h);
}

static void impossible_is_refused_at_once(void **state)
{
	struct harness *h = harness_new(8, 4);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);

	harness_tokens(1, 256, tokens);
	assert_int_equal(harness_acquire(h, s, f, tokens, 144, 0)->rep.result, -E2BIG);
	assert_int_equal(harness_acquire(h, s, f, tokens, 128, 0)->rep.result, 0);
	assert_int_equal(harness_acquire(h, s, f, tokens, 16, UINT32_MAX)->rep.result, -E2BIG);
	assert_int_equal(harness_acquire(h, s, f + 1, tokens, 16, 0)->rep.result, -EINVAL);
	harness_free(h);
}

static void prefetch_says_what_is_cached(void **state)
{
	struct harness *h = harness_new(64, 16);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);
	struct kvd_req req = {.op = KVD_OP_PREFETCH, .format = f, .n = 40, .in_bytes = 160};

	harness_tokens(1, 40, tokens);
	harness_cache(h, s, f, tokens, 32);
	struct harness_reply *r = harness_call(h, s, req, tokens);
	assert_int_equal(r->rep.result, 0);
	assert_int_equal(r->rep.at.cached_tokens, 32);
	assert_int_equal(h->core->lease_count, 0);
	harness_free(h);
}

TEST_MAIN(acquire, cmocka_unit_test(cold_prompt_gets_pages), cmocka_unit_test(hit_shares_pages),
	  cmocka_unit_test(divergence_ends_the_hit),
	  cmocka_unit_test(cold_run_sees_and_leaves_nothing),
	  cmocka_unit_test(extras_are_part_of_a_block),
	  cmocka_unit_test(what_does_not_fit_comes_by_extend),
	  cmocka_unit_test(impossible_is_refused_at_once),
	  cmocka_unit_test(prefetch_says_what_is_cached))
