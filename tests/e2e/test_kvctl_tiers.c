/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kvctl makes of a daemon's tiers. The status file is the test's own, and so is the process
 * that it names: figures and ages of kvd can be had that no daemon of today would write.
 */
#include "tests/e2e/kvctl_run.h"
#include "tests/test.h"
#include <errno.h>
#include <fcntl.h>
#include <kvd.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GIB (1ull << 30)
#define MINOR_1_BYTES offsetof(struct kvd_status, area_count)

static struct harness_kvd kvd;

static int setup(void **state)
{
	harness_init(&kvd);
	kvctl_init(&kvd);
	return 0;
}

static int teardown(void **state)
{
	kvctl_fini();
	harness_fini(&kvd);
	return 0;
}

static void status_write(const struct kvd_status *s, size_t bytes)
{
	int fd = kvctl_file("kvd.status", O_WRONLY | O_CREAT | O_TRUNC);

	assert_int_equal(write(fd, s, bytes), bytes);
	close(fd);
}

/* A living daemon's, with the DRAM and two files; the second is broken. */
static struct kvd_status *status_of_tiers(void)
{
	static struct kvd_status s;

	s = (struct kvd_status){.magic = KVD_STATUS_MAGIC,
				.major = KVD_ABI_MAJOR,
				.minor = KVD_ABI_MINOR,
				.pid = (uint32_t)getpid(),
				.pid_start_ticks = kvctl_start_ticks(),
				.nonce = 7,
				.pool_bytes = GIB,
				.area_count = 3};
	s.areas[0] = (struct kvd_area_stat){.tier = KVD_TIER_DRAM,
					    .bytes = 2 * GIB,
					    .used_bytes = GIB / 2,
					    .blocks = 11,
					    .engine = "memory"};
	s.areas[1] = (struct kvd_area_stat){.tier = KVD_TIER_FILE,
					    .queue = 5,
					    .bytes = 100 * GIB,
					    .used_bytes = 3 * GIB,
					    .blocks = 1234,
					    .hit_blocks = 77,
					    .loads = 88,
					    .stores = 99,
					    .loaded_bytes = 111,
					    .stored_bytes = 222,
					    .dropped_blocks = 333,
					    .load_bytes_per_s = 3 * GIB / 2,
					    .store_bytes_per_s = GIB,
					    .load_peak_bytes_per_s = 4 * GIB,
					    .store_peak_bytes_per_s = 2 * GIB,
					    .engine = "io_uring"};
	snprintf(s.areas[1].path, sizeof(s.areas[1].path), "%s/one", kvd.dir);
	s.areas[2] = (struct kvd_area_stat){.tier = KVD_TIER_FILE,
					    .area = 1,
					    .state = KVD_AREA_DEGRADED,
					    .errors = 3,
					    .bad_blocks = 2,
					    .engine = "threads",
					    .path = "/a \"b\\\x1b[1m/two"};
	s.counters[KVD_C_LOADS_CHOSEN] = 40;
	s.counters[KVD_C_COMPUTES_CHOSEN] = 4;
	s.counters[KVD_C_LOAD_ESTIMATE_NS] = 2000000000;
	s.counters[KVD_C_LOAD_ACTUAL_NS] = 2500000000;
	s.counters[KVD_C_LOADED_TOKENS] = 4000;
	s.counters[KVD_C_PREFETCHED_TOKENS] = 300;
	s.counters[KVD_C_RECOMPUTED_TOKENS] = 200;
	s.counters[KVD_C_LOST_TOKENS] = 16;
	s.counters[KVD_C_DEMOTED_PAGES] = 60;
	s.counters[KVD_C_EVICTED_PAGES] = 70;
	s.counters[KVD_C_UNSTORED_BLOCKS] = 9;
	return &s;
}

/* The line of the text that begins with these words. */
static const char *line_of(const char *text, const char *words)
{
	static char line[512];

	for (const char *at = text; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : "") {
		if (strncmp(at, words, strlen(words)) != 0)
			continue;
		snprintf(line, sizeof(line), "%.*s", (int)strcspn(at, "\n"), at);
		return line;
	}
	fail_msg("no line '%s' in:\n%s", words, text);
	return NULL;
}

