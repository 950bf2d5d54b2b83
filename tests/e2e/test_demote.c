/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tiers with real processes: what does not fit on the device comes back from memory and from a file
 * with the right bytes; a daemon that starts again finds what its file has kept, whether it was
 * told to stop, was killed, or died at a named point of the file tier; a stop waits for what is
 * being stored, and not for long.
 */
#include "base/units.h"
#include "kvd/crash.h"
#include "tests/e2e/harness.h"
#include "tests/test.h"
#include <signal.h>
#include <unistd.h>

#define CHAINS 24
#define CHAIN_TOKENS 320

static struct harness_kvd kvd;
static struct harness_client client;
static char file_option[160];

static int setup(void **state)
{
	harness_init(&kvd);
	snprintf(file_option, sizeof(file_option), "--file=%s/blocks", kvd.dir);
	return 0;
}

static int teardown(void **state)
{
	harness_client_end(&client, SIGKILL);
	harness_fini(&kvd);
	return 0;
}

/* A pool of 64 blocks of 64 KiB, for chains of 20 each. */
static void start(const char *option, const char *other)
{
	harness_start(&kvd, (const char *[]){"--pool-bytes=4MiB", "--session-share=100",
					     "--device-memory=host", option, other, NULL});
	harness_client_sized(&client, &kvd, NULL, NULL, 16, 64 << 10);
}

/* Each chain is computed, or what is cached of it is checked by its bytes. */
static void use(int chain)
{
	harness_ask(&client, "acquire x%d %d:%d 0 5000", chain, chain, CHAIN_TOKENS);
	assert_true(harness_is(&client, "ok"));
	harness_ask(&client, "run x%d", chain);
	assert_true(harness_is(&client, "ok"));
	harness_ask(&client, "verify x%d", chain);
	assert_int_equal(harness_field(&client, "wrong"), 0);
	harness_ask(&client, "release x%d", chain);
}

/* Each twice: what nobody used again may not be worth storing. */
static void use_all(void)
{
	for (int i = 0; i < 2 * CHAINS; i++)
		use(i / 2);
}

static struct kvd_status *status(void)
{
	static struct kvd_status s;

	harness_status(&kvd, &s);
	return &s;
}

static const struct kvd_area_stat *find(const struct kvd_status *s, enum kvd_tier_kind tier)
{
	for (uint32_t i = 0; i < s->area_count; i++)
		if (s->areas[i].tier == tier)
			return &s->areas[i];
	fail_msg("there is no such tier");
	return NULL;
}

static const struct kvd_area_stat *area(enum kvd_tier_kind tier)
{
	return find(status(), tier);
}

/* Figures to wait for, since what the status says is a moment old. */
static uint64_t memory_stores(const struct kvd_status *s)
{
	return find(s, KVD_TIER_DRAM)->stores > 0;
}

static uint64_t memory_loads(const struct kvd_status *s)
{
	return find(s, KVD_TIER_DRAM)->loads > 0;
}

static uint64_t file_stores(const struct kvd_status *s)
{
	return find(s, KVD_TIER_FILE)->stores > 0;
}

static uint64_t file_loads(const struct kvd_status *s)
{
	return find(s, KVD_TIER_FILE)->loads > 0;
}

static void end(void)
{
	harness_client_bye(&client);
	harness_quiet(&kvd, 0);
	assert_int_equal(harness_end(&kvd, SIGTERM), 0);
}

static void comes_back(enum kvd_tier_kind tier, const char *engine)
{
	use_all();
	harness_wait_figure(&kvd, tier == KVD_TIER_DRAM ? memory_stores : file_stores, 1);
	const struct kvd_area_stat *a = area(tier);

	assert_int_equal(a->errors, 0);
	assert_int_equal(a->bad_blocks, 0);
	assert_int_equal(a->state, KVD_AREA_OK);
	if (engine)
		assert_string_equal(a->engine, engine);
	use_all();
	harness_ask(&client, "random 3 1500");
	assert_int_equal(harness_field(&client, "wrong"), 0);
	harness_wait_figure(&kvd, tier == KVD_TIER_DRAM ? memory_loads : file_loads, 1);
	assert_int_equal(status()->counters[KVD_C_LOST_TOKENS], 0);
	end();
}

static void test_from_memory(void **state)
{
	start("--dram-bytes=64MiB", NULL);
	comes_back(KVD_TIER_DRAM, "memory");
}

static void test_from_a_file(void **state)
{
	start(file_option, "--file-bytes=256MiB");
	comes_back(KVD_TIER_FILE, NULL);
}

