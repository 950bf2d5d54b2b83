/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that a daemon finds: those that it must not take are refused at start, with one line that
 * says what to do, and not a byte of them is changed; disks without room are refused with numbers,
 * and a file that has its room does not care about the disk any more; a journal that was spoiled
 * costs what it was about and nothing else.
 */
#include "tests/e2e/tier_run.h"
#include "tests/test.h"
#include <base/bits.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB (1u << 20)
#define TEXTS 5u
#define SPOIL_ROUNDS 20
#define JOURNAL_AT MIB
#define JOURNAL_BYTES (8 * MIB)

static struct tier_run run;
static bool mounted;

static int setup(void **state)
{
	tier_run_init(&run, "auto");
	return 0;
}

static int teardown(void **state)
{
	if (mounted)
		(void)umount2(run.kvd.dir, MNT_DETACH);
	mounted = false;
	tier_run_fini(&run);
	return 0;
}

/* --- what is refused ----------------------------------------------------------------------------
 */

/* A daemon with these options ends with 1 and says all of this in a single line of its log. */
static void refuses(const char *option, const char *other, int status, const char *words)
{
	struct harness_kvd k;
	char socket[128], state[128];

	harness_init(&k);
	snprintf(socket, sizeof(socket), "--socket=%s", k.socket);
	snprintf(state, sizeof(state), "--state-dir=%s", k.dir);
	int got = harness_run(
		&k, (const char *[]){"--pool-bytes=2MiB", socket, state, option, other, NULL});
	if (got != status || harness_log_count(&k, words) != 1 ||
	    harness_log_count(&k, "error: ") != 1)
		fail_msg("%s: ended with %d, wanted %d and one line with '%s'", option, got, status,
			 words);
	harness_fini(&k);
}

