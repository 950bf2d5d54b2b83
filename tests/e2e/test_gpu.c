/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kvd with its slabs on a (simulated) GPU, clients that import them: pages are shared, whoever dies
 * in whatever state hurts nobody and leaks nothing, slabs change hands only when nobody maps them,
 * and what cannot work is said in words. The kind of memory is the program's argument. After each
 * test the logs must not hold a word of misuse: memory freed under an import, say.
 */
#include "base/bits.h"
#include "base/units.h"
#include "kvd/crash.h"
#include "tests/cudasim/tests/own_machine.h"
#include "tests/e2e/harness.h"
#include "tests/test.h"
#include <errno.h>
#include <kvd.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#define CLIENTS 3
#define ROUNDS 30

static const char *kind;
static bool is_ipc;
static char memory[48];
static struct harness_kvd kvd;
static struct harness_client clients[CLIENTS];

static int setup(void **state)
{
	setenv("PRF_GPU", "0", 1);
	harness_init(&kvd);
	return 0;
}

static int teardown(void **state)
{
	bool misuse;

	for (int i = 0; i < CLIENTS; i++)
		harness_client_end(&clients[i], SIGKILL);
	if (kvd.pid)
		assert_int_equal(harness_end(&kvd, SIGTERM), 0);
	misuse = harness_log_has(&kvd, "cudasim: misuse");
	harness_fini(&kvd);
	return misuse ? -1 : 0;
}

#define OK(client, ...)                                                                            \
	do {                                                                                       \
		harness_ask(client, __VA_ARGS__);                                                  \
		assert_true(harness_is(client, "ok"));                                             \
	} while (0)

/* With up to four options of one's own. */
static void start(const char *a, const char *b, const char *c)
{
	harness_start(&kvd, (const char *[]){memory, "--devices=0", a, a ? b : NULL,
					     a && b ? c : NULL, NULL});
}

static void start_with_two(void)
{
	start(NULL, NULL, NULL);
	for (int i = 0; i < 2; i++) {
		harness_client(&clients[i], &kvd, NULL, NULL);
		assert_true(harness_is(&clients[i], "ok"));
	}
}

static void verified(struct harness_client *x, const char *lease, uint64_t tokens)
{
	OK(x, "verify %s", lease);
	assert_int_equal(harness_field(x, "wrong"), 0);
	assert_int_equal(harness_field(x, "tokens"), tokens);
}

static uint64_t figure_quarantine(const struct kvd_status *s)
{
	return s->pages_by_state[KVD_PAGE_QUARANTINE];
}

static uint64_t figure_slab_bytes(const struct kvd_status *s)
{
	return s->slab_bytes;
}

static void test_two_share_pages(void **state)
{
	static struct kvd_status s;

	start_with_two();
	OK(&clients[0], "acquire x 1:200");
	OK(&clients[0], "run x");
	for (int n = 200; n > 0; n -= 37) {
		OK(&clients[1], "acquire y 1:%d", n);
		assert_int_equal(harness_field(&clients[1], "cached"), n / 16 * 16);
		OK(&clients[1], "run y");
		verified(&clients[1], "y", (uint64_t)n);
		OK(&clients[1], "release y");
	}
	/* Tails and forks are copies on the device. */
	OK(&clients[0], "decode x 9:21");
	OK(&clients[0], "fork x z");
	OK(&clients[0], "run z");
	verified(&clients[0], "z", 221);
	OK(&clients[0], "release z tail");
	OK(&clients[0], "release x tail");
	harness_quiet(&kvd, 2);
	harness_status(&kvd, &s);
	assert_string_equal(s.device_memory, kind);
	assert_true(harness_log_gets(&kvd, "device 0: cuda-"));
}

