/* SPDX-License-Identifier: Apache-2.0 */
/* What is stored in tiers, when, and what gives up its slot. */
#include "tests/unit/core/tier_scene.h"

#include <base/units.h>
#include <errno.h>

static void idle_blocks_are_stored_from_the_root_on(void **state)
{
	struct core_config config = tier_scene_config(8, 4, 8);
	struct tier_scene s = tier_scene_start(&config);
	struct harness *h = s.h;

	tier_scene_make(&s, 1, 6);
	/* The depth is four. */
	assert_int_equal(h->transfer_count, 4);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(h->transfers[i].kind, CORE_TRANSFER_STORE);
		assert_int_equal(h->transfers[i].part_count, 1);
		assert_int_equal(h->transfers[i].slot.bytes, 2 * HARNESS_PAGE_BYTES);
	}
	assert_int_equal(harness_transfers(h, 0), 6);
	assert_int_equal(h->record_count, 6);
	for (uint32_t i = 0; i < 6; i++)
		assert_int_equal(h->records[i].record.depth, i + 1);
	harness_free(h);
}

static void stored_blocks_are_cold_after_their_eviction(void **state)
{
	struct core_config config = tier_scene_config(8, 4, 8);
	struct tier_scene s = tier_scene_start(&config);

	tier_scene_cool(&s, 1, 6, 8);
	assert_int_equal(tier_scene_count(&s, KVD_C_DEMOTED_PAGES), 6);
	assert_int_equal(tier_scene_count(&s, KVD_C_EVICTED_PAGES), 0);
	harness_free(s.h);
}

/* Pages that are being stored are not given away, and nobody is refused for ever by that. */
static void pages_stay_while_they_are_stored(void **state)
{
	struct core_config config = tier_scene_config(8, 4, 8);
	struct tier_scene s = tier_scene_start(&config);
	struct harness *h = s.h;

	tier_scene_make(&s, 1, 6);
	assert_int_equal(h->transfer_count, 4);
	struct kvd_req req = {.op = KVD_OP_ACQUIRE,
			      .format = s.format,
			      .n = 8 * SCENE_PAGE_TOKENS,
			      .in_bytes = 8 * SCENE_PAGE_TOKENS * 4,
			      .out_bytes = 8192,
			      .deadline_ms = 1000};
	uint32_t tokens[8 * SCENE_PAGE_TOKENS];
	harness_tokens(2, 8 * SCENE_PAGE_TOKENS, tokens);
	uint32_t tag = harness_send(h, s.session, req, tokens);
	assert_false(h->replies[tag % HARNESS_REPLIES_MAX].came);
	harness_transfers(h, 0);
	assert_true(h->replies[tag % HARNESS_REPLIES_MAX].came);
	assert_int_equal(h->replies[tag % HARNESS_REPLIES_MAX].rep.result, 0);
	harness_free(h);
}

static void a_store_that_fails_leaves_nothing(void **state)
{
	struct core_config config = tier_scene_config(8, 4, 8);
	struct tier_scene s = tier_scene_start(&config);

	tier_scene_make(&s, 1, 3);
	harness_transfers(s.h, -EIO);
	assert_int_equal(s.h->record_count, 0);
	assert_int_equal(s.h->core->tiers[CORE_TIER_FILE].areas[0].blocks, 0);
	harness_free(s.h);
}

static void the_oldest_leaf_gives_up_its_slot(void **state)
{
	struct core_config config = tier_scene_config(8, 1, 8);
	struct tier_scene s = tier_scene_start(&config);

	tier_scene_cool(&s, 1, 4, 8);
	tier_scene_cool(&s, 2, 4, 8);
	/* The tier is full: chain 3 takes the slots of chain 1, the deepest first. */
	tier_scene_cool(&s, 3, 2, 8);
	struct harness_reply *r = tier_scene_acquire(&s, 1, 4);
	assert_int_equal(r->rep.at.build_from, 2 * SCENE_PAGE_TOKENS);
	assert_int_equal(s.h->core->tiers[CORE_TIER_FILE].areas[0].dropped_blocks, 2);
	harness_transfers(s.h, 0);
	harness_free(s.h);
}

