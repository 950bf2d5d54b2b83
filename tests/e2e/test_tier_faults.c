/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real daemon on a disk that fails in every way that a disk has: errors, short and torn calls,
 * calls that are slow or never end, on slots and on the journal. Clients get right bytes and
 * nobody waits for the disk; the daemon says once that the file is degraded, shows it, and uses
 * the file again when the disk is well. The faults are fault_shim.c's.
 */
#include "tests/e2e/kvctl_run.h"
#include "tests/e2e/tier_run.h"
#include "tests/test.h"
#include <base/bits.h>
#include <base/units.h>
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#define TEXT "1:2000"
#define TEXT_BLOCKS 125u
#define TEXT_TOKENS 2000u

static struct tier_run run;

static int setup(void **state)
{
	tier_run_init(&run, "threads");
	tier_run_faults(&run, "tier");
	kvctl_init(&run.kvd);
	return 0;
}

static int teardown(void **state)
{
	kvctl_fini();
	tier_run_fini(&run);
	return 0;
}

/* A client that would wait for ever: whom the daemon forgets fails the test. */
static void start_with(const char *timeout, const char *other)
{
	tier_run_start(&run, (const char *[]){timeout, "--file-retry=200ms", other, NULL});
	harness_ask(&run.client, "patience 600000");
}

static void start(void)
{
	start_with("--file-timeout=300ms", NULL);
}

static uint64_t degraded(const struct kvd_status *s)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < s->area_count; i++)
		n += s->areas[i].state == KVD_AREA_DEGRADED;
	return n;
}

static void make_cold(void)
{
	tier_run_text(&run, TEXT);
	tier_run_settle(&run, TEXT_BLOCKS);
	tier_run_push_out(&run);
	tier_run_settle(&run, TEXT_BLOCKS);
}

/* --- what degrades ------------------------------------------------------------------------------
 */

static const struct {
	const char *name;
	struct fault fault;
	const char *says;
} faults[] = {
	{"reads fail", {FAULT_ERROR, FAULT_READS, .error = EIO}, "reading: "},
	{"writes fail", {FAULT_ERROR, FAULT_WRITES, .error = EIO}, "writing: "},
	{"the disk is full", {FAULT_ERROR, FAULT_WRITES, .error = ENOSPC}, "writing: "},
	{"writes are torn", {FAULT_TORN, FAULT_WRITES, .error = EIO}, "writing: "},
	{"the journal fails", {FAULT_ERROR, FAULT_JOURNAL_WRITE, .error = EIO}, "journal: "},
	{"it does not sync", {FAULT_ERROR, FAULT_SYNC, .error = EIO}, "journal: "},
	{"reads hang", {FAULT_HANG, FAULT_READS}, "does not answer"},
	{"writes hang", {FAULT_HANG, FAULT_WRITES}, "does not answer"},
	{"the journal hangs", {FAULT_HANG, FAULT_JOURNAL_WRITE}, "does not answer"},
	{"it does not end to sync", {FAULT_HANG, FAULT_SYNC}, "does not answer"},
	{"all hangs", {FAULT_HANG, FAULT_ALL}, "does not answer"},
};

static void shows_degraded(void)
{
	assert_int_equal(kvctl_run("tiers"), 0);
	kvctl_has(kvctl_out, "degraded");
	(void)kvctl_run("doctor");
	kvctl_has(kvctl_out, "is degraded");
	assert_int_equal(kvctl_run("metrics"), 0);
	kvctl_has(kvctl_out, "kvd_tier_degraded{tier=\"file\",area=\"0\"");
}

/* Reads what the file has, writes what it has not; a word for each text, so that none is known. */
static void use(unsigned int word)
{
	char text[32];

	tier_run_text(&run, TEXT);
	snprintf(text, sizeof(text), "%u:3000", word);
	tier_run_text(&run, text);
	tier_run_text(&run, "8:4000");
}

static uint64_t seen_stores, seen_loads;

static uint64_t both_grew(const struct kvd_status *s)
{
	return s->areas[0].stores > seen_stores && s->areas[0].loads > seen_loads;
}

/* Each way, and from now on; so many long texts push all else out of the pool. */
static void is_used(unsigned int word, int longs)
{
	char text[32];

	(void)tier_run_counter(&run, KVD_C_LOADED_TOKENS);
	seen_stores = tier_run_area(&run).stores;
	seen_loads = tier_run_area(&run).loads;
	use(word);
	tier_run_settle(&run, 1);
	for (int i = 0; i < longs; i++) {
		snprintf(text, sizeof(text), "%d:8000", 8 + i);
		tier_run_text(&run, text);
	}
	use(word);
	harness_wait_figure(&run.kvd, both_grew, 1);
}

