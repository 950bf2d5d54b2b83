/* SPDX-License-Identifier: Apache-2.0 */
/* What a later daemon finds again, and VERIFY. */
#include "tests/unit/core/tier_scene.h"

#include <errno.h>

/* A second core that gets the first one's format, and its records as they were told. */
static struct tier_scene restart(const struct tier_scene *old, const struct core_config *config)
{
	char space[KVD_NAME_MAX], description[KVD_DESCRIPTION_MAX];
	struct tier_scene s = {.h = harness_with(config)};
	struct kvd_format_wire wire;

	core_format_wire(old->h->core, old->format, space, &wire, description);
	assert_int_equal(core_restore_format(s.h->core, space, &wire, description), 0);
	assert_int_equal(core_restore_format(s.h->core, "nobody", &wire, description), -ENOENT);
	return s;
}

static void open_session(struct tier_scene *s)
{
	s->session = harness_session(s->h, 0, 0, 0);
	s->format = harness_format(s->h, s->session, 1, SCENE_PAGE_TOKENS, 1, HARNESS_PAGE_BYTES);
}

static void blocks_are_found_again(void **state)
{
	struct core_config config = tier_scene_config(16, 4, 16);
	struct tier_scene old = tier_scene_start(&config);

	tier_scene_make(&old, 1, 6);
	tier_scene_make(&old, 2, 3);
	harness_transfers(old.h, 0);
	struct tier_scene s = restart(&old, &config);
	for (uint32_t i = 0; i < old.h->record_count; i++)
		assert_int_equal(core_restore(s.h->core, &old.h->records[i].record), 0);
	harness_check(s.h);
	open_session(&s);
	assert_int_equal(s.format, 0);
	struct kvd_rep rep = tier_scene_acquire(&s, 1, 7)->rep;
	assert_int_equal(rep.at.build_from, 6 * SCENE_PAGE_TOKENS);
	assert_int_equal(s.h->transfers[0].slot.generation,
			 old.h->records[0].record.slot.generation);
	harness_transfers(s.h, 0);
	assert_int_equal(tier_scene_ready(&s, rep.lease), 6);
	/* New slots have new generations. */
	assert_int_equal(harness_seal(s.h, s.session, rep.lease, 6, 1), 0);
	assert_int_equal(harness_release(s.h, s.session, rep.lease), 0);
	assert_int_equal(s.h->transfer_count, 1);
	assert_true(s.h->transfers[0].slot.generation >
		    old.h->records[old.h->record_count - 1].record.slot.generation);
	harness_transfers(s.h, 0);
	harness_free(s.h);
	harness_free(old.h);
}

static void records_that_lie_are_refused(void **state)
{
	struct core_config config = tier_scene_config(16, 4, 16);
	struct tier_scene old = tier_scene_start(&config);

	tier_scene_make(&old, 1, 3);
	harness_transfers(old.h, 0);
	struct tier_scene s = restart(&old, &config);
	struct core *core = s.h->core;
	struct core_record r = old.h->records[0].record;
	assert_int_equal(core_restore(core, &old.h->records[1].record), -ENOENT);
	r.key[3] ^= 1;
	assert_int_equal(core_restore(core, &r), -EINVAL);
	r = old.h->records[0].record;
	r.depth = 2;
	assert_true(core_restore(core, &r) < 0);
	r.depth = 1;
	r.token_count--;
	assert_int_equal(core_restore(core, &r), -EINVAL);
	r.token_count++;
	r.format = 1;
	assert_int_equal(core_restore(core, &r), -EINVAL);
	r.format = 0;
	r.slot.offset_bytes = 1ull << 40;
	assert_int_equal(core_restore(core, &r), -EEXIST);
	r.slot.offset_bytes = HARNESS_PAGE_BYTES;
	assert_int_equal(core_restore(core, &r), -EEXIST);
	r.slot = old.h->records[0].record.slot;
	r.slot.area = 3;
	assert_int_equal(core_restore(core, &r), -EEXIST);
	r.slot.area = 0;
	r.slot.bytes *= 2;
	assert_int_equal(core_restore(core, &r), -EINVAL);
	assert_int_equal(core_restore(core, &old.h->records[0].record), 0);
	assert_int_equal(core_restore(core, &old.h->records[0].record), -EEXIST);
	r = old.h->records[1].record;
	r.slot = old.h->records[0].record.slot;
	assert_int_equal(core_restore(core, &r), -EEXIST);
	harness_check(s.h);
	harness_free(s.h);
	harness_free(old.h);
}

