/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exactness below the pool, over real engines and a real kvd with a file: what was evicted and
 * loaded is what was resident and what is computed cold, bitwise on logits and on K and V. Over a
 * restart and a SIGKILL of kvd, with a part of the prompt loaded and the rest computed, with a load
 * that fails in its middle, with two engines that want the same, and with a tier so slow that the
 * engine takes over. With $KVD_MODEL also on that model.
 *
 * A tier that was never measured is tried, so each daemon here loads once.
 */
#include "base/units.h"
#include "tests/e2e/workers.h"
#include "tests/test.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEED 11u
#define ROUNDS_MAX 10

static struct harness_kvd kvd;
static struct harness_client a, b;
static char file[128], file_option[160];
static const char *pool = "--pool-bytes=32MiB";

static int setup(void **state)
{
	harness_init(&kvd);
	snprintf(file, sizeof(file), "%s/blocks", kvd.dir);
	snprintf(file_option, sizeof(file_option), "--file=%s", file);
	return 0;
}

static int teardown(void **state)
{
	harness_client_end(&a, SIGKILL);
	harness_client_end(&b, SIGKILL);
	harness_fini(&kvd);
	return 0;
}

static void start(const char *throttle)
{
	const char *options[] = {pool,	   file_option, "--file-bytes=256MiB", "--file-store=all",
				 throttle, NULL};

	harness_start(&kvd, options);
}

static void start_workers(const char *model, const char *page_option)
{
	const char *plain[] = {page_option, "threads=2", NULL};
	const char *odd[] = {page_option, "threads=1", "chunk=7", NULL};

	workers_start(&a, &kvd, kvd.socket, model, plain);
	workers_start(&b, &kvd, kvd.socket, model, odd);
}

static void end_all(void)
{
	harness_client_bye(&a);
	harness_client_bye(&b);
	harness_quiet(&kvd, 0);
	assert_int_equal(harness_end(&kvd, SIGTERM), 0);
	unlink(file);
}

static uint64_t counter(enum kvd_counter which)
{
	static struct kvd_status s;
	uint64_t seen_ns;

	/* The next update is the first that is surely later than what was done before. */
	harness_status(&kvd, &s);
	seen_ns = s.updated_ns;
	for (int i = 0; i < 50 && s.updated_ns == seen_ns; i++) {
		usleep(10000);
		harness_status(&kvd, &s);
	}
	return s.counters[which];
}

/* The file has so many blocks, nothing is on its way, and the journal knows. */
static void settle(uint32_t blocks)
{
	static struct kvd_status s;
	uint32_t quiet = 0;

	for (int i = 0; i < 100 && quiet < 3; i++) {
		usleep(120000);
		harness_status(&kvd, &s);
		assert_int_equal(s.area_count, 1);
		quiet = s.areas[0].queue == 0 && s.areas[0].blocks >= blocks ? quiet + 1 : 0;
	}
	assert_int_equal(quiet, 3);
	usleep(600000);
}

/* The daemon's pool is empty, and nobody has measured the file. */
static void restart(int sig, const char *throttle)
{
	assert_int_equal(harness_end(&kvd, sig), sig == SIGTERM ? 0 : 128 + sig);
	start(throttle);
}

/* A daemon whose file has the first `count` tokens of the seed's prompt, which nobody reads. */
static void make_cold(uint32_t count, uint32_t page)
{
	(void)workers_ask(&a, SEED, count, 1);
	settle(count / page);
	workers_forget_all(&kvd);
}

/* --- the same bits ---------------------------------------------------------------------------- */

/* What a load brings may have been computed meanwhile, where the host was busy: then again. */
static void check_loaded(struct harness_client *w, uint32_t n, uint32_t loaded,
			 const struct workers_answer *want)
{
	for (int round = 0; round < ROUNDS_MAX; round++) {
		struct workers_answer got = workers_ask(w, SEED, n, 1);

		workers_assert_same(want, &got);
		if (counter(KVD_C_TAKES) == 0) {
			assert_int_equal(got.cached, loaded);
			assert_int_equal(counter(KVD_C_LOADED_TOKENS), loaded);
			assert_int_equal(counter(KVD_C_LOST_TOKENS), 0);
			return;
		}
		print_message("a load was not waited for; again\n");
		restart(SIGKILL, NULL);
	}
	fail_msg("no load was waited for");
}

static void check_model(const char *model, const char *page_option, uint32_t page)
{
	uint32_t n = 3 * page + 7, longer = 6 * page + 3;

	start(NULL);
	start_workers(model, page_option);
	struct workers_answer cold = workers_ask(&a, SEED, n, 0);
	struct workers_answer cold_longer = workers_ask(&b, SEED, longer, 0);

	make_cold(n, page);
	check_loaded(&b, n, 3 * page, &cold);
	struct workers_answer resident = workers_ask(&a, SEED, n, 1);
	workers_assert_same(&cold, &resident);
	assert_true(resident.cached >= 3 * page);
	settle(3);
	restart(SIGTERM, NULL);
	check_loaded(&a, n, 3 * page, &cold);
	restart(SIGKILL, NULL);
	check_loaded(&b, n, 3 * page, &cold);
	/* The blocks below come from the file, those above are computed. */
	restart(SIGKILL, NULL);
	check_loaded(&a, longer, 3 * page, &cold_longer);
	end_all();
}

static void tiny_model_pages_of_16(void **state)
{
	check_model(workers_tiny_model(&kvd), "page=16", 16);
}

static void tiny_model_pages_of_64(void **state)
{
	check_model(workers_tiny_model(&kvd), "page=64", 64);
}

