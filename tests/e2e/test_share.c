/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several processes over one pool: pages are shared without a copy, prefills are followed while
 * they run, tails and forks hold the right bytes, namespaces do not see each other, a full pool is
 * refused with numbers, and whoever dies or stops hurts nobody.
 */
#include "tests/e2e/harness.h"
#include "tests/test.h"
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

static struct harness_kvd kvd;
static struct harness_client a, b, c;

static int setup(void **state)
{
	harness_init(&kvd);
	return 0;
}

static int teardown(void **state)
{
	harness_client_end(&a, SIGKILL);
	harness_client_end(&b, SIGKILL);
	harness_client_end(&c, SIGKILL);
	harness_fini(&kvd);
	return 0;
}

static void start_two(void)
{
	harness_start(&kvd, NULL);
	harness_client(&a, &kvd, NULL, NULL);
	harness_client(&b, &kvd, NULL, NULL);
}

/* Asks, and the answer must be "ok". */
#define OK(client, ...)                                                                            \
	do {                                                                                       \
		harness_ask(client, __VA_ARGS__);                                                  \
		assert_true(harness_is(client, "ok"));                                             \
	} while (0)

static void verified(struct harness_client *x, const char *lease, uint64_t tokens)
{
	OK(x, "verify %s", lease);
	assert_int_equal(harness_field(x, "wrong"), 0);
	assert_int_equal(harness_field(x, "tokens"), tokens);
}

/* Which file, and where in it, an address of that process is. */
struct place {
	unsigned int major, minor;
	unsigned long inode, offset;
};

static struct place place_of(pid_t pid, unsigned long address)
{
	char path[64], line[512];
	struct place p = {0};
	bool found = false;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	FILE *f = fopen(path, "re");
	assert_non_null(f);
	while (!found && fgets(line, sizeof(line), f)) {
		unsigned long start, end;
		assert_int_equal(sscanf(line, "%lx-%lx %*s %lx %x:%x %lu", &start, &end, &p.offset,
					&p.major, &p.minor, &p.inode),
				 6);
		found = address >= start && address < end;
		p.offset += address - start;
	}
	fclose(f);
	assert_true(found);
	return p;
}

static struct place place_of_block(struct harness_client *x, const char *lease, int block)
{
	OK(x, "page %s %d", lease, block);
	return place_of(x->pid, harness_field(x, "address"));
}

static void test_zero_copy(void **state)
{
	start_two();
	OK(&a, "acquire x 1:200");
	assert_int_equal(harness_field(&a, "cached"), 0);
	OK(&a, "run x");
	OK(&b, "acquire x 1:200");
	assert_int_equal(harness_field(&b, "cached"), 192);
	OK(&b, "run x");
	verified(&b, "x", 200);
	for (int block = 0; block < 12; block++) {
		struct place pa = place_of_block(&a, "x", block);
		struct place pb = place_of_block(&b, "x", block);
		assert_memory_equal(&pa, &pb, sizeof(pa));
		assert_true(pa.inode != 0);
	}
	OK(&a, "release x");
	verified(&b, "x", 200);
	OK(&b, "release x");
	harness_quiet(&kvd, 2);
}

static void test_hit_of_every_length(void **state)
{
	start_two();
	OK(&a, "acquire x 1:200");
	OK(&a, "run x");
	for (int n = 1; n <= 200; n += 7) {
		OK(&b, "acquire y 1:%d", n);
		assert_int_equal(harness_field(&b, "cached"), n / 16 * 16);
		OK(&b, "run y");
		verified(&b, "y", (uint64_t)n);
		OK(&b, "release y");
	}
	OK(&a, "release x");
	harness_quiet(&kvd, 2);
}

static void test_follow_in_flight(void **state)
{
	start_two();
	OK(&a, "acquire x 1:128");
	OK(&a, "compute x 3");
	OK(&b, "acquire x 1:128+2:20");
	assert_int_equal(harness_field(&b, "build"), 128);
	OK(&b, "wait x 48");
	assert_int_equal(harness_field(&b, "ready"), 48);
	verified(&b, "x", 48);
	harness_send(&b, "run x");
	OK(&a, "compute x 5");
	harness_answer(&b);
	assert_true(harness_is(&b, "ok"));
	verified(&b, "x", 148);
	OK(&a, "release x");
	OK(&b, "release x");
	harness_quiet(&kvd, 2);
}

static void test_builder_killed(void **state)
{
	start_two();
	OK(&a, "acquire x 1:160");
	OK(&a, "compute x 4");
	OK(&b, "acquire x 1:160");
	OK(&b, "wait x 64");
	harness_client_end(&a, SIGKILL);
	OK(&b, "run x");
	verified(&b, "x", 160);
	harness_client(&c, &kvd, NULL, NULL);
	OK(&c, "acquire x 1:160");
	assert_int_equal(harness_field(&c, "cached"), 160);
	OK(&c, "run x");
	verified(&c, "x", 160);
	OK(&b, "release x");
	OK(&c, "release x");
	harness_quiet(&kvd, 2);
}

