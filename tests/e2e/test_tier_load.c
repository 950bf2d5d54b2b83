/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file tier that has too much to do and is looked at meanwhile: many clients in several
 * namespaces with pages of two sizes over a file that is full all the time; kvctl verify after
 * rot, while it is killed, while the daemon is killed, on a disk that does not answer; requests to
 * verify that no kvctl would send.
 */
#include "tests/e2e/kvctl_run.h"
#include "tests/e2e/tier_run.h"
#include "tests/test.h"
#include <base/bits.h>
#include <base/units.h>
#include <errno.h>
#include <fcntl.h>
#include <kvd.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEXT "1:2000"
#define TEXT_BLOCKS 125u
#define CLIENTS 6

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

/* --- a full tier --------------------------------------------------------------------------------
 */

/* A text that nobody has: 100 blocks, computed, read again and left. */
static void fill(struct harness_client *c, unsigned int word)
{
	harness_ask(c, "acquire f %u:1600 0 20000", word);
	assert_true(harness_is(c, "ok"));
	harness_ask(c, "run f");
	assert_true(harness_is(c, "ok"));
	harness_ask(c, "verify f");
	assert_int_equal(harness_field(c, "wrong"), 0);
	harness_ask(c, "release f");
}

/* Two clients fill and read again what was filled, with pages of two sizes; the others do what
 * comes to their mind, in the same namespaces. */
static void test_full_all_the_time(void **state)
{
	struct harness_client c[CLIENTS];
	unsigned int word = 1000;

	harness_start(&run.kvd, (const char *[]){"--pool-bytes=32MiB", "--session-share=100",
						 "--namespace=red", "--namespace=blue", run.option,
						 "--file-bytes=256MiB", "--file-store=all",
						 "--index-max=8192", NULL});
	for (int i = 0; i < CLIENTS; i++)
		harness_client_sized(&c[i], &run.kvd, i % 2 ? "red" : "blue", NULL, 16,
				     i % 3 ? 64 << 10 : 4 << 10);
	for (int i = 2; i < CLIENTS; i++)
		harness_send(&c[i], "random %d 3000", i);
	while (tier_run_area(&run).dropped_blocks < 500 && word < 2000) {
		fill(&c[0], word);
		fill(&c[1], word++);
		fill(&c[1], word - 10);
	}
	for (int i = 2; i < CLIENTS; i++) {
		harness_answer(&c[i]);
		assert_int_equal(harness_field(&c[i], "wrong"), 0);
	}
	for (int i = 0; i < CLIENTS; i++)
		harness_client_bye(&c[i]);
	harness_quiet(&run.kvd, 0);
	struct kvd_area_stat a = tier_run_area(&run);
	print_message("%llu blocks, %llu dropped, %llu loads, %llu stores\n",
		      (unsigned long long)a.blocks, (unsigned long long)a.dropped_blocks,
		      (unsigned long long)a.loads, (unsigned long long)a.stores);
	assert_true(a.dropped_blocks >= 500);
	assert_int_equal(a.bad_blocks, 0);
	assert_int_equal(a.errors, 0);
	assert_int_equal(kvctl_run("verify"), 0);
	assert_int_equal(harness_end(&run.kvd, SIGTERM), 0);
}

/* --- verify -------------------------------------------------------------------------------------
 */

static void make_cold(void)
{
	tier_run_text(&run, TEXT);
	tier_run_settle(&run, TEXT_BLOCKS);
	tier_run_push_out(&run);
	tier_run_settle(&run, TEXT_BLOCKS);
}

