/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Never slower than recomputing, in simulated time: over a table of disks, speeds of computing and
 * lengths, what the core chooses takes at most 2 % longer than the better of loading and computing.
 * The disk serves one transfer after the other at its bandwidth; computing takes a prompt's tokens
 * at the rate that the core was told.
 */
#include "tests/unit/core/tier_scene.h"

#include <base/units.h>

#define BLOCKS_MAX SCENE_BLOCKS_MAX
#define SLOT_BYTES (2.0 * HARNESS_PAGE_BYTES)
#define SLOWER_MAX 1.02

struct disk {
	double bytes_per_s;
	double free_ns; /* when it has done what it began */
};

/* Serves what the core asks for until `blocks` of the lease are there. */
static void serve(struct tier_scene *s, struct disk *d, uint64_t lease, uint32_t blocks)
{
	struct harness *h = s->h;

	while (tier_scene_ready(s, lease) < blocks) {
		assert_true(h->transfer_count > 0);
		double bytes = (double)h->transfers[0].slot.bytes;
		d->free_ns = BITS_MAX(d->free_ns, (double)h->now_ns) +
			     bytes * (double)UNITS_NS_PER_S / d->bytes_per_s;
		h->now_ns = (uint64_t)d->free_ns;
		harness_transfer(h, 0, 0);
	}
}

/* Another takes the pool's pages; what was cached lies on the disk alone. */
static void push_out(struct tier_scene *s)
{
	struct kvd_rep rep = tier_scene_acquire(s, 9999, BLOCKS_MAX)->rep;

	assert_int_equal(rep.result, 0);
	assert_int_equal(harness_release(s->h, s->session, rep.lease), 0);
}

/* Chain 1 lies on the disk alone, whose speed is known. */
static struct tier_scene measured_scene(struct disk *d)
{
	struct core_config config = tier_scene_config(BLOCKS_MAX, 4, 16);
	struct tier_scene s = tier_scene_start(&config);

	tier_scene_cool(&s, 1, BLOCKS_MAX, BLOCKS_MAX);
	struct kvd_rep rep = tier_scene_acquire(&s, 1, BLOCKS_MAX)->rep;
	assert_int_equal(rep.at.event, KVD_EVENT_LOAD);
	serve(&s, d, rep.lease, BLOCKS_MAX);
	assert_int_equal(harness_release(s.h, s.session, rep.lease), 0);
	push_out(&s);
	return s;
}

/* How long the first token takes by the core's choice; whether that was to load. */
static double first_token_s(struct tier_scene *s, struct disk *d, uint64_t tokens_per_s,
			    uint32_t blocks, bool *out_loads)
{
	struct kvd_req rate = {.op = KVD_OP_RATE, .format = s->format, .arg64 = tokens_per_s};

	assert_int_equal(harness_call(s->h, s->session, rate, NULL)->rep.result, 0);
	uint64_t begin_ns = s->h->now_ns;
	struct kvd_rep rep = tier_scene_acquire(s, 1, blocks)->rep;
	assert_int_equal(rep.result, 0);
	uint32_t loaded = rep.at.build_from / SCENE_PAGE_TOKENS;
	serve(s, d, rep.lease, loaded);
	double load_s = (double)(s->h->now_ns - begin_ns) / (double)UNITS_NS_PER_S;
	*out_loads = loaded > 0;
	if (loaded < blocks)
		assert_int_equal(harness_seal(s->h, s->session, rep.lease, loaded, blocks - loaded),
				 0);
	assert_int_equal(harness_release(s->h, s->session, rep.lease), 0);
	return load_s + (double)(blocks - loaded) * SCENE_PAGE_TOKENS / (double)tokens_per_s;
}