/* Who reads a page before it was written reads NaN, also where another wrote before. */
static void test_poison(void **state)
{
#ifdef NDEBUG
	skip();
#endif
	setenv("KVD_POISON", "1", 1);
	start("--pool-bytes=2MiB", "--session-share=100", NULL);
	harness_client_sized(&clients[0], &kvd, NULL, NULL, 16, 256 << 10);
	unsetenv("KVD_POISON");
	/* Eight pages: the second round has those of the first. */
	for (int round = 0; round < 2; round++) {
		OK(&clients[0], "acquire x %d:112 0 5000 %d", round, KVD_ACQUIRE_NO_HIT);
		for (int block = 0; block < 7; block++) {
			OK(&clients[0], "peek x %d", block);
			assert_true(harness_field(&clients[0], "word") == UINT64_MAX);
		}
		OK(&clients[0], "run x");
		verified(&clients[0], "x", 112);
		OK(&clients[0], "release x");
	}
	harness_quiet(&kvd, 1);
}

/* One follows while the other computes. */
static void test_following(void **state)
{
	start_with_two();
	OK(&clients[0], "patience 10000 2000");
	OK(&clients[0], "acquire x 5:320");
	OK(&clients[1], "acquire x 5:320");
	harness_send(&clients[1], "run x");
	OK(&clients[0], "run x");
	harness_answer(&clients[1]);
	assert_true(harness_is(&clients[1], "ok"));
	verified(&clients[1], "x", 320);
	OK(&clients[0], "release x");
	OK(&clients[1], "release x");
	harness_quiet(&kvd, 2);
}

static void begin(int i, uint64_t *seed)
{
	harness_client(&clients[i], &kvd, NULL, NULL);
	assert_true(harness_is(&clients[i], "ok"));
	OK(&clients[i], "patience 100 300");
	harness_send(&clients[i], "random %u 100000", (unsigned int)test_random(seed));
}

static void test_clients_die_while_all_work(void **state)
{
	uint64_t seed = 11;

	start("--pool-bytes=4MiB", "--session-share=60", "--device-grace=5ms");
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
	harness_client(&clients[0], &kvd, NULL, NULL);
	OK(&clients[0], "random 1 100");
	assert_int_equal(harness_field(&clients[0], "wrong"), 0);
	harness_client_bye(&clients[0]);
	harness_quiet(&kvd, 0);
}

/* Dies having done so much, beside one that maps the same slabs and goes on with them. */
static void test_a_client_dies_in_each_state(void **state)
{
	static const char *const lives[][5] = {
		{NULL},
		{"acquire x 1:200"},
		{"acquire x 1:200", "compute x 3"},
		{"acquire x 1:200", "run x"},
		{"acquire x 1:200", "run x", "topup 2"},
		{"acquire x 1:200", "run x", "decode x 9:20"},
		{"acquire x 1:200", "run x", "fork x y"},
		{"acquire x 1:200", "run x", "release x tail", "acquire y 1:207+3:40"},
		{"acquire x 5:320+6:10"},
	};
	struct harness_client *alive = &clients[1];

	start("--device-grace=5ms", NULL, NULL);
	harness_client(alive, &kvd, NULL, NULL);
	OK(alive, "acquire z 5:320");
	OK(alive, "compute z 7");
	for (size_t i = 0; i < ARRAY_LEN(lives); i++) {
		harness_client(&clients[0], &kvd, NULL, NULL);
		for (int n = 0; lives[i][n]; n++)
			OK(&clients[0], "%s", lives[i][n]);
		harness_client_end(&clients[0], SIGKILL);
		harness_wait_figure(&kvd, figure_quarantine, 0);
		harness_check(&kvd);
		verified(alive, "z", 112);
	}
	OK(alive, "run z");
	verified(alive, "z", 320);
	harness_client_bye(alive);
	harness_quiet(&kvd, 0);
}

/* Killed by its own GPU work, in the midst of a copy into a page. */
static void test_a_client_dies_within_a_copy(void **state)
{
	start("--device-grace=5ms", NULL, NULL);
	for (int n = 1; n <= 6; n++) {
		char die[32];
		snprintf(die, sizeof(die), "memcpy:%d", n);
		setenv("CUDASIM_DIE", die, 1);
		harness_client(&clients[0], &kvd, NULL, NULL);
		unsetenv("CUDASIM_DIE");
		OK(&clients[0], "acquire x %d:200", n);
		harness_ask(&clients[0], "run x");
		assert_true(harness_is(&clients[0], "eof"));
		harness_client_end(&clients[0], SIGKILL);
		harness_quiet(&kvd, 0);
		harness_client(&clients[1], &kvd, NULL, NULL);
		OK(&clients[1], "acquire x %d:200", n);
		assert_int_equal(harness_field(&clients[1], "cached"), (n - 1) * 16);
		OK(&clients[1], "run x");
		verified(&clients[1], "x", 200);
		harness_client_bye(&clients[1]);
	}
}