/* Flips a bit in so many blocks; each slot begins with words of its own. */
static void rot(uint32_t wanted)
{
	struct stat st;
	int fd = open(run.file, O_RDWR | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	uint8_t *map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(map != MAP_FAILED);
	for (off_t at = 0; at + 8192 <= st.st_size && wanted; at += 4096) {
		if (memcmp(map + at, "KVDSLOT\n", 8) != 0)
			continue;
		map[at + 4096 + 77] ^= 0x10;
		wanted--;
	}
	munmap(map, (size_t)st.st_size);
	close(fd);
	assert_int_equal(wanted, 0);
}

static void test_verify_after_rot(void **state)
{
	tier_run_start(&run, NULL);
	make_cold();
	assert_int_equal(kvctl_run("verify"), 0);
	tier_run_end(&run, SIGTERM);
	rot(3);
	tier_run_start(&run, NULL);
	assert_int_equal(kvctl_run("verify file"), 1);
	/* What is cold below a bad block goes with it, and may have been one of the three. */
	kvctl_has(kvctl_out, " bad, 0 failed\n");
	assert_int_equal(kvctl_run("verify"), 0);
	kvctl_has(kvctl_out, " 0 bad, 0 failed\n");
	assert_in_range(tier_run_area(&run).bad_blocks, 1, 3);
	tier_run_text(&run, TEXT);
	harness_check(&run.kvd);
	tier_run_end(&run, SIGTERM);
}

static void test_verify_while_it_is_killed(void **state)
{
	tier_run_start(&run, NULL);
	make_cold();
	tier_run_fault(&run, (struct fault){FAULT_DELAY, FAULT_SLOT_READ, .delay_ms = 20});
	for (useconds_t wait = 5000; wait < 100000; wait *= 2) {
		pid_t pid = kvctl_start("verify", 0, "");
		usleep(wait);
		kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
	}
	tier_run_fault(&run, (struct fault){0});
	/* The one before may be about to be forgotten. */
	for (int i = 0; kvctl_run("verify") != 0; i++) {
		kvctl_has(kvctl_err, "another verify runs");
		assert_true(i < 1000);
		usleep(10000);
	}
	harness_check(&run.kvd);
	/* And the other way round. */
	tier_run_fault(&run, (struct fault){FAULT_DELAY, FAULT_SLOT_READ, .delay_ms = 20});
	pid_t pid = kvctl_start("verify", 0, "");
	while (run.fault->had == 0)
		usleep(1000);
	assert_int_equal(harness_end(&run.kvd, SIGKILL), 128 + SIGKILL);
	assert_int_equal(kvctl_end(pid), 1);
	kvctl_one_sentence();
	harness_client_end(&run.client, SIGKILL);
}

/* It ends, says so, and what it could not read is still there when the disk is well. */
static void test_verify_on_a_disk_that_hangs(void **state)
{
	tier_run_start(&run, (const char *[]){"--file-timeout=300ms", "--file-retry=200ms", NULL});
	make_cold();
	tier_run_fault(&run, (struct fault){FAULT_HANG, FAULT_READS});
	assert_int_equal(kvctl_run("verify"), 1);
	assert_int_equal(kvctl_run("verify"), 1);
	kvctl_has(kvctl_out, "none of ");
	kvctl_has(kvctl_out, "see `kvctl tiers`");
	tier_run_fault(&run, (struct fault){0});
	while (tier_run_area(&run).state != KVD_AREA_OK)
		usleep(10000);
	assert_int_equal(kvctl_run("verify"), 0);
	tier_run_text(&run, TEXT);
	tier_run_end(&run, SIGTERM);
}

static struct kvd *connect_admin(void)
{
	struct kvd_options o = {.socket_path = run.kvd.socket,
				.hello_flags = KVD_HELLO_ADMIN,
				.name = "hostile",
				.timeout_ns = HARNESS_WAIT_MS * UNITS_NS_PER_MS};
	struct kvd *k;

	assert_int_equal(kvd_open(&o, &k), 0);
	return k;
}

static int ask_verify(struct kvd *k, uint32_t tier, uint64_t cursor, struct kvd_rep *rep)
{
	struct kvd_req req = {.op = KVD_OP_VERIFY,
			      .deadline_ms = HARNESS_WAIT_MS,
			      .arg32 = tier,
			      .arg64 = cursor};
	struct kvd_verify v;

	return kvd_call(k, &req, NULL, rep, &v, sizeof(v));
}

static void test_hostile_verify(void **state)
{
	static const uint64_t cursors[] = {1, 1000, UINT32_MAX, 1ull << 32, UINT64_MAX, 1ull << 63};
	static const uint32_t tiers[] = {0, 3, UINT32_MAX};
	struct kvd_rep rep;

	tier_run_start(&run, NULL);
	make_cold();
	struct kvd *k = connect_admin();
	for (size_t i = 0; i < ARRAY_LEN(cursors); i++) {
		assert_int_equal(ask_verify(k, KVD_TIER_FILE, cursors[i], &rep), 0);
		assert_int_equal(rep.result, 0);
		assert_true(rep.aux == 0 || rep.aux > cursors[i]);
		assert_int_equal(ask_verify(k, KVD_TIER_DRAM, cursors[i], &rep), 0);
		assert_int_equal(rep.result, -ENODEV);
	}
	kvd_close(k);
	/* Who names a tier that is none may be refused, or be seen as one who breaks the protocol.
	 */
	for (size_t i = 0; i < ARRAY_LEN(tiers); i++) {
		k = connect_admin();
		int r = ask_verify(k, tiers[i], 0, &rep);
		if (r != KVD_GONE && (r != 0 || rep.result >= 0))
			fail_msg("tier %u: %d %d", tiers[i], r, rep.result);
		kvd_close(k);
	}
	assert_int_equal(kvctl_run("verify"), 0);
	harness_check(&run.kvd);
	tier_run_end(&run, SIGTERM);
}

/* --- a private child ----------------------------------------------------------------------------
 */

/* It has no files: it says so, touches none, and serves. */
static void test_private_child_has_none(void **state)
{
	char fd_text[16];
	int fds[2], status;
	struct kvd *k;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
	snprintf(fd_text, sizeof(fd_text), "%d", fds[1]);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(fds[0]);
		(void)!freopen(run.kvd.log, "w", stderr);
		execl(getenv("KVD_BIN"), "kvd", "--socket-fd", fd_text, "--pool-bytes", "16MiB",
		      run.option, "--file-bytes=256MiB", NULL);
		_exit(127);
	}
	close(fds[1]);
	struct kvd_options o = {.socket_fd = fds[0], .timeout_ns = 20 * UNITS_NS_PER_S};
	assert_int_equal(kvd_open(&o, &k), 0);
	kvd_close(k);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(harness_log_has(&run.kvd, "--file is not for a private child"));
	assert_int_not_equal(access(run.file, F_OK), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
TEST_MAIN(tier_load, TEST(test_full_all_the_time), TEST(test_verify_after_rot),
	  TEST(test_verify_while_it_is_killed), TEST(test_verify_on_a_disk_that_hangs),
	  TEST(test_hostile_verify), TEST(test_private_child_has_none))
