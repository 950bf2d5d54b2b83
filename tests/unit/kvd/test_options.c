/* SPDX-License-Identifier: Apache-2.0 */
/* Options: argv, the file, who wins, and that every refusal names what is wrong. */
#include "base/bits.h"
#include "base/log.h"
#include "base/units.h"
#include "kvd/core/core.h"
#include "kvd/options.h"
#include "tests/test.h"
#include <unistd.h>

static char error[512];

static int parse(struct options *o, int argc, const char **argv)
{
	error[0] = '\0';
	return options_parse(o, argc, (char **)(uintptr_t)argv, error, sizeof(error));
}

#define PARSE(o, ...)                                                                              \
	({                                                                                         \
		const char *words[] = {"kvd", __VA_ARGS__};                                        \
		parse(o, ARRAY_LEN(words), words);                                                 \
	})

static struct options o;

/* A configuration file with this text; the caller unlinks it. */
static const char *config_file(const char *text)
{
	static char path[] = "/tmp/test_options_XXXXXX";

	strcpy(path, "/tmp/test_options_XXXXXX");
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	return path;
}

static void test_defaults(void **state)
{
	const char *words[] = {"kvd"};

	assert_int_equal(parse(&o, 1, words), 0);
	assert_int_equal(o.sessions_max, 64);
	assert_int_equal(o.handshake_timeout_ns, 5 * UNITS_NS_PER_S);
	assert_int_equal(o.spin_us, -1);
	assert_int_equal(o.ready_fd, -1);
	assert_int_equal(o.socket_fd, -1);
	assert_string_equal(o.device_memory, "auto");
	assert_string_equal(o.policy, "cost");
	assert_int_equal(o.space_count, 0);
}

static void test_policies(void **state)
{
	assert_int_equal(PARSE(&o, "--policy", "s3fifo"), 0);
	assert_string_equal(o.policy, "s3fifo");
	assert_int_equal(PARSE(&o, "--policy=best"), -EINVAL);
	assert_non_null(strstr(error, "--policy: best"));
	assert_non_null(strstr(error, "lru, s3fifo, cost"));
}

static void test_files(void **state)
{
	assert_int_equal(PARSE(&o, "--file", "/a"), 0);
	assert_int_equal(o.file_count, 1);
	assert_int_equal(o.files[0].bytes, 0);
	assert_int_equal(PARSE(&o, "--file=/a", "--file-bytes=1GiB", "--file=/b", "--file=/c",
			       "--file-bytes", "2GiB"),
			 0);
	assert_int_equal(o.file_count, 3);
	assert_string_equal(o.files[1].path, "/b");
	assert_int_equal(o.files[0].bytes, UNITS_GIB);
	assert_int_equal(o.files[1].bytes, 0);
	assert_int_equal(o.files[2].bytes, 2 * UNITS_GIB);
	assert_int_equal(PARSE(&o, "--file-bytes=1GiB", "--file=/a"), -EINVAL);
	assert_non_null(strstr(error, "behind the --file"));
	assert_int_equal(PARSE(&o, "--file=/a", "--file-bytes=1GiB", "--file-bytes=1GiB"), -EINVAL);
	assert_int_equal(PARSE(&o, "--file=/a", "--file-bytes=1MiB"), -EINVAL);
	assert_int_equal(PARSE(&o, "--file=/a", "--file=/a"), -EINVAL);
	assert_non_null(strstr(error, "twice"));
	const char *words[KVD_AREAS_MAX + 2] = {"kvd"};
	char paths[KVD_AREAS_MAX + 1][16];
	for (uint32_t i = 0; i <= KVD_AREAS_MAX; i++) {
		snprintf(paths[i], sizeof(paths[i]), "--file=/%u", i);
		words[i + 1] = paths[i];
	}
	assert_int_equal(parse(&o, KVD_AREAS_MAX + 1, words), 0);
	assert_int_equal(parse(&o, KVD_AREAS_MAX + 2, words), -EINVAL);
}

/* The files of the command line are all of them, with no size of the configuration's. */
static void test_files_of_argv_replace(void **state)
{
	const char *path = config_file("file = /a\nfile-bytes = 1GiB\nfile = /b\n");
	char word[80];

	snprintf(word, sizeof(word), "--config=%s", path);
	assert_int_equal(PARSE(&o, word), 0);
	assert_int_equal(o.file_count, 2);
	assert_int_equal(o.files[0].bytes, UNITS_GIB);
	assert_int_equal(PARSE(&o, word, "--file=/c"), 0);
	assert_int_equal(o.file_count, 1);
	assert_string_equal(o.files[0].path, "/c");
	assert_int_equal(o.files[0].bytes, 0);
	unlink(path);
}

static void test_tiers(void **state)
{
	assert_int_equal(PARSE(&o, "--log-level=info"), 0);
	assert_int_equal(o.dram_bytes, UINT64_MAX);
	assert_int_equal(o.file_timeout_ns, 10 * UNITS_NS_PER_S);
	assert_int_equal(PARSE(&o, "--dram-bytes=0", "--aio=threads"), 0);
	assert_int_equal(o.dram_bytes, 0);
	assert_string_equal(o.aio, "threads");
	assert_int_equal(options_store(&o), CORE_STORE_LIKELY);
	assert_int_equal(PARSE(&o, "--file-store=used"), 0);
	assert_int_equal(options_store(&o), CORE_STORE_USED);
	assert_int_equal(PARSE(&o, "--file-store=some"), -EINVAL);
	assert_non_null(strstr(error, "likely, used, all"));
	assert_int_equal(PARSE(&o, "--aio=uring"), -EINVAL);
	assert_non_null(strstr(error, "auto, io_uring, threads"));
}