static void test_builder_releases(void **state)
{
	start_two();
	OK(&a, "acquire x 1:160");
	OK(&a, "compute x 2");
	OK(&b, "acquire x 1:160");
	OK(&a, "release x");
	OK(&b, "run x");
	verified(&b, "x", 160);
	OK(&b, "release x");
	harness_quiet(&kvd, 2);
}

/* A stopped builder blocks nobody: its follower takes over, others do not even notice. */
static void test_builder_stopped(void **state)
{
	start_two();
	harness_client(&c, &kvd, NULL, NULL);
	OK(&a, "acquire x 1:160");
	OK(&a, "compute x 2");
	kill(a.pid, SIGSTOP);
	OK(&c, "acquire other 7:100");
	OK(&c, "run other");
	verified(&c, "other", 100);
	OK(&b, "patience 50");
	OK(&b, "acquire x 1:160");
	OK(&b, "run x");
	verified(&b, "x", 160);
	kill(a.pid, SIGCONT);
	OK(&a, "compute x 8");
	OK(&a, "release x");
	OK(&b, "release x");
	OK(&c, "release other");
	harness_quiet(&kvd, 3);
}

static uint64_t stalled_sessions(const struct kvd_status *s)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < s->session_count; i++)
		n += s->sessions[i].stalled;
	return n;
}

/* A client that is stopped before it took its answer is shown as stalled, until it goes on. */
static void test_stalled_is_shown(void **state)
{
	start_two();
	OK(&a, "acquire x 1:64");
	OK(&b, "acquire x 1:64");
	OK(&b, "wait x 0");
	harness_send(&b, "wait x 16");
	usleep(50000);
	kill(b.pid, SIGSTOP);
	OK(&a, "run x");
	harness_wait_figure(&kvd, stalled_sessions, 1);
	kill(b.pid, SIGCONT);
	harness_answer(&b);
	harness_wait_figure(&kvd, stalled_sessions, 0);
}

static void test_decode_and_kept_tail(void **state)
{
	start_two();
	OK(&a, "acquire x 1:40");
	OK(&a, "run x");
	OK(&a, "decode x 2:37");
	verified(&a, "x", 77);
	OK(&a, "release x tail");
	OK(&b, "acquire y 1:40+2:37+3:9");
	assert_int_equal(harness_field(&b, "cached"), 64);
	assert_int_equal(harness_field(&b, "tail"), 13);
	OK(&b, "run y");
	verified(&b, "y", 86);
	OK(&b, "release y");
	OK(&a, "return");
	harness_quiet(&kvd, 2);
}

static void test_fork(void **state)
{
	start_two();
	OK(&a, "acquire x 1:70");
	OK(&a, "run x");
	for (int i = 0; i < 3; i++) {
		OK(&a, "fork x f%d", i);
		OK(&a, "run f%d", i);
		OK(&a, "decode f%d %d:40", i, 10 + i);
	}
	OK(&a, "release x");
	verified(&a, "f0", 110);
	verified(&a, "f1", 110);
	verified(&a, "f2", 110);
	OK(&b, "acquire y 1:70+11:40");
	assert_int_equal(harness_field(&b, "cached"), 96);
	OK(&b, "run y");
	verified(&b, "y", 110);
	for (int i = 0; i < 3; i++)
		OK(&a, "release f%d", i);
	OK(&a, "return");
	OK(&b, "release y");
	harness_quiet(&kvd, 2);
}

static void write_secret(char *path, size_t size, const char *name, const char *secret)
{
	snprintf(path, size, "%s/%s", kvd.dir, name);
	FILE *f = fopen(path, "we");
	assert_non_null(f);
	fprintf(f, "%s\n", secret);
	fclose(f);
	assert_int_equal(chmod(path, 0600), 0);
}