/* kvd's context is lost: it makes no more slabs, and engines go on with those that they map. */
static void test_kvd_loses_its_gpu(void **state)
{
	setenv("CUDASIM_FAIL", is_ipc ? "malloc:2=719" : "vmmcreate:2=719", 1);
	start("--pool-bytes=4MiB", "--session-share=100", NULL);
	unsetenv("CUDASIM_FAIL");
	harness_client(&clients[0], &kvd, NULL, NULL);
	harness_client_sized(&clients[1], &kvd, NULL, NULL, 16, 64 << 10);
	OK(&clients[0], "acquire x 1:100");
	OK(&clients[0], "run x");
	harness_ask(&clients[1], "acquire y 2:200 0 500");
	assert_true(harness_is(&clients[1], "full"));
	assert_true(harness_log_gets(&kvd, "a slab cannot be allocated"));
	OK(&clients[0], "decode x 4:30");
	verified(&clients[0], "x", 130);
	OK(&clients[0], "release x");
	harness_check(&kvd);
}

/* Its pages wait although the process is dead, until the grace is over. */
static void test_pages_of_the_dead_wait(void **state)
{
	start("--device-grace=3s", NULL, NULL);
	harness_client(&clients[0], &kvd, NULL, NULL);
	OK(&clients[0], "acquire x 1:200");
	OK(&clients[0], "compute x 3");
	uint64_t killed_ns = units_now_ns();
	harness_client_end(&clients[0], SIGKILL);
	/* Ten of thirteen blocks were not sealed, and one for decoding. */
	harness_wait_figure(&kvd, figure_quarantine, 11);
	harness_wait_figure(&kvd, figure_quarantine, 0);
	assert_true(units_now_ns() - killed_ns >= 3 * UNITS_NS_PER_S);
	harness_quiet(&kvd, 0);
}

/* As long as the driver lists it, the dead process may still write. */
static void start_with_nvml(const char *list, const char *option)
{
	char *before = strdup(getenv("LD_LIBRARY_PATH") ? getenv("LD_LIBRARY_PATH") : "");
	char path[1024];

	setenv("FAKE_NVML_PIDS", list, 1);
	snprintf(path, sizeof(path), "%s:%s", getenv("FAKE_NVML_DIR"), before);
	setenv("LD_LIBRARY_PATH", path, 1);
	start(option, NULL, NULL);
	setenv("LD_LIBRARY_PATH", before, 1);
	unsetenv("FAKE_NVML_PIDS");
	free(before);
}

static void test_pages_wait_for_the_drivers_word(void **state)
{
	char list[128];
	FILE *f;

	snprintf(list, sizeof(list), "%s/pids", kvd.dir);
	f = fopen(list, "we");
	assert_non_null(f);
	start_with_nvml(list, "--device-grace=1ms");
	harness_client(&clients[0], &kvd, NULL, NULL);
	fprintf(f, "%d\n", clients[0].pid);
	fclose(f);
	OK(&clients[0], "acquire x 1:200");
	harness_client_end(&clients[0], SIGKILL);
	harness_wait_figure(&kvd, figure_quarantine, 14);
	usleep(200000);
	harness_wait_figure(&kvd, figure_quarantine, 14);
	assert_int_equal(truncate(list, 0), 0);
	harness_wait_figure(&kvd, figure_quarantine, 0);
	harness_quiet(&kvd, 0);
}