static void test_text(void **state)
{
	struct kvd_status *s = status_of_tiers();

	status_write(s, sizeof(*s));
	assert_int_equal(kvctl_run("tiers"), 0);
	assert_string_equal(kvctl_err, "");
	const char *line = line_of(kvctl_out, "file  ok");
	kvctl_has(line, "3.00 GiB  100.00 GiB    1234    77     88      99");
	kvctl_has(line, "1.50 GiB/s  4.00 GiB/s  1.00 GiB/s  2.00 GiB/s");
	kvctl_has(line, "io_uring");
	kvctl_has(line, "/one");
	line = line_of(kvctl_out, "file  degraded");
	kvctl_has(line, "/a \"b\\?[1m/two");
	kvctl_has(line_of(kvctl_out, "dram  ok"), "512.00 MiB    2.00 GiB");
	kvctl_has(kvctl_out, "40 requests loaded, 4 computed");
	kvctl_has(kvctl_out, "2.000 s expected, 2.500 s taken (125 %)");
	kvctl_has(kvctl_out, "4000 loaded for requests, 300 prefetched, 200 recomputed");
	kvctl_has(kvctl_out, "16 lost");
	kvctl_has(kvctl_out, "60 of 70 evicted pages stayed");
	kvctl_has(kvctl_out, "9 blocks not written");
}

static void test_json(void **state)
{
	struct kvd_status *s = status_of_tiers();

	status_write(s, sizeof(*s));
	json_t *j = kvctl_json("tiers --json");
	const json_t *tiers = json_object_get(j, "tiers");
	assert_true(json_is_true(json_object_get(j, "alive")));
	assert_int_equal(json_array_size(tiers), 3);
	const json_t *one = json_array_get(tiers, 1), *two = json_array_get(tiers, 2);
	assert_string_equal(json_string_value(json_object_get(one, "tier")), "file");
	assert_string_equal(json_string_value(json_object_get(one, "state")), "ok");
	assert_string_equal(json_string_value(json_object_get(one, "engine")), "io_uring");
	assert_string_equal(json_string_value(json_object_get(one, "path")), s->areas[1].path);
	assert_int_equal(kvctl_number(one, "queue"), 5);
	assert_int_equal(kvctl_number(one, "bytes"), 100 * GIB);
	assert_int_equal(kvctl_number(one, "loaded_bytes"), 111);
	assert_int_equal(kvctl_number(one, "dropped_blocks"), 333);
	assert_int_equal(kvctl_number(one, "load_peak_bytes_per_s"), 4 * GIB);
	assert_string_equal(json_string_value(json_object_get(two, "state")), "degraded");
	assert_int_equal(kvctl_number(two, "area"), 1);
	assert_int_equal(kvctl_number(two, "bad_blocks"), 2);
	const json_t *decisions = json_object_get(j, "decisions");
	assert_int_equal(kvctl_number(decisions, "loads_chosen"), 40);
	assert_int_equal(kvctl_number(decisions, "load_actual_ns"), 2500000000);
	assert_int_equal(kvctl_number(decisions, "unstored_blocks"), 9);
	json_decref(j);
	j = kvctl_json("status --json");
	assert_int_equal(json_array_size(json_object_get(j, "tiers")), 3);
	assert_int_equal(kvctl_number(json_object_get(j, "counters"), "lost_tokens"), 16);
	json_decref(j);
}

static void test_watch(void **state)
{
	struct kvd_status *s = status_of_tiers();
	uint32_t screens = 0;
	struct stat st;

	status_write(s, sizeof(*s));
	assert_int_equal(kvctl_run("tiers --watch --count 3 --interval 50"), 0);
	for (const char *at = kvctl_out; (at = strstr(at, "decisions")); at++)
		screens++;
	assert_int_equal(screens, 3);
	assert_null(strchr(kvctl_out, '\033'));
	assert_int_equal(kvctl_run("top --count 1"), 0);
	kvctl_has(line_of(kvctl_out, "file           ok"), "3.00 GiB of 100.00 GiB used, 1234");
	kvctl_has(line_of(kvctl_out, "file           ok"), "loading 1.50 GiB/s");
	kvctl_has(line_of(kvctl_out, "file           DEGRADED"), "/two");
	pid_t watcher = kvctl_start("tiers --watch --interval 60000", 0, "");
	while (stat(kvctl_path("stdout"), &st) == 0 && st.st_size == 0)
		usleep(1000);
	kill(watcher, SIGINT);
	assert_int_equal(kvctl_end(watcher), 0);
	assert_int_equal(kvctl_run("tiers --watch --interval 1"), 2);
	assert_int_equal(kvctl_run("tiers file"), 2);
}

