/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deaths around an engine: engines killed at every named point and at random ones, while another
 * one computes the same prompts; kvd killed in mid-stream; a private kvd killed. Nothing leaks,
 * CHECK stays clean, and every stream that survives is right to the token. $KVD_KILL_ROUNDS sets
 * the rounds of the random parts, $KVD_MODEL adds rounds with that model.
 */
#include "base/units.h"
#include "engine/crash.h"
#include "tests/e2e/workers.h"
#include "tests/test.h"
#include <signal.h>
#include <unistd.h>

/* 108 tokens leave a tail of 12 that the next one copies; 60 more need blocks of the magazine. */
#define WORK "many 5 108 60 6"
#define ROUNDS 12u
#define KVD_ROUNDS 25u

static struct harness_kvd kvd;
static struct harness_client a, b;
static uint64_t want;

static int setup(void **state)
{
	harness_init(&kvd);
	return 0;
}

static int teardown(void **state)
{
	harness_client_end(&a, SIGKILL);
	harness_client_end(&b, SIGKILL);
	harness_fini(&kvd);
	return 0;
}

static uint32_t rounds(uint32_t fallback)
{
	const char *text = getenv("KVD_KILL_ROUNDS");

	return text ? (uint32_t)strtoul(text, NULL, 10) : fallback;
}

static uint64_t random_seed(void)
{
	const char *replay = getenv("KVD_TEST_SEED");
	uint64_t seed = replay ? strtoull(replay, NULL, 10) : units_now_ns();

	print_message("seed %llu\n", (unsigned long long)seed);
	return seed;
}

static void start_survivor(const char *model, const char *page)
{
	const char *options[] = {page, NULL};

	workers_start(&b, &kvd, kvd.socket, model, options);
	harness_ask(&b, WORK);
	assert_true(harness_is(&b, "ok"));
	assert_int_equal(harness_field(&b, "errors"), 0);
	want = harness_field(&b, "tokens");
}

static void assert_right(struct harness_client *c)
{
	assert_true(harness_is(c, "ok"));
	assert_int_equal(harness_field(c, "errors"), 0);
	assert_int_equal(harness_field(c, "tokens"), want);
}

#ifdef KVD_CRASH_POINTS
/* Whether the engine passed the point; nobody else may notice. */
static bool die_at(const char *model, const char *point, bool goes_first)
{
	bool died = true;

	workers_start_fragile(&a, &kvd, model, point);
	/* Who comes second may find everything computed. */
	harness_send(goes_first ? &a : &b, WORK);
	harness_send(goes_first ? &b : &a, WORK);
	harness_answer(&a);
	if (strncmp(a.line, "ok", 2) == 0) {
		/* Only the clean end is left. */
		harness_ask(&a, "close");
		died = strncmp(a.line, "ok", 2) != 0;
	}
	harness_answer(&b);
	assert_right(&b);
	harness_client_end(&a, SIGKILL);
	harness_quiet(&kvd, 1);
	return died;
}

static void dies_at_every_point(void **state)
{
#define NAME(name) name,
	static const char *const points[] = {CRASH_POINTS(NAME)};
	const char *model = workers_tiny_model(&kvd);

	harness_start(&kvd, NULL);
	start_survivor(model, "page=16");
	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		/* With all in the cache, and with nothing; who computes then is a matter of luck.
		 */
		bool warm = die_at(model, points[i], false), cold = false;

		for (int tries = 0; tries < 5 && !cold; tries++) {
			workers_evict_all(&kvd);
			cold = die_at(model, points[i], true);
			if (warm)
				break;
		}

		print_message("%s: passed with a warm cache: %d, cold: %d\n", points[i], warm,
			      cold);
		assert_true(warm || cold);
	}
}
#else
static void dies_at_every_point(void **state)
{
	skip(); /* needs -Dcrash_points=true */
}
#endif

static void kill_engines(const char *model, const char *page, uint32_t count, uint32_t ms_max)
{
	uint64_t seed = random_seed();
	const char *options[] = {page, NULL};

	start_survivor(model, page);
	for (uint32_t i = 0; i < count; i++) {
		workers_start(&a, &kvd, kvd.socket, model, options);
		if (test_random(&seed) % 2)
			workers_evict_all(&kvd);
		harness_send(&a, WORK);
		harness_send(&b, WORK);
		usleep((useconds_t)(test_random(&seed) % (ms_max * 1000)));
		harness_client_end(&a, SIGKILL);
		harness_answer(&b);
		assert_right(&b);
		harness_quiet(&kvd, 1);
	}
}

static void engine_dies_anywhere(void **state)
{
	harness_start(&kvd, NULL);
	kill_engines(workers_tiny_model(&kvd), "page=16", rounds(ROUNDS), 60);
}

static void engine_dies_anywhere_with_the_real_model(void **state)
{
	const char *model = workers_real_model();
	const char *pool[] = {"--pool-bytes", "256MiB", NULL};

	harness_start(&kvd, pool);
	kill_engines(model, "page=64", rounds(2), 3000);
}

static void daemon_dies_in_mid_stream(void **state)
{
	uint64_t seed = random_seed();

	harness_start(&kvd, NULL);
	start_survivor(workers_tiny_model(&kvd), "page=16");
	for (uint32_t i = 0; i < KVD_ROUNDS; i++) {
		harness_send(&b, WORK);
		usleep((useconds_t)(test_random(&seed) % 60000));
		(void)harness_end(&kvd, SIGKILL);
		usleep((useconds_t)(test_random(&seed) % 60000));
		harness_start(&kvd, NULL);
		harness_answer(&b);
		assert_right(&b);
	}
	harness_ask(&b, WORK);
	assert_right(&b);
	harness_quiet(&kvd, 1);
	harness_ask(&b, "stats");
	assert_true(harness_field(&b, "reconnects") > 0);
}

/* The only child of the process. */
static pid_t child_of(pid_t pid)
{
	char path[64];
	long child = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
	FILE *f = fopen(path, "re");

	if (f && fscanf(f, "%ld", &child) != 1)
		child = 0;
	if (f)
		fclose(f);
	return (pid_t)child;
}

static void private_daemon_is_started_again(void **state)
{
	const char *options[] = {"page=16", "pool=33554432", NULL};

	workers_start(&a, &kvd, "private", workers_tiny_model(&kvd), options);
	harness_ask(&a, WORK);
	assert_true(harness_is(&a, "ok"));
	want = harness_field(&a, "tokens");
	pid_t child = child_of(a.pid);
	assert_true(child > 0);
	harness_send(&a, WORK);
	usleep(5000);
	kill(child, SIGKILL);
	harness_answer(&a);
	assert_right(&a);
	harness_ask(&a, WORK);
	assert_right(&a);
	harness_ask(&a, "stats");
	assert_int_equal(harness_field(&a, "reconnects"), 1);
	assert_int_equal(harness_field(&a, "private"), 1);
	harness_client_bye(&a);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

TEST_MAIN(engine_kill, TEST(dies_at_every_point), TEST(engine_dies_anywhere),
	  TEST(engine_dies_anywhere_with_the_real_model), TEST(daemon_dies_in_mid_stream),
	  TEST(private_daemon_is_started_again))