static void fails_and_comes_back(size_t i)
{
	unsigned int word = 100 * ((unsigned int)i + 1);

	print_message("%s\n", faults[i].name);
	start();
	make_cold();
	unsigned int lines = harness_log_count(&run.kvd, "degraded");
	unsigned int back = harness_log_count(&run.kvd, "answers again");
	tier_run_fault(&run, faults[i].fault);
	for (int n = 0; n < 3; n++)
		use(word++);
	harness_wait_figure(&run.kvd, degraded, 1);
	shows_degraded();
	/* Long enough for a few tries. */
	for (int n = 0; n < 3; n++) {
		use(word++);
		usleep(100000);
	}
	assert_true(run.fault->had > 0);
	harness_wait_figure(&run.kvd, degraded, 1);
	assert_int_equal(harness_log_count(&run.kvd, "degraded"), lines + 1);
	assert_true(harness_log_has(&run.kvd, faults[i].says));
	tier_run_fault(&run, (struct fault){0});
	harness_wait_figure(&run.kvd, degraded, 0);
	assert_int_equal(harness_log_count(&run.kvd, "answers again"), back + 1);
	is_used(word, 2);
	harness_check(&run.kvd);
	assert_int_equal(harness_log_count(&run.kvd, "degraded"), lines + 1);
	tier_run_end(&run, SIGTERM);
}

static void test_fails_and_comes_back(void **state)
{
	const char *only = getenv("KVD_TEST_FAULT");

	for (size_t i = 0; i < ARRAY_LEN(faults); i++)
		if (!only || strstr(faults[i].name, only))
			fails_and_comes_back(i);
}

/* --- what does not ------------------------------------------------------------------------------
 */

static void test_short_and_slow_is_well(void **state)
{
	static const struct fault cases[] = {{FAULT_SHORT, FAULT_ALL & ~FAULT_SYNC},
					     {FAULT_DELAY, FAULT_ALL, .delay_ms = 20}};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		start();
		tier_run_fault(&run, cases[i]);
		make_cold();
		tier_run_text(&run, TEXT);
		assert_true(tier_run_counter(&run, KVD_C_LOADED_TOKENS) >= TEXT_TOKENS);
		struct kvd_area_stat a = tier_run_area(&run);
		assert_int_equal(a.errors, 0);
		assert_int_equal(a.bad_blocks, 0);
		assert_true(run.fault->had > 0);
		tier_run_end(&run, SIGTERM);
		tier_run_fault(&run, (struct fault){0});
		/* What was written so is what is found. */
		start();
		tier_run_text(&run, TEXT);
		assert_true(tier_run_counter(&run, KVD_C_LOADED_TOKENS) >= TEXT_TOKENS);
		tier_run_end(&run, SIGTERM);
		assert_false(harness_log_has(&run.kvd, "degraded"));
	}
}

/* A single bad sector: its block is computed, the file goes on. */
static void test_one_bad_block(void **state)
{
	start();
	make_cold();
	tier_run_fault(&run, (struct fault){FAULT_ERROR, FAULT_SLOT_READ, .error = EIO, .from = 3,
					    .limit = 1});
	tier_run_text(&run, TEXT);
	assert_int_equal(run.fault->had, 1);
	assert_int_equal(tier_run_area(&run).state, KVD_AREA_OK);
	assert_true(tier_run_counter(&run, KVD_C_LOADED_TOKENS) > 0);
	tier_run_end(&run, SIGTERM);
	assert_false(harness_log_has(&run.kvd, "degraded"));
}

/* --- death in the middle of a write -------------------------------------------------------------
 */

static void test_dies_within_writes(void **state)
{
	static const struct fault cases[] = {
		{FAULT_DEATH, FAULT_SLOT_WRITE, .from = 0},
		{FAULT_DEATH, FAULT_SLOT_WRITE, .from = 7},
		{FAULT_DEATH, FAULT_JOURNAL_WRITE, .from = 0},
		{FAULT_DEATH, FAULT_JOURNAL_WRITE, .from = 2},
		{FAULT_DEATH, FAULT_SYNC, .from = 0},
		{FAULT_DEATH, FAULT_SYNC, .from = 1},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		start();
		tier_run_fault(&run, cases[i]);
		harness_send(&run.client, "random %u 1000000", (unsigned int)i + 1);
		uint64_t end_ns = units_now_ns() + HARNESS_WAIT_MS * UNITS_NS_PER_MS;
		while (run.fault->had == 0 && units_now_ns() < end_ns)
			usleep(1000);
		assert_true(run.fault->had > 0);
		assert_int_equal(harness_end(&run.kvd, 0), 128 + SIGKILL);
		harness_client_end(&run.client, SIGKILL);
		tier_run_fault(&run, (struct fault){0});
		start();
		tier_run_text(&run, TEXT);
		harness_ask(&run.client, "random %u 300", (unsigned int)i + 1);
		assert_int_equal(harness_field(&run.client, "wrong"), 0);
		assert_int_equal(tier_run_area(&run).bad_blocks, 0);
		harness_check(&run.kvd);
		tier_run_end(&run, SIGTERM);
	}
}