static void test_from_a_file_by_threads(void **state)
{
	harness_start(&kvd,
		      (const char *[]){"--pool-bytes=4MiB", "--session-share=100",
				       "--device-memory=host", file_option, "--file-bytes=256MiB",
				       "--aio=threads", "--dram-bytes=8MiB", NULL});
	harness_client_sized(&client, &kvd, NULL, NULL, 16, 64 << 10);
	use_all();
	assert_string_equal(area(KVD_TIER_FILE)->engine, "threads");
	harness_wait_figure(&kvd, memory_stores, 1);
	harness_wait_figure(&kvd, file_stores, 1);
	end();
}

/* All that was stored is there, and no more than that. */
static void test_starts_warm(void **state)
{
	start(file_option, "--file-bytes=256MiB");
	use_all();
	harness_client_bye(&client);
	harness_quiet(&kvd, 0);
	assert_int_equal(harness_end(&kvd, SIGTERM), 0);
	start(file_option, NULL);
	uint64_t found = area(KVD_TIER_FILE)->blocks;
	assert_true(found > CHAINS);
	assert_true(harness_log_has(&kvd, "blocks recovered"));
	use_all();
	harness_wait_figure(&kvd, file_loads, 1);
	assert_int_equal(area(KVD_TIER_FILE)->bad_blocks, 0);
	end();
}

static void test_killed_while_it_stores(void **state)
{
	for (int round = 0; round < 5; round++) {
		start(file_option, round == 0 ? "--file-bytes=256MiB" : NULL);
		harness_send(&client, "random %d 100000", round);
		usleep(300000);
		assert_int_equal(harness_end(&kvd, SIGKILL), 128 + SIGKILL);
		harness_client_end(&client, SIGKILL);
	}
	start(file_option, NULL);
	assert_true(area(KVD_TIER_FILE)->blocks > 0);
	harness_ask(&client, "random 1 500");
	assert_int_equal(harness_field(&client, "wrong"), 0);
	end();
}

/* At that speed nothing that waits would ever be stored: the stop gives it up. */
static void test_stops_although_a_file_is_slow(void **state)
{
	harness_start(&kvd, (const char *[]){"--pool-bytes=16MiB", "--session-share=100",
					     "--device-memory=host", file_option,
					     "--file-bytes=256MiB", "--file-throttle=1KiB", NULL});
	harness_client_sized(&client, &kvd, NULL, NULL, 16, 64 << 10);
	use_all();
	harness_client_bye(&client);
	assert_int_equal(harness_end(&kvd, SIGTERM), 0);
	assert_true(harness_log_has(&kvd, "transfers do not end"));
}

static void test_too_much_memory(void **state)
{
	char dir[96];

	snprintf(dir, sizeof(dir), "--runtime-dir=%s", kvd.dir);
	assert_int_equal(harness_run(&kvd, (const char *[]){dir, "--device-memory=host",
							    "--dram-bytes=500TiB", NULL}),
			 1);
	assert_true(harness_log_has(&kvd, "--dram-bytes: 500.00 TiB of memory cannot be had"));
}

/* --- deaths -------------------------------------------------------------------------------------
 */

/* At work: while blocks are stored, of chains that no file has yet. */
static void die_at(enum crash_point point)
{
	setenv("KVD_CRASH_AT", crash_name(point), 1);
	start(file_option, NULL);
	unsetenv("KVD_CRASH_AT");
	for (int i = 0; i < 2 * CHAINS && strncmp(client.line, "ok", 2) == 0; i++) {
		int chain = 1000 * (int)point + i / 2;
		harness_ask(&client, "acquire x %d:%d 0 5000", chain, CHAIN_TOKENS);
		harness_ask(&client, "run x");
		harness_ask(&client, "release x");
	}
	assert_int_equal(harness_end(&kvd, SIGTERM), 128 + SIGKILL);
	harness_client_end(&client, SIGKILL);
}

static void test_dies_while_it_stores(void **state)
{
#ifndef KVD_CRASH_POINTS
	skip();
#endif
	start(file_option, "--file-bytes=256MiB");
	end();
	for (int point = CRASH_slot_filled; point <= CRASH_slot_written; point++) {
		print_message("at %s\n", crash_name(point));
		die_at(point);
		start(file_option, NULL);
		use_all();
		assert_int_equal(area(KVD_TIER_FILE)->bad_blocks, 0);
		end();
	}
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
TEST_MAIN(demote, TEST(test_from_memory), TEST(test_from_a_file), TEST(test_from_a_file_by_threads),
	  TEST(test_starts_warm), TEST(test_killed_while_it_stores),
	  TEST(test_stops_although_a_file_is_slow), TEST(test_too_much_memory),
	  TEST(test_dies_while_it_stores))
