/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deaths. Clients with random work over one universe of prefixes are killed at random times, again
 * and again: after each round nothing is leaked, every invariant holds, and whoever lives on reads
 * the right bytes. Then the daemon dies at each of its named points: clients hear of it, and the
 * next daemon starts clean.
 */
#include "base/bits.h"
#include "kvd/crash.h"
#include "tests/e2e/harness.h"
#include "tests/test.h"
#include <signal.h>
#include <unistd.h>

#define CLIENTS 3
#define ROUNDS 120

static struct harness_kvd kvd;
static struct harness_client clients[CLIENTS];

static int setup(void **state)
{
	harness_init(&kvd);
	return 0;
}

static int teardown(void **state)
{
	for (int i = 0; i < CLIENTS; i++)
		harness_client_end(&clients[i], SIGKILL);
	harness_fini(&kvd);
	return 0;
}

static uint64_t seed_of_run(void)
{
	const char *text = getenv("KVD_TEST_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 10) : (uint64_t)getpid() * 7919;

	print_message("seed %llu (KVD_TEST_SEED repeats it)\n", (unsigned long long)seed);
	return seed;
}

static void begin(int i, uint64_t *seed)
{
	harness_client(&clients[i], &kvd, NULL, NULL);
	assert_true(harness_is(&clients[i], "ok"));
	harness_ask(&clients[i], "patience 100 300");
	harness_send(&clients[i], "random %u 100000", (unsigned int)test_random(seed));
}

/* Rounds in which nothing happens would prove nothing. */
static void assert_not_hollow(void)
{
	static const struct {
		enum kvd_counter counter;
		const char *name;
		uint64_t min;
	} wanted[] = {
		{KVD_C_SESSION_DEATHS, "deaths", ROUNDS},
		{KVD_C_QUARANTINED_PAGES, "quarantined pages", ROUNDS},
		{KVD_C_CACHED_TOKENS, "cached tokens", 1000},
		{KVD_C_FOLLOWED_TOKENS, "followed tokens", 1},
		{KVD_C_TAIL_TOKENS, "tail tokens", 1},
		{KVD_C_EVICTED_PAGES, "evicted pages", 1},
	};
	static struct kvd_status s;

	harness_status(&kvd, &s);
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
		uint64_t n = s.counters[wanted[i].counter];
		print_message("%llu %s\n", (unsigned long long)n, wanted[i].name);
		assert_true(n >= wanted[i].min);
	}
}

/* One is killed while all work; another takes its place. */
static void test_clients_killed_while_all_work(void **state)
{
	uint64_t seed = seed_of_run();

	harness_start(&kvd, (const char *[]){"--pool-bytes=2MiB", "--session-share=60",
					     "--log-level=info", NULL});
	for (int i = 0; i < CLIENTS; i++)
		begin(i, &seed);
	for (int round = 0; round < ROUNDS; round++) {
		int i = (int)(test_random(&seed) % CLIENTS);
		usleep((useconds_t)(test_random(&seed) % 30000));
		harness_client_end(&clients[i], SIGKILL);
		harness_check(&kvd);
		begin(i, &seed);
	}
	for (int i = 0; i < CLIENTS; i++)
		harness_client_end(&clients[i], SIGKILL);
	harness_quiet(&kvd, 0);
	assert_not_hollow();
	harness_client(&clients[0], &kvd, NULL, NULL);
	harness_ask(&clients[0], "random 1 300");
	assert_true(harness_is(&clients[0], "ok"));
	assert_int_equal(harness_field(&clients[0], "wrong"), 0);
	harness_client_bye(&clients[0]);
	harness_quiet(&kvd, 0);
	assert_int_equal(harness_end(&kvd, SIGTERM), 0);
}

/* Whoever lives verifies everything that it reads, while its neighbour dies again and again. */
static void test_survivors_read_right_bytes(void **state)
{
	uint64_t seed = seed_of_run();

	harness_start(&kvd, (const char *[]){"--pool-bytes=2MiB", "--session-share=60",
					     "--log-level=info", NULL});
	harness_client(&clients[0], &kvd, NULL, NULL);
	harness_ask(&clients[0], "patience 100 300");
	for (int round = 0; round < 40; round++) {
		begin(1, &seed);
		harness_send(&clients[0], "random %u 60", (unsigned int)test_random(&seed));
		usleep((useconds_t)(test_random(&seed) % 20000));
		harness_client_end(&clients[1], SIGKILL);
		harness_answer(&clients[0]);
		assert_true(harness_is(&clients[0], "ok"));
		assert_int_equal(harness_field(&clients[0], "wrong"), 0);
	}
	harness_client_bye(&clients[0]);
	harness_quiet(&kvd, 0);
}

/* Work that passes every point: two geometries, so that slabs are destroyed too. */
static void provoke(struct harness_client *big)
{
	harness_client_sized(big, &kvd, NULL, NULL, 16, 64 << 10);
	if (strncmp(big->line, "ok", 2) != 0)
		return;
	harness_ask(&clients[0], "acquire x 1:100 1");
	harness_ask(&clients[0], "run x");
	harness_ask(&clients[0], "release x");
	harness_ask(big, "acquire y 2:500 0 2000");
	harness_ask(big, "run y");
	harness_ask(big, "release y");
	harness_client_end(&clients[0], SIGKILL);
	harness_ask(big, "acquire z 2:500 0 2000");
	harness_ask(big, "gone");
}

static void die_at(enum crash_point point)
{
	struct harness_client *big = &clients[1];
	char at[64];

	/* The first update of the status is made at start. */
	snprintf(at, sizeof(at), "%s:%d", crash_name(point), point == CRASH_status_odd ? 2 : 1);
	setenv("KVD_CRASH_AT", at, 1);
	harness_start(&kvd, (const char *[]){"--pool-bytes=2MiB", "--session-share=100", NULL});
	unsetenv("KVD_CRASH_AT");
	if (point == CRASH_stopping) {
		assert_int_equal(harness_end(&kvd, SIGTERM), 128 + SIGKILL);
		return;
	}
	harness_client(&clients[0], &kvd, NULL, NULL);
	if (strncmp(clients[0].line, "ok", 2) == 0)
		provoke(big);
	assert_int_equal(harness_end(&kvd, SIGTERM), 128 + SIGKILL);
	harness_client_end(&clients[0], SIGKILL);
	harness_client_end(big, SIGKILL);
}

static void test_daemon_dies_at_every_point(void **state)
{
#ifndef KVD_CRASH_POINTS
	skip();
#endif
	/* What stands behind is the file tier's. */
	for (int point = 0; point < CRASH_journal_write; point++) {
		print_message("at %s\n", crash_name(point));
		die_at(point);
		harness_start(&kvd, NULL);
		harness_client(&clients[0], &kvd, NULL, NULL);
		assert_true(harness_is(&clients[0], "ok"));
		harness_ask(&clients[0], "random 5 30");
		assert_int_equal(harness_field(&clients[0], "wrong"), 0);
		harness_client_bye(&clients[0]);
		harness_quiet(&kvd, 0);
		assert_int_equal(harness_end(&kvd, SIGTERM), 0);
	}
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
TEST_MAIN(kill, TEST(test_clients_killed_while_all_work), TEST(test_survivors_read_right_bytes),
	  TEST(test_daemon_dies_at_every_point))
