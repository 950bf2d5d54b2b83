/* SPDX-License-Identifier: Apache-2.0 */
/* PIN, UNPIN, EVICT, WHY, LIST, STAT: what an operator and a curious client may ask. */
#include "tests/unit/core/harness.h"

#include <errno.h>

static uint32_t tokens[256];

static struct kvd_req tokens_req(uint16_t op, uint32_t format, uint32_t n)
{
	return (struct kvd_req){
		.op = op, .format = format, .n = n, .in_bytes = n * 4, .out_bytes = 4096};
}

static uint32_t why(struct harness *h, uint32_t s, uint32_t format, uint32_t n, struct kvd_why *out)
{
	struct harness_reply *r = harness_call(h, s, tokens_req(KVD_OP_WHY, format, n), tokens);

	assert_int_equal(r->rep.out_bytes, sizeof(*out));
	memcpy(out, r->bytes, sizeof(*out));
	return out->cause;
}

static void pinned_prefix_is_not_evicted(void **state)
{
	struct harness *h = harness_new(16, 4);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t admin = harness_admin(h);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);
	struct kvd_req evict = {.op = KVD_OP_EVICT, .arg64 = 100, .flags = KVD_EVICT_ALL_SPACES};

	harness_tokens(1, 256, tokens);
	harness_cache(h, s, f, tokens, 96);
	assert_int_equal(harness_call(h, s, tokens_req(KVD_OP_PIN, f, 96), tokens)->rep.result,
			 KVD_FULL);
	struct harness_reply *r = harness_call(h, s, tokens_req(KVD_OP_PIN, f, 40), tokens);
	assert_int_equal(r->rep.result, 0);
	assert_int_equal(r->rep.at.cached_tokens, 32);
	r = harness_call(h, s, tokens_req(KVD_OP_PIN, f, 40), tokens);
	assert_int_equal(r->rep.at.cached_tokens, 32);
	assert_int_equal(harness_call(h, admin, evict, NULL)->rep.aux, 4);
	assert_int_equal(h->core->node_count, 2);
	assert_int_equal(harness_call(h, s, tokens_req(KVD_OP_UNPIN, f, 32), tokens)->rep.result,
			 0);
	assert_int_equal(harness_call(h, s, tokens_req(KVD_OP_UNPIN, f, 32), tokens)->rep.result,
			 KVD_MISS);
	assert_int_equal(harness_call(h, admin, evict, NULL)->rep.aux, 2);
	harness_free(h);
}

static void eviction_takes_leaves_first(void **state)
{
	struct harness *h = harness_new(16, 4);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t admin = harness_admin(h);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);
	struct kvd_req evict = {.op = KVD_OP_EVICT, .arg64 = 3};

	harness_tokens(1, 256, tokens);
	harness_cache(h, s, f, tokens, 96);
	assert_int_equal(harness_call(h, s, evict, NULL)->rep.result, -EPERM);
	assert_int_equal(harness_call(h, admin, evict, NULL)->rep.aux, 3);
	assert_int_equal(harness_acquire(h, s, f, tokens, 96, 0)->rep.at.cached_tokens, 48);
	harness_free(h);
}

static void misses_have_causes(void **state)
{
	struct harness *h = harness_new(32, 16);
	uint32_t s = harness_session(h, 0, 5, 0);
	uint32_t t = harness_session(h, 0, 6, 0);
	uint32_t admin = harness_admin(h);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);
	uint32_t g = harness_format(h, s, 2, 32, 1, HARNESS_PAGE_BYTES);
	struct kvd_req evict = {.op = KVD_OP_EVICT, .arg64 = 1};
	struct kvd_why w;

	harness_tokens(1, 256, tokens);
	assert_int_equal(why(h, s, f, 10, &w), KVD_WHY_SHORT);
	assert_int_equal(why(h, s, f, 64, &w), KVD_WHY_NEVER_SEEN);
	harness_cache(h, s, f, tokens, 64);
	assert_int_equal(why(h, s, f, 64, &w), KVD_WHY_HIT);
	assert_int_equal(w.hit_tokens, 64);
	assert_int_equal(why(h, s, g, 64, &w), KVD_WHY_OTHER_FORMAT);
	assert_non_null(strstr(w.text, "page_tokens"));
	harness_call(h, admin, evict, NULL);
	assert_int_equal(why(h, s, f, 64, &w), KVD_WHY_EVICTED);
	assert_int_equal(w.first_missing_block, 3);
	harness_acquire(h, t, f, tokens, 64, 0);
	assert_int_equal(why(h, s, f, 64, &w), KVD_WHY_BUILDING);
	harness_close(h, t, CORE_END_BROKEN);
	assert_int_equal(why(h, s, f, 64, &w), KVD_WHY_QUARANTINED);
	tokens[55]++;
	assert_int_equal(why(h, s, f, 64, &w), KVD_WHY_NEVER_SEEN);
	tokens[40]++;
	assert_int_equal(why(h, s, f, 64, &w), KVD_WHY_NEVER_SEEN);
	assert_int_equal(w.common_run_tokens, 8);
	harness_free(h);
}