/* Nobody but the pages of the dead waits for a driver that does not answer, at the end neither. */
static void test_a_driver_that_does_not_say_who_runs(void **state)
{
	char list[128];

	snprintf(list, sizeof(list), "%s/pids", kvd.dir);
	start_with_nvml(list, "--workers=1");
	/* From here on the answer is read from a pipe that has none. */
	harness_client(&clients[0], &kvd, NULL, NULL);
	OK(&clients[0], "acquire x 1:200");
	assert_int_equal(mkfifo(list, 0600), 0);
	harness_client_end(&clients[0], SIGKILL);
	harness_wait_figure(&kvd, figure_quarantine, 14);
	harness_client(&clients[1], &kvd, NULL, NULL);
	OK(&clients[1], "acquire x 2:200");
	OK(&clients[1], "run x");
	verified(&clients[1], "x", 200);
	harness_client_bye(&clients[1]);
	assert_int_equal(harness_end(&kvd, SIGTERM), 0);
	assert_true(harness_log_gets(&kvd, "a call to a GPU's driver does not end"));
}

/* Maps outlive the daemon: what clients hold they can go on reading and writing. */
static void test_kvd_dies_with_imports_open(void **state)
{
	start_with_two();
	OK(&clients[0], "acquire x 1:200");
	OK(&clients[0], "run x");
	OK(&clients[1], "acquire x 1:200");
	OK(&clients[1], "run x");
	assert_int_equal(harness_end(&kvd, SIGKILL), 128 + SIGKILL);
	for (int i = 0; i < 2; i++) {
		OK(&clients[i], "gone");
		assert_int_equal(harness_field(&clients[i], "gone"), 1);
		verified(&clients[i], "x", 200);
	}
	/* The next one starts beside what they still map. */
	start(NULL, NULL, NULL);
	harness_client(&clients[2], &kvd, NULL, NULL);
	OK(&clients[2], "acquire x 1:200");
	assert_int_equal(harness_field(&clients[2], "cached"), 0);
	OK(&clients[2], "run x");
	verified(&clients[2], "x", 200);
	harness_client_end(&clients[0], SIGKILL);
	harness_client_end(&clients[1], 0);
	verified(&clients[2], "x", 200);
	harness_client_bye(&clients[2]);
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
	char at[64];

	snprintf(at, sizeof(at), "%s:%d", crash_name(point), point == CRASH_status_odd ? 2 : 1);
	setenv("KVD_CRASH_AT", at, 1);
	start("--pool-bytes=2MiB", "--session-share=100", NULL);
	unsetenv("KVD_CRASH_AT");
	if (point == CRASH_stopping) {
		assert_int_equal(harness_end(&kvd, SIGTERM), 128 + SIGKILL);
		return;
	}
	harness_client(&clients[0], &kvd, NULL, NULL);
	if (strncmp(clients[0].line, "ok", 2) == 0)
		provoke(&clients[1]);
	assert_int_equal(harness_end(&kvd, SIGTERM), 128 + SIGKILL);
	harness_client_end(&clients[0], SIGKILL);
	harness_client_end(&clients[1], SIGKILL);
}

static void test_kvd_dies_at_every_point(void **state)
{
#ifndef KVD_CRASH_POINTS
	skip();
#endif
	/* What stands behind is the file tier's. */
	for (int point = 0; point < CRASH_journal_write; point++) {
		print_message("at %s\n", crash_name(point));
		die_at(point);
		start(NULL, NULL, NULL);
		harness_client(&clients[0], &kvd, NULL, NULL);
		OK(&clients[0], "random 5 30");
		assert_int_equal(harness_field(&clients[0], "wrong"), 0);
		harness_client_bye(&clients[0]);
		harness_quiet(&kvd, 0);
		assert_int_equal(harness_end(&kvd, SIGTERM), 0);
	}
}

/* Two sizes of page want one pool in turn; idle clients say SLAB_GONE when they are asked. */
static void test_slabs_change_hands(void **state)
{
	struct harness_client *small = &clients[0], *big = &clients[1];

	start("--pool-bytes=2MiB", "--session-share=100", NULL);
	harness_client(small, &kvd, NULL, NULL);
	harness_client_sized(big, &kvd, NULL, NULL, 16, 64 << 10);
	for (int round = 0; round < 3; round++) {
		OK(small, "acquire x %d:100 1 10000", 100 + round);
		OK(small, "run x");
		verified(small, "x", 100);
		OK(small, "release x");
		OK(big, "acquire y %d:400 0 10000", 200 + round);
		OK(big, "run y");
		verified(big, "y", 400);
		OK(big, "release y");
	}
	assert_false(harness_log_has(&kvd, "importers have not unmapped it"));
	harness_quiet(&kvd, 2);
}