static void test_metrics(void **state)
{
	struct kvd_status *s = status_of_tiers();

	snprintf(s->areas[1].path, sizeof(s->areas[1].path), "/one");
	status_write(s, sizeof(*s));
	assert_int_equal(kvctl_run("metrics"), 0);
#define ONE "{tier=\"file\",area=\"0\",path=\"/one\"} "
#define TWO "{tier=\"file\",area=\"1\",path=\"/a \\\"b\\\\?[1m/two\"} "
	kvctl_has(kvctl_out,
		  "\n# TYPE kvd_tier_used_bytes gauge\nkvd_tier_used_bytes{tier=\"dram\","
		  "area=\"0\",path=\"\"} 536870912\n");
	kvctl_has(kvctl_out, "\nkvd_tier_queue" ONE "5\n");
	kvctl_has(kvctl_out, "\nkvd_tier_load_peak_bytes_per_second" ONE "4294967296\n");
	kvctl_has(kvctl_out, "\nkvd_tier_degraded" ONE "0\n");
	kvctl_has(kvctl_out, "\nkvd_tier_degraded" TWO "1\n");
	kvctl_has(kvctl_out, "\n# TYPE kvd_tier_bad_blocks_total counter\n");
	kvctl_has(kvctl_out, "\nkvd_tier_bad_blocks_total" TWO "2\n");
	kvctl_has(kvctl_out, "\nkvd_lost_tokens_total 16\n");
	kvctl_has(kvctl_out, "\nkvd_load_actual_seconds_total 2.5\n");
	kvctl_has(kvctl_out, "\nkvd_loop_turns_total 0\n");
	assert_null(strstr(kvctl_out, "_ns_total"));
	s->area_count = 0;
	status_write(s, sizeof(*s));
	assert_int_equal(kvctl_run("metrics"), 0);
	assert_null(strstr(kvctl_out, "kvd_tier_"));
}

/* The row of doctor with this check whose finding has these words. */
static const json_t *row_of(const json_t *rows, const char *check, const char *words)
{
	for (size_t i = 0; i < json_array_size(rows); i++) {
		const json_t *row = json_array_get(rows, i);
		const char *name = json_string_value(json_object_get(row, "check"));
		const char *found = json_string_value(json_object_get(row, "found"));

		if (strcmp(name, check) == 0 && strstr(found, words))
			return row;
	}
	fail_msg("no %s: %s in:\n%s", check, words, kvctl_out);
	return NULL;
}

static const char *grade_of(const json_t *rows, const char *check, const char *words)
{
	return json_string_value(json_object_get(row_of(rows, check, words), "grade"));
}

/* A file that is there, and one that broke. */
static void test_doctor(void **state)
{
	struct kvd_status *s = status_of_tiers();

	close(kvctl_file("one", O_WRONLY | O_CREAT));
	status_write(s, sizeof(*s));
	assert_int_equal(kvctl_run("doctor"), 1);
	kvctl_has(kvctl_out, "BAD   tier           /a \"b\\?[1m/two is degraded");
	assert_int_equal(kvctl_run("doctor --json"), 1);
	json_t *j = json_loads(kvctl_out, 0, NULL);
	assert_string_equal(grade_of(j, "tier", "dram works"), "ok");
	assert_string_equal(grade_of(j, "tier", "/one works"), "ok");
	assert_string_equal(grade_of(j, "tier", "3 errors"), "BAD");
	assert_string_equal(grade_of(j, "tier file", "/two: No such file"), "BAD");
	assert_string_equal(grade_of(j, "file I/O", "io_uring"), "ok");
	(void)row_of(j, "io_uring", "uid");
	(void)row_of(j, "direct I/O", "/one");
	(void)row_of(j, "disk space", "/one");
	json_decref(j);
}

/* Warnings alone are no failure. */
static void test_doctor_warns(void **state)
{
	struct kvd_status *s = status_of_tiers();

	close(kvctl_file("one", O_WRONLY | O_CREAT));
	s->area_count = 2;
	s->areas[1].bad_blocks = 4;
	snprintf(s->areas[1].engine, sizeof(s->areas[1].engine), "threads");
	status_write(s, sizeof(*s));
	json_t *j = kvctl_json("doctor --json");
	assert_string_equal(grade_of(j, "tier", "4 blocks were bad"), "warn");
	assert_string_equal(grade_of(j, "file I/O", "threads"), "warn");
	json_decref(j);
	/* What lies there is looked at before it is opened. */
	assert_int_equal(unlink(s->areas[1].path), 0);
	assert_int_equal(mkfifo(s->areas[1].path, 0600), 0);
	assert_int_equal(kvctl_run("doctor"), 1);
	kvctl_has(kvctl_out, "no regular file");
	/* A long path is known by its end: nothing is opened by that. */
	memmove(s->areas[1].path, s->areas[1].path + 1, strlen(s->areas[1].path));
	status_write(s, sizeof(*s));
	assert_int_equal(kvctl_run("doctor"), 0);
}