static void no_slower_than_the_better(void **state)
{
	static const uint64_t rates[] = {50, 1000, 20000, 500000};
	/* The disk's bandwidth, where 1 is as fast as computing. */
	static const double speeds[] = {0.01, 0.3, 0.9, 0.98, 1.02, 1.1, 3, 100};
	static const uint32_t lengths[] = {1, 2, 7, 16, BLOCKS_MAX};
	uint32_t loads = 0, computes = 0;

	for (uint32_t i = 0; i < ARRAY_LEN(rates) * ARRAY_LEN(speeds) * ARRAY_LEN(lengths); i++) {
		uint64_t rate = rates[i % ARRAY_LEN(rates)];
		double speed = speeds[i / ARRAY_LEN(rates) % ARRAY_LEN(speeds)];
		uint32_t blocks = lengths[i / ARRAY_LEN(rates) / ARRAY_LEN(speeds)];
		struct disk d = {.bytes_per_s =
					 speed * SLOT_BYTES * (double)rate / SCENE_PAGE_TOKENS};
		struct tier_scene s = measured_scene(&d);
		double compute_s = blocks * SCENE_PAGE_TOKENS / (double)rate;
		double load_s = blocks * SLOT_BYTES / d.bytes_per_s;
		bool loaded;
		double took_s = first_token_s(&s, &d, rate, blocks, &loaded);

		if (took_s > SLOWER_MAX * BITS_MIN(compute_s, load_s))
			fail_msg("%u blocks, %llu tokens/s, disk %.2f: took %.6f s, loading takes "
				 "%.6f s, computing %.6f s",
				 blocks, (unsigned long long)rate, speed, took_s, load_s,
				 compute_s);
		assert_true(loaded || speed < 1.1);
		assert_true(!loaded || speed > 0.9);
		loads += loaded;
		computes += !loaded;
		harness_transfers(s.h, 0);
		harness_free(s.h);
	}
	assert_true(loads > 0 && computes > 0);
}

/* A disk that has become slow costs one request; then it is passed over. */
static void a_disk_that_becomes_slow_is_found_out_by_one_load(void **state)
{
	const uint64_t rate = 1000;
	struct disk d = {.bytes_per_s = 100 * SLOT_BYTES * (double)rate / SCENE_PAGE_TOKENS};
	struct tier_scene s = measured_scene(&d);
	bool loaded;

	d.bytes_per_s /= 1000;
	(void)first_token_s(&s, &d, rate, BLOCKS_MAX, &loaded);
	assert_true(loaded);
	push_out(&s);
	double took_s = first_token_s(&s, &d, rate, BLOCKS_MAX, &loaded);
	assert_false(loaded);
	assert_true(took_s <= SLOWER_MAX * BLOCKS_MAX * SCENE_PAGE_TOKENS / (double)rate);
	harness_transfers(s.h, 0);
	harness_free(s.h);
}

/* A disk that was fast once and stays slow is tried again, ever more seldom. */
static void trials_in_vain_become_rare(void **state)
{
	const uint64_t rate = 1000;
	struct disk d = {.bytes_per_s = 100 * SLOT_BYTES * (double)rate / SCENE_PAGE_TOKENS};
	struct tier_scene s = measured_scene(&d);
	uint32_t loads = 0;
	bool loaded;

	d.bytes_per_s /= 1000;
	for (uint32_t minute = 0; minute < 8 * 60; minute++) {
		(void)first_token_s(&s, &d, rate, BLOCKS_MAX, &loaded);
		loads += loaded;
		push_out(&s);
		harness_time(s.h, 60000);
	}
	print_message("%u trials in 8 hours\n", loads);
	assert_in_range(loads, 2, 10);
	/* It is fast again, and found to be. */
	d.bytes_per_s *= 1000;
	for (uint32_t minute = 0; minute < 12 * 60; minute++) {
		(void)first_token_s(&s, &d, rate, BLOCKS_MAX, &loaded);
		push_out(&s);
		harness_time(s.h, 60000);
	}
	assert_true(loaded);
	harness_transfers(s.h, 0);
	harness_free(s.h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_slower_than_the_better),
		cmocka_unit_test(a_disk_that_becomes_slow_is_found_out_by_one_load),
		cmocka_unit_test(trials_in_vain_become_rare),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