/* A client that is stopped says nothing: its slab waits for its death, however long that takes. */
static void test_a_slab_waits_for_a_stopped_importer(void **state)
{
	struct harness_client *small = &clients[0], *big = &clients[1];

	start("--pool-bytes=2MiB", "--session-share=100", "--device-grace=5ms");
	harness_client(small, &kvd, NULL, NULL);
	harness_client_sized(big, &kvd, NULL, NULL, 16, 64 << 10);
	OK(small, "acquire x 1:100 1");
	OK(small, "run x");
	OK(small, "release x");
	harness_quiet(&kvd, 2);
	kill(small->pid, SIGSTOP);
	/* Beyond the 5 s after which kvd takes a slab by force. */
	harness_ask(big, "acquire y 2:400 0 7000");
	assert_true(harness_is(big, "full"));
	assert_true(harness_log_gets(&kvd, "1 importers have not unmapped it"));
	harness_wait_figure(&kvd, figure_slab_bytes, 2 * UNITS_MIB);
	harness_client_end(small, SIGKILL);
	OK(big, "acquire y 2:400 0 10000");
	OK(big, "run y");
	verified(big, "y", 400);
	harness_client_bye(big);
	harness_quiet(&kvd, 0);
}

static void refused(const char *words)
{
	harness_client(&clients[0], &kvd, NULL, NULL);
	if (!strstr(clients[0].line, words))
		fail_msg("'%s' is not in: %s", words, clients[0].line);
	harness_client_end(&clients[0], 0);
}

static void test_engines_on_other_devices(void **state)
{
	setenv("CUDA_VISIBLE_DEVICES", "1", 1);
	start(NULL, NULL, NULL);
	setenv("CUDA_VISIBLE_DEVICES", "0", 1);
	refused("kvd's pages lie on GPU-");
	/* The second here is kvd's first. */
	setenv("CUDA_VISIBLE_DEVICES", "0,1", 1);
	setenv("PRF_GPU", "1", 1);
	harness_client(&clients[0], &kvd, NULL, NULL);
	OK(&clients[0], "acquire x 1:50");
	OK(&clients[0], "run x");
	verified(&clients[0], "x", 50);
	harness_client_bye(&clients[0]);
	unsetenv("CUDA_VISIBLE_DEVICES");
	unsetenv("PRF_GPU");
	refused("this engine computes on the CPU");
	setenv("PRF_GPU", "1", 1);
	setenv("PRF_DEVICE", "77", 1);
	refused("ENODEV");
	unsetenv("PRF_DEVICE");
	harness_quiet(&kvd, 0);
	assert_int_equal(harness_end(&kvd, SIGTERM), 0);
	harness_start(&kvd, (const char *[]){"--device-memory=host", NULL});
	refused("kvd's pages lie in host memory");
}

/* A program that only knows host memory is told so at its first page. */
static void test_client_without_map_operations(void **state)
{
	static const uint32_t tokens[40];
	struct kvd_options o = {.socket_path = kvd.socket};
	struct kvd_format_args f = {.page_tokens = 16,
				    .part_count = 1,
				    .parts[0] = {.page_bytes = 4096, .align = 64},
				    .layout = "prf"};
	struct kvd_acquire_args a = {.tokens = tokens, .token_count = 40, .deadline_ms = 5000};
	struct kvd_event event = {0};
	struct kvd_lease *lease;
	struct kvd *k;

	start(NULL, NULL, NULL);
	assert_int_equal(kvd_open(&o, &k), 0);
	assert_int_equal(kvd_format(k, &f, &a.format), 0);
	assert_int_equal(kvd_acquire(k, &a, &lease), 0);
	while (kvd_wait(k, 10 * UNITS_NS_PER_S, &event, 1) == 0)
		continue;
	assert_int_equal(event.result, -ENOTSUP);
	assert_non_null(strstr(kvd_last_error(), "has no map operations"));
	kvd_close(k);
	harness_quiet(&kvd, 0);
}

