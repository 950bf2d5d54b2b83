/* SPDX-License-Identifier: Apache-2.0 */
/* Several devices: each has a pool of its own, and nothing on one is paid with another's. */
#include "tests/unit/core/harness.h"

#include <errno.h>

static uint32_t tokens[256];

/* Two devices, of 8 and of 16 pages. */
static struct core_config two_devices(void)
{
	struct core_config config = harness_config(8, 4);

	config.device_count = 2;
	config.pool_bytes[1] = 16 * HARNESS_PAGE_BYTES;
	config.pages_max = 24;
	config.geometries_max = 8;
	return config;
}

static struct harness *new_two(void)
{
	struct core_config config = two_devices();

	return harness_with(&config);
}

static uint32_t format_at(struct harness *h, uint32_t s, uint32_t id, uint32_t device)
{
	return harness_format_on(h, s, id, 16, 1, HARNESS_PAGE_BYTES, &device);
}

/* The first part on device `first`, the second on the other. */
static uint32_t format_on_both(struct harness *h, uint32_t s, uint32_t id, uint32_t first)
{
	const uint32_t devices[] = {first, !first};

	return harness_format_on(h, s, id, 16, 2, HARNESS_PAGE_BYTES, devices);
}

static struct kvd_req acquire_req(uint32_t format, uint32_t blocks, uint32_t deadline_ms)
{
	return (struct kvd_req){.op = KVD_OP_ACQUIRE,
				.flags = KVD_ACQUIRE_NO_HIT,
				.format = format,
				.n = blocks * 16,
				.in_bytes = blocks * 64,
				.deadline_ms = deadline_ms,
				.out_bytes = 512};
}

static struct kvd_rep acquire(struct harness *h, uint32_t s, uint32_t format, uint32_t blocks)
{
	return harness_call(h, s, acquire_req(format, blocks, 0), tokens)->rep;
}

static uint32_t wait_for(struct harness *h, uint32_t s, uint32_t format, uint32_t blocks)
{
	uint32_t tag = harness_send(h, s, acquire_req(format, blocks, 1000), tokens);

	assert_false(h->replies[tag % HARNESS_REPLIES_MAX].came);
	return tag;
}

static const struct kvd_rep *reply(const struct harness *h, uint32_t tag)
{
	const struct harness_reply *r = &h->replies[tag % HARNESS_REPLIES_MAX];

	return r->came ? &r->rep : NULL;
}

static void no_such_device(void **state)
{
	struct harness *h = new_two();
	uint32_t s = harness_session(h, 0, 0, 0);
	struct kvd_format_wire wire = {.page_tokens = 16, .part_count = 2, .identity = {7}};
	struct kvd_req req = {.op = KVD_OP_FORMAT, .in_bytes = sizeof(wire)};

	wire.parts[0] = (struct kvd_part_wire){.page_bytes = 100, .align = 64, .device = 1};
	wire.parts[1] = (struct kvd_part_wire){.page_bytes = 100, .align = 64, .device = 2};
	assert_int_equal(harness_call(h, s, req, &wire)->rep.result, -ENODEV);
	wire.parts[1].device = UINT32_MAX;
	assert_int_equal(harness_call(h, s, req, &wire)->rep.result, -ENODEV);
	wire.parts[1].device = 0;
	assert_int_equal(harness_call(h, s, req, &wire)->rep.result, 0);
	assert_int_equal(h->core->geometry_count, 2);
	harness_free(h);
}

static void limits_of_devices(void **state)
{
	struct core_config config = two_devices();

	assert_true(core_bytes(&config) > 0);
	assert_int_equal(core_pool_bytes(&config), 24 * HARNESS_PAGE_BYTES);
	config.device_count = 0;
	assert_int_equal(core_bytes(&config), 0);
	config.device_count = KVD_DEVICES_MAX + 1;
	assert_int_equal(core_bytes(&config), 0);
	config.device_count = 3;
	assert_int_equal(core_bytes(&config), 0);
	config.pool_bytes[2] = HARNESS_PAGE_BYTES;
	assert_true(core_bytes(&config) > 0);
	config.pages_max = 2;
	assert_int_equal(core_bytes(&config), 0);
}