/* It tells of no more areas than there is room for, whatever the file says. */
static void test_too_many(void **state)
{
	struct kvd_status *s = status_of_tiers();

	s->area_count = UINT32_MAX;
	status_write(s, sizeof(*s));
	json_t *j = kvctl_json("tiers --json");
	assert_int_equal(json_array_size(json_object_get(j, "tiers")), KVD_AREAS_MAX + 1);
	json_decref(j);
	assert_int_equal(kvctl_run("metrics"), 0);
	assert_int_equal(kvctl_run("doctor"), 1);
}

static void test_without(void **state)
{
	struct kvd_status *s = status_of_tiers();

	s->area_count = 0;
	status_write(s, sizeof(*s));
	assert_int_equal(kvctl_run("tiers"), 0);
	kvctl_has(kvctl_out, "has no tiers");
	assert_ptr_equal(strchr(kvctl_out, '\n'), kvctl_out + strlen(kvctl_out) - 1);
	json_t *j = kvctl_json("tiers --json");
	assert_int_equal(json_array_size(json_object_get(j, "tiers")), 0);
	json_decref(j);
}

/* Older daemons wrote less. All that they did write is read; of tiers they know nothing. */
static void test_older(void **state)
{
	static const size_t bytes[] = {KVD_STATUS_BYTES_MIN, MINOR_1_BYTES,
				       sizeof(struct kvd_status)};
	struct kvd_status *s = status_of_tiers();

	s->device_count = 2;
	s->devices[1].pool_bytes = 4 << 20;
	for (uint16_t minor = 0; minor <= 2; minor++) {
		s->minor = minor;
		status_write(s, bytes[minor]);
		json_t *j = kvctl_json("status --json");
		assert_int_equal(kvctl_number(j, "pool_bytes"), GIB);
		assert_int_equal(json_array_size(json_object_get(j, "devices")),
				 minor >= 1 ? 2 : 0);
		assert_int_equal(json_array_size(json_object_get(j, "tiers")), minor >= 2 ? 3 : 0);
		json_decref(j);
		assert_int_equal(kvctl_run("top --count 1"), 0);
		assert_int_equal(kvctl_run("metrics"), 0);
		kvctl_has(kvctl_out, "kvd_up 1\n");
		assert_int_equal(kvctl_run("tiers"), minor < 2);
		if (minor >= 2)
			continue;
		kvctl_one_sentence();
		kvctl_has(kvctl_err, minor == 0 ? "(protocol 1.0)" : "(protocol 1.1)");
		assert_string_equal(kvctl_out, "");
	}
	/* A file that is longer than it says is read by what it says. */
	s->minor = 1;
	status_write(s, sizeof(*s));
	assert_int_equal(kvctl_run("tiers"), 1);
	status_write(s, KVD_STATUS_BYTES_MIN - 1);
	assert_int_equal(kvctl_run("tiers"), 1);
	kvctl_one_sentence();
	kvctl_has(kvctl_err, "another version");
}

static void test_dead(void **state)
{
	struct kvd_status *s = status_of_tiers();

	s->pid_start_ticks++;
	status_write(s, sizeof(*s));
	assert_int_equal(kvctl_run("tiers"), 1);
	kvctl_has(kvctl_out, "1234");
	kvctl_one_sentence();
	kvctl_has(kvctl_err, "died");
	assert_int_equal(kvctl_run("tiers --watch"), 1);
	assert_int_equal(kvctl_run("tiers --json"), 1);
	json_t *j = json_loads(kvctl_out, 0, NULL);
	assert_true(json_is_false(json_object_get(j, "alive")));
	json_decref(j);
	assert_int_equal(unlink(kvctl_path("kvd.status")), 0);
	assert_int_equal(kvctl_run("tiers"), 1);
	kvctl_one_sentence();
	kvctl_has(kvctl_err, kvd.socket);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
TEST_MAIN(kvctl_tiers, TEST(test_text), TEST(test_json), TEST(test_watch), TEST(test_metrics),
	  TEST(test_doctor), TEST(test_doctor_warns), TEST(test_too_many), TEST(test_without),
	  TEST(test_older), TEST(test_dead))