/* --- the end ------------------------------------------------------------------------------------
 */

/* A stop does not wait for a disk that hangs: harness_end() fails the test after a while. */
static void test_stops_while_it_hangs(void **state)
{
	static const uint32_t calls[] = {FAULT_ALL, FAULT_SLOT_WRITE, FAULT_JOURNAL_WRITE};

	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		start_with(i % 2 ? "--file-timeout=3600s" : "--file-timeout=300ms", "--workers=1");
		make_cold();
		tier_run_fault(&run, (struct fault){FAULT_HANG, calls[i]});
		harness_send(&run.client, "random %u 1000000", (unsigned int)i + 1);
		uint64_t end_ns = units_now_ns() + HARNESS_WAIT_MS * UNITS_NS_PER_MS;
		while (run.fault->had == 0 && units_now_ns() < end_ns)
			usleep(1000);
		assert_true(run.fault->had > 0);
		uint64_t begin_ns = units_now_ns();
		assert_int_equal(harness_end(&run.kvd, SIGTERM), 0);
		print_message("calls %u: stopped in %llu ms\n", calls[i],
			      (unsigned long long)((units_now_ns() - begin_ns) / UNITS_NS_PER_MS));
		harness_client_end(&run.client, SIGKILL);
		tier_run_fault(&run, (struct fault){0});
		/* All that the stop removes is removed, and what is left is sound. */
		assert_int_not_equal(access(run.kvd.socket, F_OK), 0);
		start();
		use(1000 + (unsigned int)i);
		harness_check(&run.kvd);
		tier_run_end(&run, SIGTERM);
	}
}

/* --- two files ----------------------------------------------------------------------------------
 */

/* The other file is neither slowed down nor blamed. */
static void test_one_of_two_fails(void **state)
{
	static const struct fault cases[] = {{FAULT_HANG, FAULT_ALL},
					     {FAULT_ERROR, FAULT_ALL, .error = EIO}};
	char second[160];

	snprintf(second, sizeof(second), "--file=%s/second", run.kvd.dir);
	snprintf(run.fault->path, sizeof(run.fault->path), "/second");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		tier_run_start(&run,
			       (const char *[]){second, "--file-bytes=256MiB", "--file-timeout=1s",
						"--file-retry=200ms", "--pool-bytes=4MiB", NULL});
		harness_ask(&run.client, "patience 600000");
		/* Half of it lies in each. */
		tier_run_text(&run, TEXT);
		tier_run_settle(&run, TEXT_BLOCKS / 2);
		tier_run_push_out(&run);
		tier_run_fault(&run, cases[i]);
		unsigned int word = 100 * ((unsigned int)i + 1);
		for (int n = 0; n < 6; n++)
			use(word++);
		harness_wait_figure(&run.kvd, degraded, 1);
		assert_int_equal(tier_run_area(&run).state, KVD_AREA_OK);
		assert_int_equal(tier_run_area(&run).errors, 0);
		is_used(word, 6);
		assert_int_equal(tier_run_area(&run).errors, 0);
		tier_run_fault(&run, (struct fault){0});
		harness_wait_figure(&run.kvd, degraded, 0);
		tier_run_end(&run, SIGTERM);
	}
}

/* --- stopped processes --------------------------------------------------------------------------
 */

/* Who was stopped, by a debugger or a freezer, has not waited for the disk. */
static void test_stopped_and_continued(void **state)
{
	uint64_t seed = 5;

	start();
	make_cold();
	tier_run_fault(&run, (struct fault){FAULT_DELAY, FAULT_ALL, .delay_ms = 5});
	harness_send(&run.client, "random 3 3000");
	for (int i = 0; i < 5; i++) {
		usleep((useconds_t)(test_random(&seed) % 100000) + 20000);
		assert_int_equal(kill(run.kvd.pid, SIGSTOP), 0);
		usleep(600000);
		assert_int_equal(kill(run.kvd.pid, SIGCONT), 0);
	}
	harness_answer(&run.client);
	assert_int_equal(harness_field(&run.client, "wrong"), 0);
	use(100);
	assert_false(harness_log_has(&run.kvd, "degraded"));
	tier_run_end(&run, SIGTERM);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
TEST_MAIN(tier_faults, TEST(test_fails_and_comes_back), TEST(test_short_and_slow_is_well),
	  TEST(test_one_bad_block), TEST(test_dies_within_writes), TEST(test_stops_while_it_hangs),
	  TEST(test_one_of_two_fails), TEST(test_stopped_and_continued))