static void lists_come_in_pieces(void **state)
{
	struct harness *h = harness_new(32, 16);
	uint32_t s = harness_session(h, 0, 5, 0);
	uint32_t admin = harness_admin(h);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);
	struct kvd_req list = {.op = KVD_OP_LIST, .arg32 = KVD_LIST_PREFIXES, .out_bytes = 64};
	uint32_t found = 0;

	harness_tokens(1, 256, tokens);
	harness_cache(h, s, f, tokens, 48);
	tokens[20]++;
	harness_cache(h, s, f, tokens, 32);
	do {
		struct harness_reply *r = harness_call(h, admin, list, NULL);
		struct kvd_prefix_stat p;
		assert_int_equal(r->rep.result, 0);
		list.arg64 = r->rep.aux;
		if (r->rep.out_bytes == 0)
			continue;
		memcpy(&p, r->bytes, sizeof(p));
		assert_int_equal(p.tokens, p.blocks * 16);
		found++;
	} while (list.arg64 != 0);
	assert_int_equal(found, 2);
	for (uint32_t kind = KVD_LIST_SESSIONS; kind <= KVD_LIST_SPACES; kind++) {
		struct kvd_req all = {.op = KVD_OP_LIST, .arg32 = kind, .out_bytes = 4096};
		assert_true(harness_call(h, admin, all, NULL)->rep.out_bytes > 0);
	}
	assert_int_equal(harness_call(h, s, list, NULL)->rep.result, -EPERM);
	harness_free(h);
}

static void stat_counts_pages_once(void **state)
{
	struct harness *h = harness_new(32, 16);
	uint32_t s = harness_session(h, 0, 5, 0);
	uint32_t f = harness_format(h, s, 1, 16, 1, HARNESS_PAGE_BYTES);
	struct kvd_space_stat stat;
	struct kvd_status *status = calloc(1, sizeof(*status));

	harness_tokens(1, 256, tokens);
	harness_cache(h, s, f, tokens, 48);
	harness_acquire(h, s, f, tokens, 48, 0);
	harness_acquire(h, s, f, tokens, 48, 0);
	struct kvd_req req = {.op = KVD_OP_STAT, .out_bytes = sizeof(stat)};
	memcpy(&stat, harness_call(h, s, req, NULL)->bytes, sizeof(stat));
	assert_int_equal(stat.pages, 3);
	assert_int_equal(stat.bytes, 3 * HARNESS_PAGE_BYTES);
	assert_int_equal(stat.prompt_tokens, 144);
	assert_int_equal(stat.cached_tokens, 96);
	assert_string_equal(stat.name, "default");
	core_status(h->core, status);
	assert_int_equal(status->sessions[0].pinned_pages, 3);
	assert_int_equal(status->counters[KVD_C_SEALED_BLOCKS], 3);
	assert_int_equal(status->leases, 2);
	free(status);
	harness_free(h);
}

TEST_MAIN(pin, cmocka_unit_test(pinned_prefix_is_not_evicted),
	  cmocka_unit_test(eviction_takes_leaves_first), cmocka_unit_test(misses_have_causes),
	  cmocka_unit_test(lists_come_in_pieces), cmocka_unit_test(stat_counts_pages_once))