/* A full device is not helped by room on the other, nor does it take from it. */
static void each_pays_for_itself(void **state)
{
	struct harness *h = new_two();
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f0 = format_at(h, s, 1, 0);
	uint32_t f1 = format_at(h, s, 2, 1);

	assert_int_equal(acquire(h, s, f0, 6).result, 0);
	struct kvd_rep rep = acquire(h, s, f0, 4);
	assert_int_equal(rep.result, KVD_FULL);
	assert_int_equal(rep.full.needed_pages, 4);
	assert_int_equal(rep.full.free_pages, 2);
	assert_int_equal(rep.full.evictable_pages, 0);
	assert_int_equal(acquire(h, s, f0, 9).result, -E2BIG);
	assert_int_equal(acquire(h, s, f1, 14).result, 0);
	rep = acquire(h, s, f1, 3);
	assert_int_equal(rep.result, KVD_FULL);
	assert_int_equal(rep.full.needed_pages, 3);
	assert_int_equal(rep.full.free_pages, 2);
	assert_int_equal(h->core->banks[0].slab_bytes, 8 * HARNESS_PAGE_BYTES);
	assert_int_equal(h->core->banks[1].slab_bytes, 16 * HARNESS_PAGE_BYTES);
	harness_free(h);
}

/* What is cached on one device stays, however much is wanted on the other. */
static void nothing_is_evicted_for_the_other(void **state)
{
	struct harness *h = new_two();
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f0 = format_at(h, s, 1, 0);
	uint32_t f1 = format_at(h, s, 2, 1);
	uint32_t large = 1;

	harness_tokens(1, 256, tokens);
	harness_cache(h, s, f1, tokens, 256);
	large = harness_format_on(h, s, 3, 16, 1, 2 * HARNESS_PAGE_BYTES, (uint32_t[]){0});
	harness_tokens(2, 256, tokens);
	harness_cache(h, s, f0, tokens, 128);
	uint32_t tag = harness_send(h, s, acquire_req(large, 4, 100), tokens);
	harness_time(h, 1);
	assert_int_equal(reply(h, tag)->result, 0);
	assert_int_equal(h->core->counters[KVD_C_SLABS_RETIRED], 2);
	assert_int_equal(acquire(h, s, large, 1).result, KVD_FULL);
	assert_int_equal(acquire(h, s, large, 1).full.evictable_pages, 0);
	harness_tokens(1, 256, tokens);
	assert_int_equal(harness_acquire(h, s, f1, tokens, 256, 0)->rep.at.cached_tokens, 256);
	harness_free(h);
}

/* All parts or none; the numbers are those of the device that is short. */
static void parts_on_both(void **state)
{
	struct harness *h = new_two();
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f0 = format_at(h, s, 1, 0);
	uint32_t both = format_on_both(h, s, 2, 1);

	uint64_t lease = acquire(h, s, f0, 5).lease;
	struct kvd_rep rep = acquire(h, s, both, 4);
	assert_int_equal(rep.result, KVD_FULL);
	assert_int_equal(rep.full.needed_pages, 4);
	assert_int_equal(rep.full.free_pages, 3);
	assert_int_equal(harness_pages(h, KVD_PAGE_OPEN), 5);
	uint32_t tag = wait_for(h, s, both, 4);
	assert_int_equal(harness_release(h, s, lease), 0);
	assert_non_null(reply(h, tag));
	assert_int_equal(reply(h, tag)->result, 0);
	assert_int_equal(reply(h, tag)->at.handle_count, 8);
	assert_int_equal(h->core->spaces[0].on[0].used_bytes, 4 * HARNESS_PAGE_BYTES);
	assert_int_equal(h->core->spaces[0].on[1].used_bytes, 4 * HARNESS_PAGE_BYTES);
	harness_free(h);
}