static void test_namespaces(void **state)
{
	char path[128], red[192];

	write_secret(path, sizeof(path), "red-secret", "crimson");
	snprintf(red, sizeof(red), "--namespace=red,secret-file=%s", path);
	harness_start(&kvd, (const char *[]){red, "--namespace=blue", NULL});
	harness_client(&a, &kvd, "red", "crimson");
	assert_true(harness_is(&a, "ok"));
	harness_client(&b, &kvd, "blue", NULL);
	assert_true(harness_is(&b, "ok"));
	OK(&a, "acquire x 1:100");
	OK(&a, "run x");
	OK(&b, "acquire x 1:100");
	assert_int_equal(harness_field(&b, "cached"), 0);
	assert_int_equal(harness_field(&b, "build"), 0);
	OK(&b, "run x");
	struct place pa = place_of_block(&a, "x", 0), pb = place_of_block(&b, "x", 0);
	assert_int_not_equal(pa.inode, pb.inode);
	OK(&b, "why 1:100");
	OK(&a, "stat");
	assert_int_equal(harness_field(&a, "sessions"), 1);
	assert_int_equal(harness_field(&a, "cached"), 0);
	OK(&a, "release x");
	OK(&b, "release x");
	harness_quiet(&kvd, 2);
}

static void test_wrong_secret(void **state)
{
	static const char *const tries[][2] = {{"red", NULL},
					       {"red", "crimso"},
					       {"red", "crimsonn"},
					       {"green", "crimson"},
					       {NULL, NULL}};
	char path[128], red[192];

	write_secret(path, sizeof(path), "red-secret", "crimson");
	snprintf(red, sizeof(red), "--namespace=red,secret-file=%s", path);
	harness_start(&kvd, (const char *[]){red, NULL});
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		harness_client(&a, &kvd, tries[i][0], tries[i][1]);
		assert_true(harness_is(&a, "EACCES"));
		assert_non_null(strstr(a.line, "unknown, or not with this secret"));
		harness_client_end(&a, 0);
	}
	harness_quiet(&kvd, 0);
}

static void test_full_pool(void **state)
{
	harness_start(&kvd, (const char *[]){"--pool-bytes=4MiB", "--session-share=100", NULL});
	harness_client_sized(&a, &kvd, NULL, NULL, 16, 64 << 10);
	harness_client_sized(&b, &kvd, NULL, NULL, 16, 64 << 10);
	OK(&a, "acquire x 1:640 0");
	OK(&a, "run x");
	harness_ask(&b, "acquire y 2:640 0");
	assert_true(harness_is(&b, "full"));
	assert_int_equal(harness_field(&b, "needed"), 40);
	assert_int_equal(harness_field(&b, "free"), 24);
	assert_int_equal(harness_field(&b, "evictable"), 0);
	verified(&a, "x", 640);
	harness_send(&b, "acquire y 2:640 0 20000");
	OK(&a, "release x");
	harness_answer(&b);
	assert_true(harness_is(&b, "ok"));
	OK(&b, "run y");
	verified(&b, "y", 640);
	harness_ask(&b, "acquire z 3:1200 0");
	assert_true(harness_is(&b, "E2BIG") || harness_is(&b, "full"));
	OK(&b, "release y");
	harness_quiet(&kvd, 2);
}

/* What one session may hold leaves room for others. */
static void test_session_share(void **state)
{
	harness_start(&kvd, (const char *[]){"--pool-bytes=4MiB", "--session-share=25", NULL});
	harness_client_sized(&a, &kvd, NULL, NULL, 16, 64 << 10);
	harness_client_sized(&b, &kvd, NULL, NULL, 16, 64 << 10);
	OK(&a, "acquire x 1:256 0");
	OK(&a, "run x");
	harness_ask(&a, "acquire y 2:256 0");
	assert_false(strncmp(a.line, "ok", 2) == 0);
	OK(&b, "acquire y 2:256 0");
	OK(&b, "run y");
	verified(&b, "y", 256);
}

/* Page bytes of several sizes in one pool: slabs of one geometry make room for another's. */
static void test_geometries_take_turns(void **state)
{
	harness_start(&kvd, (const char *[]){"--pool-bytes=8MiB", "--session-share=100", NULL});
	harness_client_sized(&a, &kvd, NULL, NULL, 16, 4096);
	harness_client_sized(&b, &kvd, NULL, NULL, 16, 128 << 10);
	for (int round = 0; round < 3; round++) {
		OK(&a, "acquire x %d:20000 0 20000", 10 + round);
		OK(&a, "run x");
		verified(&a, "x", 20000);
		OK(&a, "release x");
		OK(&b, "acquire y %d:700 0 20000", 20 + round);
		OK(&b, "run y");
		verified(&b, "y", 700);
		OK(&b, "release y");
	}
	harness_quiet(&kvd, 2);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
TEST_MAIN(share, TEST(test_zero_copy), TEST(test_hit_of_every_length), TEST(test_follow_in_flight),
	  TEST(test_builder_killed), TEST(test_builder_releases), TEST(test_builder_stopped),
	  TEST(test_stalled_is_shown), TEST(test_decode_and_kept_tail), TEST(test_fork),
	  TEST(test_namespaces), TEST(test_wrong_secret), TEST(test_full_pool),
	  TEST(test_session_share), TEST(test_geometries_take_turns))