/* A segment whose last slot is free again serves slots of another size. */
static void segments_follow_the_formats(void **state)
{
	struct core_config config = tier_scene_config(8, 1, 8);
	struct tier_scene s = tier_scene_start(&config);
	struct harness *h = s.h;

	tier_scene_cool(&s, 1, 4, 8);
	uint32_t two = harness_format(h, s.session, 2, SCENE_PAGE_TOKENS, 2, HARNESS_PAGE_BYTES);
	uint32_t tokens[2 * SCENE_PAGE_TOKENS];
	harness_tokens(7, 2 * SCENE_PAGE_TOKENS, tokens);
	harness_cache(h, s.session, two, tokens, 2 * SCENE_PAGE_TOKENS);
	harness_transfers(h, 0);
	const struct tier *tier = &h->core->tiers[CORE_TIER_FILE];
	assert_int_equal(tier->areas[0].used_bytes, 2 * 3 * HARNESS_PAGE_BYTES);
	harness_free(h);
}

static void areas_take_turns_and_one_that_is_down_is_passed_over(void **state)
{
	struct core_config config = tier_scene_config(8, 2, 8);
	config.tiers[CORE_TIER_FILE].area_count = 2;
	config.tiers[CORE_TIER_FILE].area_segments[1] = 2;
	struct tier_scene s = tier_scene_start(&config);
	const struct area *areas = s.h->core->tiers[CORE_TIER_FILE].areas;

	tier_scene_make(&s, 1, 4);
	harness_transfers(s.h, 0);
	assert_int_equal(areas[0].blocks, 2);
	assert_int_equal(areas[1].blocks, 2);
	core_area_down(s.h->core, CORE_TIER_FILE, 1, true);
	tier_scene_make(&s, 2, 4);
	harness_transfers(s.h, 0);
	assert_int_equal(areas[0].blocks, 6);
	assert_int_equal(areas[1].blocks, 2);
	harness_free(s.h);
}

static void both_tiers_are_filled_and_the_file_from_the_dram(void **state)
{
	struct core_config config = tier_scene_config(8, 4, 8);
	config.tiers[CORE_TIER_DRAM] = config.tiers[CORE_TIER_FILE];
	struct tier_scene s = tier_scene_start(&config);
	uint32_t from_dram = 0;

	tier_scene_make(&s, 1, 6);
	while (s.h->transfer_count > 0) {
		uint32_t last = s.h->transfer_count - 1;
		from_dram += s.h->transfers[last].slot.tier == CORE_TIER_FILE &&
			     s.h->transfers[last].from_slot.generation != 0;
		harness_transfer(s.h, 0, 0);
	}
	assert_int_equal(s.h->core->tiers[CORE_TIER_DRAM].areas[0].blocks, 6);
	assert_int_equal(s.h->core->tiers[CORE_TIER_FILE].areas[0].blocks, 6);
	assert_true(from_dram > 0);
	harness_free(s.h);
}

/* EVICT with its flag forgets what is cold, and nothing that is pinned. */
static void evict_reaches_the_tiers(void **state)
{
	struct core_config config = tier_scene_config(16, 4, 8);
	struct tier_scene s = tier_scene_start(&config);
	uint32_t admin = harness_admin(s.h);
	struct kvd_req req = {
		.op = KVD_OP_EVICT, .flags = KVD_EVICT_ALL_SPACES | KVD_EVICT_TIERS, .arg64 = 1000};

	tier_scene_make(&s, 1, 6);
	tier_scene_make(&s, 2, 3);
	harness_transfers(s.h, 0);
	uint64_t lease = tier_scene_acquire(&s, 2, 3)->rep.lease;
	assert_int_equal(harness_call(s.h, admin, req, NULL)->rep.aux, 12);
	assert_int_equal(s.h->core->tiers[CORE_TIER_FILE].areas[0].blocks, 3);
	assert_int_equal(harness_release(s.h, s.session, lease), 0);
	while (harness_call(s.h, admin, req, NULL)->rep.aux > 0)
		continue;
	assert_int_equal(s.h->core->node_count, 0);
	harness_free(s.h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(idle_blocks_are_stored_from_the_root_on),
		cmocka_unit_test(stored_blocks_are_cold_after_their_eviction),
		cmocka_unit_test(pages_stay_while_they_are_stored),
		cmocka_unit_test(a_store_that_fails_leaves_nothing),
		cmocka_unit_test(the_oldest_leaf_gives_up_its_slot),
		cmocka_unit_test(segments_follow_the_formats),
		cmocka_unit_test(areas_take_turns_and_one_that_is_down_is_passed_over),
		cmocka_unit_test(evict_reaches_the_tiers),
		cmocka_unit_test(both_tiers_are_filled_and_the_file_from_the_dram),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