/* Who waits for one device is in nobody's way on another. */
static void waiting_is_by_device(void **state)
{
	struct harness *h = new_two();
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t t = harness_session(h, 0, 0, 0);
	uint32_t f0 = format_at(h, s, 1, 0);
	uint32_t f1 = format_at(h, s, 2, 1);
	uint32_t both = format_on_both(h, s, 3, 0);

	uint64_t lease = acquire(h, s, f0, 8).lease;
	uint64_t other = acquire(h, s, f1, 10).lease;
	uint32_t first = wait_for(h, t, f0, 2);
	assert_int_equal(acquire(h, t, f1, 2).result, 0);
	uint32_t second = wait_for(h, t, both, 2);
	/* It would have been let in; but it wants a device that the one before it waits for. */
	struct kvd_rep rep = acquire(h, t, f1, 1);
	assert_int_equal(rep.result, KVD_FULL);
	assert_int_equal(rep.full.free_pages, 4);
	assert_int_equal(h->core->banks[0].waiter_count, 2);
	assert_int_equal(h->core->banks[1].waiter_count, 1);
	/* What comes free on device 1 is not what they lack. */
	assert_int_equal(harness_release(h, s, other), 0);
	assert_null(reply(h, first));
	assert_null(reply(h, second));
	assert_int_equal(harness_release(h, s, lease), 0);
	assert_int_equal(reply(h, first)->result, 0);
	assert_int_equal(reply(h, second)->result, 0);
	harness_free(h);
}

/* Requests for both devices, in either order, that cannot be served together: one, then the other.
 */
static void both_ways_end(void **state)
{
	struct core_config config = two_devices();

	config.pool_bytes[1] = config.pool_bytes[0];
	config.pages_max = 16;
	struct harness *h = harness_with(&config);
	uint32_t other = harness_space(h, "other");
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t t = harness_session(h, other, 0, 0);
	uint32_t a = format_on_both(h, s, 1, 0);
	uint32_t b = format_on_both(h, t, 1, 1);
	uint32_t small = harness_format_on(h, s, 2, 16, 1, 2 * HARNESS_PAGE_BYTES, (uint32_t[]){0});
	uint32_t tiny = harness_format_on(h, t, 2, 16, 1, 2 * HARNESS_PAGE_BYTES, (uint32_t[]){1});

	uint64_t x = acquire(h, s, small, 4).lease;
	uint64_t y = acquire(h, t, tiny, 4).lease;
	uint32_t first = wait_for(h, s, a, 6);
	uint32_t second = wait_for(h, t, b, 6);
	assert_int_equal(harness_release(h, s, x), 0);
	assert_int_equal(harness_release(h, t, y), 0);
	harness_time(h, 200);
	const struct kvd_rep *one = reply(h, first);
	const struct kvd_rep *two = reply(h, second);
	assert_true((one != NULL) != (two != NULL));
	assert_int_equal((one ? one : two)->result, 0);
	assert_int_equal(harness_release(h, one ? s : t, (one ? one : two)->lease), 0);
	harness_time(h, 200);
	assert_int_equal(reply(h, one ? second : first)->result, 0);
	harness_free(h);
}

/* Who needs both devices is not overtaken by one that came later and needs one. */
static void both_are_claimed(void **state)
{
	struct core_config config = two_devices();

	config.pool_bytes[1] = config.pool_bytes[0];
	config.pages_max = 16;
	struct harness *h = harness_with(&config);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t t = harness_session(h, harness_space(h, "one"), 0, 0);
	uint32_t u = harness_session(h, harness_space(h, "both"), 0, 0);
	uint32_t v = harness_session(h, harness_space(h, "late"), 0, 0);
	uint32_t large0 =
		harness_format_on(h, s, 1, 16, 1, 2 * HARNESS_PAGE_BYTES, (uint32_t[]){0});
	uint32_t large1 =
		harness_format_on(h, s, 2, 16, 1, 2 * HARNESS_PAGE_BYTES, (uint32_t[]){1});

	uint64_t x = acquire(h, s, large0, 4).lease;
	uint64_t y = acquire(h, s, large1, 4).lease;
	uint32_t one = wait_for(h, t, format_at(h, t, 3, 0), 6);
	uint32_t both = wait_for(h, u, format_on_both(h, u, 3, 0), 6);
	uint32_t late = wait_for(h, v, format_at(h, v, 3, 1), 6);
	assert_int_equal(harness_release(h, s, y), 0);
	assert_null(reply(h, late));
	assert_int_equal(harness_release(h, s, x), 0);
	assert_int_equal(reply(h, one)->result, 0);
	assert_int_equal(harness_release(h, t, reply(h, one)->lease), 0);
	assert_int_equal(reply(h, both)->result, 0);
	assert_null(reply(h, late));
	assert_int_equal(harness_release(h, u, reply(h, both)->lease), 0);
	assert_int_equal(reply(h, late)->result, 0);
	harness_free(h);
}