static void test_both_spellings(void **state)
{
	assert_int_equal(PARSE(&o, "--pool-bytes", "8GiB", "--mode=0660", "--log-level=debug"), 0);
	assert_int_equal(o.pool_bytes, 8 * UNITS_GIB);
	assert_int_equal(o.mode, 0660);
	assert_int_equal(o.log_level, LOG_DEBUG);
	assert_int_equal(PARSE(&o, "--check-config", "--spin-us=0"), 0);
	assert_true(o.check_config);
	assert_int_equal(o.spin_us, 0);
}

static void test_namespaces(void **state)
{
	assert_int_equal(PARSE(&o, "--namespace", "a,secret-file=/x/y,floor=1GiB,ceiling=2GiB",
			       "--namespace=b"),
			 0);
	assert_int_equal(o.space_count, 2);
	assert_string_equal(o.spaces[0].name, "a");
	assert_string_equal(o.spaces[0].secret_file, "/x/y");
	assert_int_equal(o.spaces[0].floor_bytes, UNITS_GIB);
	assert_int_equal(o.spaces[0].ceiling_bytes, 2 * UNITS_GIB);
	assert_int_equal(o.spaces[1].floor_bytes, UINT64_MAX);
	assert_int_equal(o.spaces[1].ceiling_bytes, 0);
}

static void test_every_option_is_refused_a_wrong_value(void **state)
{
	for (size_t i = 0; i < options_count; i++) {
		const struct option_row *row = &options_table[i];
		char word[128];
		if (row->kind == OPTIONS_STRING || row->kind == OPTIONS_FILE)
			continue;
		snprintf(word, sizeof(word), "--%s=:wrong:", row->name);
		assert_int_equal(PARSE(&o, word), -EINVAL);
		assert_non_null(strstr(error, row->name));
	}
}

static void test_ranges_are_kept(void **state)
{
	for (size_t i = 0; i < options_count; i++) {
		const struct option_row *row = &options_table[i];
		char word[128];
		if (row->kind != OPTIONS_COUNT)
			continue;
		snprintf(word, sizeof(word), "--%s=%llu", row->name,
			 (unsigned long long)row->max + 1);
		assert_int_equal(PARSE(&o, word), -EINVAL);
		snprintf(word, sizeof(word), "--%s=%llu", row->name, (unsigned long long)row->max);
		assert_int_equal(PARSE(&o, word), 0);
	}
}

static void test_bad_lines(void **state)
{
	static const char *const bad[] = {
		"--nothing",
		"pool",
		"--pool-bytes=9EiB",
		"--pool-bytes",
		"--namespace=",
		"--namespace=../x",
		"--namespace=.x",
		"--namespace=a,floor=",
		"--namespace=a,what=3",
		"--namespace=a b",
		"--sessions-max=0",
		"--handshake-timeout=0s",
		"--mode=99",
		"--allow-uid=root",
		"--namespace=a,floor=2G,ceiling=1G",
		"--session-share=101",
		"--socket=",
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		if (PARSE(&o, bad[i]) != -EINVAL || !error[0])
			fail_msg("%s is taken", bad[i]);
	}
	assert_int_equal(PARSE(&o, "--namespace=a", "--namespace=a"), -EINVAL);
	assert_non_null(strstr(error, "twice"));
}

static void test_file(void **state)
{
	const char *path = config_file("# a comment\n\n  pool-bytes = 2GiB   # more\n"
				       "namespace = x\nnamespace = y\nallow-uid = 7\n"
				       "sessions-max=9\n");
	char word[64];

	snprintf(word, sizeof(word), "--config=%s", path);
	assert_int_equal(PARSE(&o, word), 0);
	assert_int_equal(o.pool_bytes, 2 * UNITS_GIB);
	assert_int_equal(o.space_count, 2);
	assert_int_equal(o.uids[0], 7);
	assert_int_equal(o.sessions_max, 9);
	assert_int_equal(PARSE(&o, word, "--sessions-max=3", "--namespace=z"), 0);
	assert_int_equal(o.pool_bytes, 2 * UNITS_GIB);
	assert_int_equal(o.sessions_max, 3);
	assert_int_equal(o.space_count, 1);
	assert_string_equal(o.spaces[0].name, "z");
	assert_int_equal(o.uid_count, 1);
	unlink(path);
}

static void test_bad_files(void **state)
{
	static const char *const bad[] = {"pool-bytes\n",  "what = 3\n",      "pool-bytes = many\n",
					  "config = /x\n", "version = yes\n", "socket-fd = 3\n"};
	char word[64];

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		const char *path = config_file(bad[i]);
		snprintf(word, sizeof(word), "--config=%s", path);
		assert_int_equal(PARSE(&o, word), -EINVAL);
		assert_non_null(strstr(error, ":1:"));
		unlink(path);
	}
	assert_int_equal(PARSE(&o, "--config=/nowhere/at/all"), -EINVAL);
	assert_non_null(strstr(error, "/nowhere/at/all"));
}

TEST_MAIN(options, cmocka_unit_test(test_defaults), cmocka_unit_test(test_files),
	  cmocka_unit_test(test_files_of_argv_replace), cmocka_unit_test(test_tiers),
	  cmocka_unit_test(test_both_spellings), cmocka_unit_test(test_policies),
	  cmocka_unit_test(test_namespaces),
	  cmocka_unit_test(test_every_option_is_refused_a_wrong_value),
	  cmocka_unit_test(test_ranges_are_kept), cmocka_unit_test(test_bad_lines),
	  cmocka_unit_test(test_file), cmocka_unit_test(test_bad_files))