/* Each client's pages are on its own GPU, over one kvd. */
static void test_two_gpus(void **state)
{
	harness_start(&kvd, (const char *[]){memory, "--pool-bytes=16MiB", NULL});
	assert_true(harness_log_gets(&kvd, "device 1: cuda-"));
	for (int i = 0; i < 2; i++) {
		setenv("PRF_GPU", i ? "1" : "0", 1);
		harness_client_sized(&clients[i], &kvd, NULL, NULL, 16, i ? 8192 : 4096);
		OK(&clients[i], "acquire x %d:100", i);
		OK(&clients[i], "run x");
	}
	for (int i = 0; i < 2; i++)
		verified(&clients[i], "x", 100);
	for (int i = 0; i < 2; i++)
		harness_client_bye(&clients[i]);
	harness_quiet(&kvd, 0);
}

/* The first makes a slab, the call for the second's never ends: only who needs it waits. */
static void test_a_driver_that_hangs(void **state)
{
	setenv("CUDASIM_HANG", is_ipc ? "malloc:2" : "vmmcreate:2", 1);
	start("--pool-bytes=4MiB", "--session-share=100", "--device-timeout=300ms");
	unsetenv("CUDASIM_HANG");
	harness_client(&clients[0], &kvd, NULL, NULL);
	harness_client_sized(&clients[1], &kvd, NULL, NULL, 16, 64 << 10);
	OK(&clients[0], "acquire x 1:100");
	OK(&clients[0], "run x");
	harness_ask(&clients[1], "acquire y 2:200 0 500");
	assert_true(harness_is(&clients[1], "full"));
	for (int i = 0; i < 2; i++)
		OK(&clients[i], "stat");
	verified(&clients[0], "x", 100);
	OK(&clients[0], "release x");
	harness_check(&kvd);
	uint64_t start_ns = units_now_ns();
	assert_int_equal(harness_end(&kvd, SIGTERM), 0);
	assert_true(units_now_ns() - start_ns < 10 * UNITS_NS_PER_S);
	assert_true(harness_log_gets(&kvd, "does not end"));
}

static void test_memory_that_does_not_fit(void **state)
{
	setenv("CUDASIM_MEMORY_BYTES", "8M", 1);
	start("--pool-bytes=16MiB", "--session-share=100", NULL);
	harness_client_sized(&clients[0], &kvd, NULL, NULL, 16, 64 << 10);
	OK(&clients[0], "acquire x 1:16 0 1000");
	OK(&clients[0], "run x");
	harness_ask(&clients[0], "acquire y 2:3000 0 500");
	assert_true(harness_is(&clients[0], "full"));
	verified(&clients[0], "x", 16);
	unsetenv("CUDASIM_MEMORY_BYTES");
	assert_true(harness_log_gets(&kvd, " asked, "));
	assert_true(harness_log_gets(&kvd, "the largest that fits is "));
	harness_client_bye(&clients[0]);
	harness_quiet(&kvd, 0);
}

static int run_with(const char *device_memory)
{
	return harness_run(&kvd, (const char *[]){"--check-config", device_memory, NULL});
}

static void test_starts_that_cannot_be(void **state)
{
	setenv("CUDASIM_DEVICES", "0", 1);
	assert_int_equal(run_with(memory), 2);
	assert_true(harness_log_gets(&kvd, "there is no NVIDIA driver here"));
	assert_int_equal(run_with("--device-memory=auto"), 0);
	unsetenv("CUDASIM_DEVICES");
	assert_int_equal(harness_run(&kvd, (const char *[]){"--check-config", memory,
							    "--devices=0,5", NULL}),
			 2);
	assert_true(harness_log_gets(&kvd, "there is no GPU '5'"));
	assert_int_equal(harness_run(&kvd, (const char *[]){"--check-config", memory,
							    "--devices=1,1", NULL}),
			 2);
	assert_true(harness_log_gets(&kvd, "GPU 1 is named twice"));
	assert_int_equal(
		harness_run(&kvd, (const char *[]){"--check-config", "--device-memory=host",
						   "--devices=0", NULL}),
		2);
}