/* A device that has no more than this lowers its own pool. */
static void a_pool_falls_alone(void **state)
{
	struct harness *h = new_two();
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f0 = format_at(h, s, 1, 0);
	uint32_t f1 = format_at(h, s, 2, 1);

	h->slow = true;
	uint32_t tag = harness_send(h, s, acquire_req(f1, 2, 0), tokens);
	harness_orders(h, -ENOMEM);
	harness_time(h, 0);
	assert_int_equal(reply(h, tag)->result, KVD_FULL);
	assert_int_equal(h->core->banks[1].bytes, 0);
	assert_int_equal(h->core->banks[0].bytes, 8 * HARNESS_PAGE_BYTES);
	h->slow = false;
	assert_int_equal(acquire(h, s, f0, 8).result, 0);
	/* Nobody waits for device 1: nobody is called for it. */
	uint32_t other = wait_for(h, s, f0, 1);
	assert_int_equal(core_deadline_ns(h->core), h->now_ns + 1000000000);
	tag = wait_for(h, s, f1, 2);
	harness_time(h, 999);
	assert_null(reply(h, tag));
	harness_time(h, 1);
	assert_int_equal(reply(h, tag)->result, 0);
	assert_int_equal(reply(h, other)->result, KVD_FULL);
	harness_free(h);
}

/* Floor and ceiling are divided as the pools are: a third and two thirds. */
static void quotas_are_divided(void **state)
{
	struct harness *h = new_two();
	struct core_space_args args = {.name = "kept",
				       .floor_bytes = 12 * HARNESS_PAGE_BYTES,
				       .ceiling_bytes = 18 * HARNESS_PAGE_BYTES};
	uint32_t kept = (uint32_t)core_space_add(h->core, &args);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t t = harness_session(h, kept, 0, 0);
	uint32_t f0 = format_at(h, s, 1, 0);
	uint32_t f1 = format_at(h, s, 2, 1);
	uint32_t g0 = format_at(h, t, 1, 0);
	uint32_t g1 = format_at(h, t, 2, 1);

	assert_int_equal(acquire(h, s, f0, 5).result, -E2BIG);
	assert_int_equal(acquire(h, s, f1, 9).result, -E2BIG);
	assert_int_equal(acquire(h, s, f0, 4).result, 0);
	assert_int_equal(acquire(h, s, f1, 8).result, 0);
	assert_int_equal(acquire(h, t, g0, 7).result, -E2BIG);
	assert_int_equal(acquire(h, t, g1, 13).result, -E2BIG);
	assert_int_equal(acquire(h, t, g0, 4).result, 0);
	assert_int_equal(acquire(h, t, g1, 8).result, 0);
	struct kvd_status status;
	core_status(h->core, &status);
	assert_int_equal(status.spaces[kept].floor_bytes, 12 * HARNESS_PAGE_BYTES);
	assert_int_equal(status.spaces[kept].ceiling_bytes, 18 * HARNESS_PAGE_BYTES);
	harness_free(h);
}