static int file_open_as(int flags)
{
	int fd = open(run.file, flags | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	return fd;
}

static void make_file(const void *bytes, size_t count)
{
	(void)unlink(run.file);
	int fd = file_open_as(O_RDWR | O_CREAT);
	assert_int_equal(write(fd, bytes, count), count);
	close(fd);
}

/* One of kvd's own, with a block in it. */
static void make_good(void)
{
	(void)unlink(run.file);
	tier_run_start(&run, NULL);
	tier_run_text(&run, "1:2000");
	tier_run_end(&run, SIGTERM);
}

static void spoil(off_t at, uint8_t mask)
{
	int fd = file_open_as(O_RDWR);
	uint8_t byte;

	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte ^= mask;
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

static void other_version(void)
{
	make_good();
	spoil(8, 0x40);
	spoil(4096 + 8, 0x40);
}

static void damaged(void)
{
	make_good();
	spoil(100, 0x40);
	spoil(4096 + 100, 0x40);
}

static void truncated(void)
{
	make_good();
	assert_int_equal(truncate(run.file, 100 * MIB), 0);
}

static void somebody_elses(void)
{
	make_file("very dear to somebody\n", 22);
}

static void a_link(void)
{
	char target[160];

	snprintf(target, sizeof(target), "%s/target", run.kvd.dir);
	make_good();
	assert_int_equal(rename(run.file, target), 0);
	assert_int_equal(symlink(target, run.file), 0);
}

static void a_directory(void)
{
	(void)unlink(run.file);
	assert_int_equal(mkdir(run.file, 0700), 0);
}

static void a_pipe(void)
{
	assert_int_equal(mkfifo(run.file, 0600), 0);
}

static void open_to_others(void)
{
	make_good();
	assert_int_equal(chmod(run.file, 0644), 0);
}

static void of_another_user(void)
{
	make_good();
	assert_int_equal(chown(run.file, 4321, 4321), 0);
}

static void no_rights(void)
{
	make_good();
	assert_int_equal(chmod(run.file, 0), 0);
}

static void smaller(void)
{
	make_good();
}

static void none(void)
{
	(void)unlink(run.file);
}

static void empty(void)
{
	make_file("", 0);
}

static const struct {
	const char *name;
	void (*make)(void);
	const char *words;
	const char *option;
	int user; /* 1: as root only, 2: not as root */
} bad_files[] = {
	{"another version", other_version, "remove it, or give another path", NULL, 0},
	{"a damaged superblock", damaged, "superblock is damaged: remove it", NULL, 0},
	{"a truncated one", truncated, "is truncated, 100.00 MiB of ", NULL, 0},
	{"not ours", somebody_elses, "no file of kvd: give another path, or remove it", NULL, 0},
	{"a link", a_link, "is a symbolic link: give the path of the file itself", NULL, 0},
	{"a directory", a_directory, "is a directory: give the path of a file in it", NULL, 0},
	{"a pipe", a_pipe, "is no regular file", NULL, 0},
	{"open to others", open_to_others, "others may open it: chmod 600, or remove it", NULL, 0},
	{"another user's", of_another_user, "belongs to uid 4321: give it to uid 0, or remove it",
	 NULL, 1},
	{"no rights", no_rights, "give it to that user", NULL, 2},
	{"larger than wanted", smaller, "cannot shrink to 256.00 MiB: give no size, or remove",
	 "--file-bytes=256MiB", 0},
	{"none, no size", none, "there is none: say how large it shall be", NULL, 0},
	{"empty, no size", empty, "is empty: say how large it shall be", NULL, 0},
};

static void clear(void)
{
	char target[160];

	snprintf(target, sizeof(target), "%s/target", run.kvd.dir);
	(void)unlink(target);
	if (unlink(run.file) < 0)
		(void)rmdir(run.file);
}

static void test_refused(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(bad_files); i++) {
		struct stat before = {0}, after = {0};

		if (bad_files[i].user && (bad_files[i].user == 1) != (geteuid() == 0))
			continue;
		print_message("%s\n", bad_files[i].name);
		if (bad_files[i].option)
			run.bytes = "--file-bytes=400MiB";
		bad_files[i].make();
		run.bytes = NULL;
		(void)stat(run.file, &before);
		refuses(run.option, bad_files[i].option, 1, bad_files[i].words);
		(void)stat(run.file, &after);
		assert_int_equal(before.st_size, after.st_size);
		assert_int_equal(before.st_mtim.tv_sec, after.st_mtim.tv_sec);
		assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
		clear();
	}
}

static void test_locked_and_twice(void **state)
{
	char again[160], words[64];

	tier_run_start(&run, NULL);
	snprintf(words, sizeof(words), "is locked by another kvd (pid %d)", run.kvd.pid);
	refuses(run.option, NULL, 1, words);
	tier_run_end(&run, SIGTERM);
	refuses(run.option, run.option, 2, "is named twice");
	/* By another name. */
	snprintf(again, sizeof(again), "--file=%s/./tier", run.kvd.dir);
	refuses(run.option, again, 1, "is given twice, by two names");
	/* It is still good. */
	tier_run_start(&run, NULL);
	tier_run_end(&run, SIGTERM);
}

/* --- file systems -------------------------------------------------------------------------------
 */

/* A file system of this test alone over the daemon's directory. False: that is forbidden here. */
static bool mount_here(const char *how)
{
	static bool unshared;

	if (!unshared &&
	    (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)) {
		print_message("NOT TESTED: no mounts here (%s): run this as root\n",
			      strerror(errno));
		return false;
	}
	unshared = true;
	if (mount("tmpfs", run.kvd.dir, "tmpfs", 0, how) < 0) {
		print_message("NOT TESTED: no tmpfs here (%s)\n", strerror(errno));
		return false;
	}
	mounted = true;
	return true;
}

static void test_no_room(void **state)
{
	if (!mount_here("size=100m"))
		skip();
	refuses(run.option, "--file-bytes=256MiB", 1, "needs 201.00 MiB, and 9");
	/* What was begun of it takes no room. */
	struct stat st = {0};
	(void)stat(run.file, &st);
	assert_int_equal(st.st_blocks, 0);
}

static void test_read_only(void **state)
{
	if (!mount_here("size=300m"))
		skip();
	make_good();
	/* The kernel ends an io_uring, and its files, a while after the process. */
	for (int i = 0; mount(NULL, run.kvd.dir, NULL, MS_REMOUNT | MS_RDONLY, NULL) < 0; i++) {
		assert_true(i < 10000);
		usleep(2000);
	}
	refuses(run.option, NULL, 1, "its file system is read-only");
	assert_int_equal(mount(NULL, run.kvd.dir, NULL, MS_REMOUNT, NULL), 0);
}

/* All that it will ever need was allocated. */
static void test_full_later(void **state)
{
	static char junk[MIB];
	char path[160];

	if (!mount_here("size=260m"))
		skip();
	tier_run_start(&run, NULL);
	snprintf(path, sizeof(path), "%s/junk", run.kvd.dir);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	while (write(fd, junk, sizeof(junk)) > 0)
		continue;
	assert_int_equal(errno, ENOSPC);
	tier_run_text(&run, "1:2000");
	tier_run_settle(&run, 125);
	tier_run_push_out(&run);
	tier_run_text(&run, "1:2000");
	assert_int_equal(tier_run_counter(&run, KVD_C_LOADED_TOKENS), 2000);
	assert_int_equal(tier_run_area(&run).errors, 0);
	close(fd);
	assert_int_equal(unlink(path), 0);
	tier_run_end(&run, SIGTERM);
}

/* --- journals -----------------------------------------------------------------------------------
 */

static uint64_t seed_of_run(void)
{
	const char *text = getenv("KVD_TEST_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 10) : (uint64_t)getpid() * 7919;

	print_message("seed %llu (KVD_TEST_SEED repeats it)\n", (unsigned long long)seed);
	return seed;
}

static void spoil_journal(uint64_t *seed)
{
	static uint8_t bytes[JOURNAL_BYTES];
	uint32_t at = (uint32_t)(test_random(seed) % (JOURNAL_BYTES / 2));
	int fd = file_open_as(O_RDWR);

	assert_int_equal(pread(fd, bytes, sizeof(bytes), JOURNAL_AT), sizeof(bytes));
	/* Where something is: near the beginning of a half, more often than not. */
	if (test_random(seed) % 4)
		at %= 64 << 10;
	if (test_random(seed) % 2)
		at += JOURNAL_BYTES / 2;
	switch (test_random(seed) % 4) {
	case 0: /* flipped */
		for (uint32_t i = 0; i < 1 + test_random(seed) % 50; i++)
			bytes[(at + test_random(seed) % 4096) % JOURNAL_BYTES] ^=
				(uint8_t)(1u << test_random(seed) % 8);
		break;
	case 1: /* zeroed */
		memset(bytes + at, 0, BITS_MIN(test_random(seed) % 20000, JOURNAL_BYTES - at));
		break;
	case 2: /* cut */
		memset(bytes + at, 0, JOURNAL_BYTES - at);
		break;
	default: /* moved */
		memmove(bytes + at, bytes + at / 2, JOURNAL_BYTES - at);
	}
	assert_int_equal(pwrite(fd, bytes, sizeof(bytes), JOURNAL_AT), sizeof(bytes));
	close(fd);
}

static void test_spoiled_journals(void **state)
{
	uint64_t seed = seed_of_run(), loaded = 0;
	char text[32];

	for (int round = 0; round < SPOIL_ROUNDS; round++) {
		tier_run_start(&run, NULL);
		for (unsigned int i = 0; i < TEXTS; i++) {
			snprintf(text, sizeof(text), "%u:%u", i + 1, 1000 * (i + 1));
			tier_run_text(&run, text);
		}
		loaded += tier_run_counter(&run, KVD_C_LOADED_TOKENS);
		harness_check(&run.kvd);
		/* Half of the lives end so that a journal has no proper end. */
		tier_run_end(&run, test_random(&seed) % 2 ? SIGTERM : SIGKILL);
		spoil_journal(&seed);
	}
	print_message("%llu tokens came back\n", (unsigned long long)loaded);
	assert_true(loaded > 1000);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
TEST_MAIN(tier_files, TEST(test_refused), TEST(test_locked_and_twice), TEST(test_no_room),
	  TEST(test_read_only), TEST(test_full_later), TEST(test_spoiled_journals))