struct collected {
	uint32_t count;
	uint32_t depths;
};

static void collect(void *ctx, const struct core_record *record)
{
	struct collected *c = ctx;

	assert_true(record->put);
	c->count++;
	c->depths |= 1u << record->depth;
}

static void a_checkpoint_has_all_of_an_area(void **state)
{
	struct core_config config = tier_scene_config(16, 4, 16);
	struct tier_scene s = tier_scene_start(&config);
	struct collected c = {0};
	uint32_t cursor = 0;

	tier_scene_cool(&s, 1, 5, 16);
	while (core_records(s.h->core, 0, &cursor, 7, collect, &c))
		continue;
	assert_int_equal(c.count, 5);
	assert_int_equal(c.depths, 0x3e);
	harness_free(s.h);
}

/* --- VERIFY ----------------------------------------------------------------------------------- */

static struct kvd_req verify_request(uint64_t cursor)
{
	return (struct kvd_req){.op = KVD_OP_VERIFY,
				.arg32 = KVD_TIER_FILE,
				.arg64 = cursor,
				.out_bytes = sizeof(struct kvd_verify)};
}

static void verify_reads_all_and_drops_what_is_bad(void **state)
{
	struct core_config config = tier_scene_config(16, 4, 16);
	struct tier_scene s = tier_scene_start(&config);
	uint32_t admin = harness_admin(s.h);

	tier_scene_cool(&s, 1, 5, 16);
	uint32_t tag = harness_send(s.h, admin, verify_request(0), NULL);
	struct harness_reply *r = &s.h->replies[tag % HARNESS_REPLIES_MAX];
	assert_false(r->came);
	assert_int_equal(harness_call(s.h, admin, verify_request(0), NULL)->rep.result, -EBUSY);
	uint32_t last = s.h->transfer_count - 1;
	assert_int_equal(s.h->transfers[last].kind, CORE_TRANSFER_VERIFY);
	harness_transfer(s.h, last, -EBADMSG);
	harness_transfers(s.h, 0);
	assert_true(r->came);
	assert_int_equal(r->rep.result, 0);
	assert_int_equal(r->rep.aux, 0);
	const struct kvd_verify *v = (const void *)r->bytes;
	assert_true(v->blocks == 5 || v->blocks == 4);
	assert_int_equal(v->bad, 1);
	assert_true(v->total < 5);
	harness_free(s.h);
}

static void verify_is_for_admins_and_tiers_that_are_there(void **state)
{
	struct tier_scene s;
	struct core_config config = tier_scene_config(16, 0, 16);

	s = tier_scene_start(&config);
	uint32_t admin = harness_admin(s.h);
	assert_int_equal(harness_call(s.h, admin, verify_request(0), NULL)->rep.result, -ENODEV);
	assert_int_equal(harness_call(s.h, s.session, verify_request(0), NULL)->rep.result, -EPERM);
	harness_free(s.h);
}

static void verify_ends_without_who_asked(void **state)
{
	struct core_config config = tier_scene_config(16, 4, 16);
	struct tier_scene s = tier_scene_start(&config);
	uint32_t admin = harness_admin(s.h);

	tier_scene_cool(&s, 1, 3, 16);
	harness_send(s.h, admin, verify_request(0), NULL);
	harness_close(s.h, admin, CORE_END_BYE);
	harness_transfers(s.h, 0);
	admin = harness_admin(s.h);
	harness_send(s.h, admin, verify_request(0), NULL);
	harness_transfers(s.h, 0);
	assert_true(s.h->replies[s.h->tag % HARNESS_REPLIES_MAX].came);
	harness_free(s.h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_are_found_again),
		cmocka_unit_test(records_that_lie_are_refused),
		cmocka_unit_test(a_checkpoint_has_all_of_an_area),
		cmocka_unit_test(verify_reads_all_and_drops_what_is_bad),
		cmocka_unit_test(verify_is_for_admins_and_tiers_that_are_there),
		cmocka_unit_test(verify_ends_without_who_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
