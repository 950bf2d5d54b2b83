/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file tier of a real daemon, on a real file: what leaves the pool comes back byte for byte,
 * over restarts and kills, and what does not come back is computed. The argument is the engine of
 * I/O; "forbidden" is what a container does: io_uring refused, and the daemon left to find out.
 */
#include "tests/e2e/tier_run.h"

#include "kvd/crash.h"
#include "tests/test.h"
#include <base/bits.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TEXT "1:2000"
#define TEXT_BLOCKS 125u
#define TEXT_TOKENS 2000u
#define KILL_ROUNDS 25

static struct tier_run run;
static const char *engine = "auto";
static const char *expected; /* the engine of I/O that it must be; NULL: any */

static int setup(void **state)
{
	tier_run_init(&run, engine);
	return 0;
}

static int teardown(void **state)
{
	tier_run_fini(&run);
	return 0;
}

/* The text is in the tier alone. */
static void make_cold(void)
{
	tier_run_text(&run, TEXT);
	tier_run_settle(&run, TEXT_BLOCKS);
	tier_run_push_out(&run);
	tier_run_settle(&run, TEXT_BLOCKS);
}

static void acquire_cold(void)
{
	harness_ask(&run.client, "acquire t " TEXT " 0 20000");
	assert_true(harness_is(&run.client, "ok"));
	assert_int_equal(harness_field(&run.client, "build"), TEXT_TOKENS);
	harness_ask(&run.client, "run t");
	assert_true(harness_is(&run.client, "ok"));
	harness_ask(&run.client, "verify t");
	assert_int_equal(harness_field(&run.client, "wrong"), 0);
	assert_int_equal(harness_field(&run.client, "tokens"), TEXT_TOKENS);
	harness_ask(&run.client, "release t");
}

static void test_what_leaves_the_pool_comes_back(void **state)
{
	tier_run_start(&run, NULL);
	struct kvd_area_stat a = tier_run_area(&run);
	if (expected)
		assert_string_equal(a.engine, expected);
	make_cold();
	assert_true(tier_run_counter(&run, KVD_C_DEMOTED_PAGES) >= TEXT_BLOCKS);
	acquire_cold();
	assert_int_equal(tier_run_counter(&run, KVD_C_LOADED_TOKENS), TEXT_TOKENS);
	assert_int_equal(tier_run_area(&run).hit_blocks, TEXT_BLOCKS);
	tier_run_end(&run, SIGTERM);
}

static void test_warm_after_a_restart(void **state)
{
	static const int signals[] = {SIGTERM, SIGKILL};

	for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
		tier_run_start(&run, NULL);
		tier_run_text(&run, TEXT);
		tier_run_settle(&run, TEXT_BLOCKS);
		/* Records are written a fraction of a second after what they are about. */
		usleep(600000);
		tier_run_end(&run, signals[i]);
		tier_run_start(&run, NULL);
		acquire_cold();
		assert_int_equal(tier_run_counter(&run, KVD_C_LOADED_TOKENS), TEXT_TOKENS);
		tier_run_end(&run, SIGTERM);
	}
}

/* --- what is not what it was ------------------------------------------------------------------ */