static void real_model(void **state)
{
	const char *model = workers_real_model();

	pool = "--pool-bytes=256MiB";
	check_model(model, "page=64", 64);
	pool = "--pool-bytes=32MiB";
}

/* --- loads that end otherwise ----------------------------------------------------------------- */

/* Flips a byte in a page of the `index`-th slot of the file that is in use. */
static void spoil_slot(uint32_t index)
{
	struct stat st;
	int fd = open(file, O_RDWR | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	uint8_t *map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(map != MAP_FAILED);
	uint32_t found = 0;
	for (off_t at = 0; at + 8192 <= st.st_size; at += 4096)
		if ((memcmp(map + at, "KVDSLOT\n", 8) == 0 ||
		     memcmp(map + at, "\nTOLSDVK", 8) == 0) &&
		    found++ == index)
			map[at + 4096 + 100] ^= 0x40;
	munmap(map, (size_t)st.st_size);
	close(fd);
	assert_true(found > index);
}

/* The engine is CALLed, and computes what is lost. */
static void a_load_that_fails_in_its_middle(void **state)
{
	const uint32_t n = 200, blocks = n / 16;

	start(NULL);
	start_workers(workers_tiny_model(&kvd), "page=16");
	struct workers_answer cold = workers_ask(&a, SEED, n, 0);
	make_cold(n, 16);
	assert_int_equal(harness_end(&kvd, SIGTERM), 0);
	spoil_slot(blocks / 2);
	start(NULL);
	struct workers_answer got = workers_ask(&b, SEED, n, 1);
	workers_assert_same(&cold, &got);
	assert_true(got.cached > 0 && got.cached < n - 16);
	assert_true(counter(KVD_C_LOST_TOKENS) > 0);
	assert_true(counter(KVD_C_CALLS) + counter(KVD_C_TAKES) > 0);
	/* What was computed instead is stored, and as good. */
	settle(blocks);
	restart(SIGKILL, NULL);
	check_loaded(&a, n, blocks * 16, &cold);
	end_all();
}

static void two_engines_want_the_same_cold_prefix(void **state)
{
	const uint32_t n = 200, blocks = n / 16;

	start(NULL);
	start_workers(workers_tiny_model(&kvd), "page=16");
	struct workers_answer cold = workers_ask(&a, SEED, n, 0);
	make_cold(n, 16);
	for (int round = 0; round < 3; round++) {
		workers_send(&a, SEED, n, 1);
		workers_send(&b, SEED, n, 1);
		struct workers_answer on_a = workers_answer(&a);
		struct workers_answer on_b = workers_answer(&b);
		workers_assert_same(&cold, &on_a);
		workers_assert_same(&cold, &on_b);
		/* Loaded once, for both. */
		assert_int_equal(counter(KVD_C_LOADS_CHOSEN), 1);
		assert_true(counter(KVD_C_LOADED_TOKENS) <= blocks * 16);
		restart(SIGKILL, NULL);
	}
	end_all();
}

/* --- while a load is under way ---------------------------------------------------------------- */

/* 12 KiB a block: a second and more for each. It shows progress, and computing takes far less. */
static void a_slow_tier_is_not_waited_for(void **state)
{
	const uint32_t n = 200;

	start(NULL);
	start_workers(workers_tiny_model(&kvd), "page=16");
	struct workers_answer cold = workers_ask(&a, SEED, n, 0);
	make_cold(n, 16);
	restart(SIGKILL, "--file-throttle=8KiB");
	struct workers_answer got = workers_ask(&a, SEED, n, 1);
	workers_assert_same(&cold, &got);
	assert_int_equal(counter(KVD_C_LOADS_CHOSEN), 1);
	assert_int_equal(counter(KVD_C_TAKES), 1);
	/* The file that is as slow as that is not asked again: the engine's speed is known to kvd.
	 */
	workers_forget_all(&kvd);
	got = workers_ask(&a, SEED, n, 1);
	workers_assert_same(&cold, &got);
	harness_client_bye(&a);
	harness_client_bye(&b);
	assert_int_equal(harness_end(&kvd, SIGKILL), 128 + SIGKILL);
}

static void streams_go_on_beside_a_load(void **state)
{
	const uint32_t n = 200;

	start(NULL);
	start_workers(workers_tiny_model(&kvd), "page=16");
	harness_ask(&b, "beside 77 40 600 %u %u", SEED, n);
	assert_int_equal(harness_field(&b, "errors"), 0);
	uint64_t stream = harness_field(&b, "tokens"), second = harness_field(&b, "second");
	settle(n / 16);
	restart(SIGKILL, "--file-throttle=1MiB");
	/* Not cached: only its pages are computed anew. */
	harness_ask(&a, "beside 77 40 600 %u %u", SEED, n);
	assert_int_equal(harness_field(&a, "errors"), 0);
	assert_int_equal(harness_field(&a, "tokens"), stream);
	assert_int_equal(harness_field(&a, "second"), second);
	assert_int_equal(counter(KVD_C_LOADS_CHOSEN), 2);
	print_message("%llu tokens beside the load\n",
		      (unsigned long long)harness_field(&a, "between"));
	assert_true(harness_field(&a, "between") >= 5);
	end_all();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

TEST_MAIN(exact_tiers, TEST(tiny_model_pages_of_16), TEST(tiny_model_pages_of_64), TEST(real_model),
	  TEST(a_load_that_fails_in_its_middle), TEST(two_engines_want_the_same_cold_prefix),
	  TEST(a_slow_tier_is_not_waited_for), TEST(streams_go_on_beside_a_load))