static void shares_and_magazines(void **state)
{
	struct core_config config = two_devices();

	config.session_share_permille = 500;
	config.magazine_permille = 250;
	struct harness *h = harness_with(&config);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f0 = format_at(h, s, 1, 0);
	uint32_t f1 = format_at(h, s, 2, 1);
	struct kvd_req topup = {.op = KVD_OP_TOPUP, .format = f0, .n = 1, .out_bytes = 64};

	assert_int_equal(acquire(h, s, f0, 5).result, -E2BIG);
	assert_int_equal(acquire(h, s, f1, 8).result, 0);
	assert_int_equal(acquire(h, s, f1, 1).result, KVD_FULL);
	assert_int_equal(acquire(h, s, f0, 4).result, 0);
	assert_int_equal(harness_call(h, s, topup, NULL)->rep.result, KVD_FULL);
	uint32_t t = harness_session(h, 0, 0, 0);
	topup.n = 2;
	assert_int_equal(harness_call(h, t, topup, NULL)->rep.result, -E2BIG);
	topup.n = 1;
	assert_int_equal(harness_call(h, t, topup, NULL)->rep.result, 0);
	assert_int_equal(harness_call(h, t, topup, NULL)->rep.result, KVD_FULL);
	topup.format = f1;
	topup.n = 3;
	assert_int_equal(harness_call(h, t, topup, NULL)->rep.result, 0);
	assert_int_equal(harness_call(h, t, topup, NULL)->rep.result, KVD_FULL);
	harness_free(h);
}

/* Who has magazine pages on the device that is short is asked for them, and nobody else. */
static void wanted_back_where_it_helps(void **state)
{
	struct harness *h = new_two();
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t t = harness_session(h, 0, 0, 0);
	uint32_t u = harness_session(h, 0, 0, 0);
	uint32_t f0 = format_at(h, s, 1, 0);
	uint32_t f1 = format_at(h, s, 2, 1);
	struct kvd_req topup = {.op = KVD_OP_TOPUP, .format = f0, .n = 2, .out_bytes = 64};

	assert_int_equal(harness_call(h, s, topup, NULL)->rep.result, 0);
	topup.format = f1;
	assert_int_equal(harness_call(h, t, topup, NULL)->rep.result, 0);
	wait_for(h, u, f0, 7);
	assert_int_equal(h->session_rows[s].want_back_pages, 2);
	assert_int_equal(h->session_rows[t].want_back_pages, 0);
	harness_free(h);
}

static void status_tells_each(void **state)
{
	static struct kvd_status status;
	struct harness *h = new_two();
	uint32_t s = harness_session(h, 0, 0, 0);
	uint32_t f1 = format_at(h, s, 1, 1);

	harness_tokens(1, 256, tokens);
	harness_cache(h, s, f1, tokens, 48);
	acquire(h, s, f1, 2);
	core_status(h->core, &status);
	assert_int_equal(status.device_count, 2);
	assert_int_equal(status.devices[0].slab_bytes, 0);
	assert_int_equal(status.devices[0].pool_bytes, 8 * HARNESS_PAGE_BYTES);
	assert_int_equal(status.devices[1].pool_bytes, 16 * HARNESS_PAGE_BYTES);
	assert_int_equal(status.devices[1].used_bytes, 5 * HARNESS_PAGE_BYTES);
	assert_int_equal(status.devices[1].evictable_pages, 3);
	assert_int_equal(status.pool_bytes, 24 * HARNESS_PAGE_BYTES);
	assert_int_equal(status.slab_bytes, status.devices[1].slab_bytes);
	harness_free(h);
}

TEST_MAIN(device, cmocka_unit_test(no_such_device), cmocka_unit_test(limits_of_devices),
	  cmocka_unit_test(each_pays_for_itself),
	  cmocka_unit_test(nothing_is_evicted_for_the_other), cmocka_unit_test(parts_on_both),
	  cmocka_unit_test(waiting_is_by_device), cmocka_unit_test(both_ways_end),
	  cmocka_unit_test(both_are_claimed), cmocka_unit_test(a_pool_falls_alone),
	  cmocka_unit_test(quotas_are_divided), cmocka_unit_test(shares_and_magazines),
	  cmocka_unit_test(wanted_back_where_it_helps), cmocka_unit_test(status_tells_each))