/* Flips a byte in each page of the data. */
static void spoil_file(uint32_t every)
{
	struct stat st;
	int fd = open(run.file, O_RDWR | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	uint8_t *map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(map != MAP_FAILED);
	/* Behind the journal, whatever its size: slots begin with a word of their own. */
	uint32_t found = 0;
	for (off_t at = 0; at + 8192 <= st.st_size; at += 4096)
		if (memcmp(map + at, "KVDSLOT\n", 8) == 0 || memcmp(map + at, "\nTOLSDVK", 8) == 0)
			if (found++ % every == 0)
				map[at + 4096 + 100] ^= 0x40;
	munmap(map, (size_t)st.st_size);
	close(fd);
	assert_true(found >= TEXT_BLOCKS);
}

static void test_rot_is_a_miss(void **state)
{
	tier_run_start(&run, NULL);
	make_cold();
	usleep(600000);
	tier_run_end(&run, SIGTERM);
	spoil_file(7);
	tier_run_start(&run, NULL);
	tier_run_text(&run, TEXT);
	assert_true(tier_run_counter(&run, KVD_C_LOST_TOKENS) > 0);
	assert_true(tier_run_area(&run).bad_blocks > 0);
	/* It was computed, and is stored anew. */
	tier_run_settle(&run, TEXT_BLOCKS);
	tier_run_push_out(&run);
	acquire_cold();
	tier_run_end(&run, SIGTERM);
}

/* --- kills ------------------------------------------------------------------------------------ */

static uint64_t seed_of_run(void)
{
	const char *text = getenv("KVD_TEST_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 10) : (uint64_t)getpid() * 7919;

	print_message("seed %llu (KVD_TEST_SEED repeats it)\n", (unsigned long long)seed);
	return seed;
}

/* KVD_TEST_ROUNDS: more of them than the suite has time for. */
static int rounds(void)
{
	const char *text = getenv("KVD_TEST_ROUNDS");

	return text ? atoi(text) : KILL_ROUNDS;
}

/* The same few texts in every life: what is found again must be what they say. */
static void test_killed_while_all_moves(void **state)
{
	uint64_t seed = seed_of_run();
	uint64_t loaded = 0;
	char text[32];

	for (int round = 0; round < rounds(); round++) {
		tier_run_start(&run, (const char *[]){"--index-max=4096", NULL});
		for (int i = 0; i < 4; i++) {
			snprintf(text, sizeof(text), "%u:%u",
				 (unsigned int)(test_random(&seed) % 6) + 1,
				 (unsigned int)(test_random(&seed) % 6000) + 500);
			tier_run_text(&run, text);
		}
		loaded += tier_run_counter(&run, KVD_C_LOADED_TOKENS);
		harness_send(&run.client, "random %u 100000", (unsigned int)test_random(&seed));
		usleep((useconds_t)(test_random(&seed) % 300000));
		tier_run_end(&run, SIGKILL);
	}
	print_message("%llu tokens came back\n", (unsigned long long)loaded);
	assert_true(loaded > 10000);
	tier_run_start(&run, NULL);
	harness_check(&run.kvd);
	tier_run_end(&run, SIGTERM);
}

#ifdef KVD_CRASH_POINTS
static bool is_of_files(const char *name)
{
	return strncmp(name, "slot_", 5) == 0 || strncmp(name, "journal_", 8) == 0 ||
	       strncmp(name, "checkpoint_", 11) == 0;
}

/* At the point's n-th passage, while it starts or while all moves: it must get there. */
static void dies_at(const char *name, int n)
{
	char at[64];

	snprintf(at, sizeof(at), "%s:%d", name, n);
	setenv("KVD_CRASH_AT", at, 1);
	bool ready = harness_try_start(&run.kvd,
				       (const char *[]){"--pool-bytes=2MiB", "--session-share=100",
							run.option, "--file-bytes=256MiB",
							"--file-store=all", run.aio, NULL});
	unsetenv("KVD_CRASH_AT");
	if (ready) {
		harness_client(&run.client, &run.kvd, NULL, NULL);
		harness_send(&run.client, "random 7 1000000");
	}
	int status = harness_end(&run.kvd, 0);
	harness_client_end(&run.client, SIGKILL);
	print_message("%s: %s\n", at, ready ? "at work" : "at start");
	assert_int_equal(status, 128 + SIGKILL);
}

/*
 * At each named point of writing slots, journal and checkpoints: what is found is what was put.
 * Others' blocks may have made room for more meanwhile, and records of that may be lost with the
 * daemon: then a slot has another block than the journal says, which is a miss.
 */
static void test_dies_at_each_point(void **state)
{
	uint64_t loaded = 0;

	for (int i = 0; i < CRASH_COUNT; i++) {
		if (!is_of_files(crash_name(i)))
			continue;
		for (int n = 1; n <= 4; n += 3) {
			/* So many blocks that a checkpoint has more than one slice. */
			tier_run_start(&run, NULL);
			make_cold();
			tier_run_end(&run, SIGTERM);
			dies_at(crash_name(i), n);
			tier_run_start(&run, NULL);
			tier_run_text(&run, TEXT);
			loaded += tier_run_counter(&run, KVD_C_LOADED_TOKENS);
			harness_ask(&run.client, "random 7 300");
			assert_int_equal(harness_field(&run.client, "wrong"), 0);
			harness_check(&run.kvd);
			tier_run_end(&run, SIGTERM);
		}
	}
	assert_true(loaded >= TEXT_TOKENS);
}
#endif

/* --- files that cannot be used ---------------------------------------------------------------- */

static void test_files_that_are_refused(void **state)
{
	struct harness_kvd other;
	char link[160], option[200], state_dir[128], socket[128];

	tier_run_start(&run, NULL);
	harness_init(&other);
	snprintf(state_dir, sizeof(state_dir), "--state-dir=%s", other.dir);
	snprintf(socket, sizeof(socket), "--socket=%s", other.socket);
	const char *second[] = {"--pool-bytes=2MiB",   socket, state_dir, run.option,
				"--file-bytes=256MiB", NULL};
	assert_int_not_equal(harness_run(&other, second), 0);
	assert_true(harness_log_has(&other, "another kvd"));
	tier_run_end(&run, SIGTERM);

	snprintf(link, sizeof(link), "%s/link", other.dir);
	assert_int_equal(symlink(run.file, link), 0);
	snprintf(option, sizeof(option), "--file=%s", link);
	second[3] = option;
	assert_int_not_equal(harness_run(&other, second), 0);
	assert_true(harness_log_has(&other, "link"));

	int fd = open(run.file, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 100 << 20), 0);
	close(fd);
	second[3] = run.option;
	assert_int_not_equal(harness_run(&other, second), 0);
	assert_true(harness_log_has(&other, run.file));
	assert_int_equal(access(run.file, F_OK), 0);
	harness_fini(&other);
}

/* --- the decision ----------------------------------------------------------------------------- */

/* A tier that is slower than computing is not asked: the same text, the same tier, throttled. */
static void test_slow_tier_is_passed_over(void **state)
{
	tier_run_start(&run, NULL);
	harness_ask(&run.client, "rate 20000");
	make_cold();
	acquire_cold();
	assert_int_equal(tier_run_counter(&run, KVD_C_COMPUTES_CHOSEN), 0);
	tier_run_end(&run, SIGTERM);

	tier_run_start(&run, (const char *[]){"--file-throttle=400KiB", NULL});
	harness_ask(&run.client, "rate 20000");
	/* The first load measures. */
	tier_run_text(&run, TEXT);
	uint64_t chosen = tier_run_counter(&run, KVD_C_LOADS_CHOSEN);
	assert_int_equal(chosen, 1);
	tier_run_push_out(&run);
	tier_run_text(&run, TEXT);
	assert_true(tier_run_counter(&run, KVD_C_COMPUTES_CHOSEN) > 0);
	assert_true(tier_run_counter(&run, KVD_C_RECOMPUTED_TOKENS) >= TEXT_TOKENS);
	tier_run_end(&run, SIGTERM);
}

/* --- io_uring that is forbidden ----------------------------------------------------------------
 */

static void forbid_io_uring(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = ARRAY_LEN(filter), .filter = filter};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0) {
		fprintf(stderr, "seccomp: %s\n", strerror(errno));
		exit(1);
	}
}

/* A container may forbid it: then there is nothing to test. */
static bool io_uring_allowed(void)
{
	struct io_uring_params params = {0};
	long fd = syscall(SYS_io_uring_setup, 4, &params);

	if (fd >= 0)
		close((int)fd);
	return fd >= 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_what_leaves_the_pool_comes_back, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_warm_after_a_restart, setup, teardown),
		cmocka_unit_test_setup_teardown(test_rot_is_a_miss, setup, teardown),
		cmocka_unit_test_setup_teardown(test_killed_while_all_moves, setup, teardown),
#ifdef KVD_CRASH_POINTS
		cmocka_unit_test_setup_teardown(test_dies_at_each_point, setup, teardown),
#endif
		cmocka_unit_test_setup_teardown(test_files_that_are_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_slow_tier_is_passed_over, setup, teardown),
	};

	if (argc > 1)
		expected = engine = argv[1];
	if (strcmp(engine, "io_uring") == 0 && !io_uring_allowed()) {
		fprintf(stderr, "skipped: the kernel refuses io_uring: %s\n", strerror(errno));
		return 77;
	}
	if (strcmp(engine, "forbidden") == 0) {
		forbid_io_uring();
		engine = "auto";
		expected = "threads";
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