/* Which of the kinds `auto` takes. */
static void takes(const char *setting, const char *value, const char *expected)
{
	static struct kvd_status s;

	if (setting)
		setenv(setting, value, 1);
	harness_start(&kvd, (const char *[]){"--device-memory=auto", NULL});
	if (setting)
		unsetenv(setting);
	harness_status(&kvd, &s);
	assert_string_equal(s.device_memory, expected);
	assert_int_equal(harness_end(&kvd, SIGTERM), 0);
}

static void test_auto(void **state)
{
	takes(NULL, NULL, "cuda-ipc");
	takes("CUDASIM_MIG", "1", "cuda-vmm");
	assert_true(harness_log_gets(&kvd, "auto takes cuda-vmm"));
	takes("CUDASIM_DEVICES", "0", "host");
	assert_true(harness_log_gets(&kvd, "auto takes host"));
	char *dir = strdup(getenv("KVD_MODULE_DIR"));
	setenv("KVD_MODULE_DIR", "/nonexistent", 1);
	takes(NULL, NULL, "host");
	assert_int_equal(run_with(memory), 2);
	assert_true(harness_log_gets(&kvd, "there is no module /nonexistent/libkvd-mem-cuda.so"));
	setenv("KVD_MODULE_DIR", dir, 1);
	free(dir);
}

/* Programs that start anywhere name no library of CUDA: only modules do. */
static void test_programs_link_no_cuda(void **state)
{
	static const char *const programs[] = {"KVD_BIN", "KVENGINE_BIN", "KVCTL_BIN"};

	for (size_t i = 0; i < ARRAY_LEN(programs); i++) {
		char command[1024], line[512];
		int lines = 0;
		snprintf(command, sizeof(command), "ldd '%s'", getenv(programs[i]));
		FILE *f = popen(command, "r");
		assert_non_null(f);
		for (; fgets(line, sizeof(line), f); lines++) {
			/* Its name: where it was found may be called anything. */
			line[strcspn(line, "=(")] = '\0';
			if (strcasestr(line, "cuda") || strcasestr(line, "nvidia"))
				fail_msg("%s: %s", programs[i], line);
		}
		assert_int_equal(pclose(f), 0);
		assert_true(lines > 1);
	}
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(test_two_share_pages),
		TEST(test_poison),
		TEST(test_following),
		TEST(test_clients_die_while_all_work),
		TEST(test_a_client_dies_in_each_state),
		TEST(test_a_client_dies_within_a_copy),
		TEST(test_kvd_loses_its_gpu),
		TEST(test_pages_of_the_dead_wait),
		TEST(test_pages_wait_for_the_drivers_word),
		TEST(test_a_driver_that_does_not_say_who_runs),
		TEST(test_kvd_dies_with_imports_open),
		TEST(test_kvd_dies_at_every_point),
		TEST(test_slabs_change_hands),
		TEST(test_a_slab_waits_for_a_stopped_importer),
		TEST(test_engines_on_other_devices),
		TEST(test_client_without_map_operations),
		TEST(test_two_gpus),
		TEST(test_a_driver_that_hangs),
		TEST(test_memory_that_does_not_fit),
		TEST(test_starts_that_cannot_be),
		TEST(test_auto),
		cmocka_unit_test(test_programs_link_no_cuda),
	};

	if (argc != 2) {
		fprintf(stderr, "usage: %s cuda-ipc|cuda-vmm\n", argv[0]);
		return 2;
	}
	kind = argv[1];
	is_ipc = strcmp(kind, "cuda-ipc") == 0;
	snprintf(memory, sizeof(memory), "--device-memory=%s", kind);
	own_machine_begin();
	int r = cmocka_run_group_tests_name(kind, tests, NULL, NULL);
	own_machine_end();
	return r;
}
