/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of the file tier: what is made, what is found again, what is refused and with which words;
 * headers of slots.
 */
#include "base/bits.h"
#include "kvd/file.h"
#include "kvd/file_super.h"
#include "tests/test.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1ull << 20)

static char dir[64];
static char path[128];
static char error[512];
static struct file f;

static int setup(void **state)
{
	strcpy(dir, "/tmp/test_file_XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/tier", dir);
	return 0;
}

static int teardown(void **state)
{
	(void)unlink(path);
	return rmdir(dir);
}

/* The file is refused, with these words, and is left as it was. */
static void refused(uint64_t bytes, int r, const char *words)
{
	struct stat before = {0}, after = {0};
	int had = lstat(path, &before);

	error[0] = '\0';
	assert_int_equal(file_open(&f, path, bytes, error, sizeof(error)), r);
	if (!strstr(error, words) || !strstr(error, "tier"))
		fail_msg("\"%s\" does not say \"%s\"", error, words);
	assert_int_equal(f.fd, -1);
	assert_int_equal(f.journal_fd, -1);
	if (had == 0)
		assert_int_equal(lstat(path, &after), 0);
	assert_int_equal(before.st_size, after.st_size);
	assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
}

static void opened(uint64_t bytes)
{
	int r = file_open(&f, path, bytes, error, sizeof(error));

	if (r < 0)
		fail_msg("%s", error);
}

static void write_at(uint64_t offset, const void *data, size_t bytes)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	assert_int_equal(pwrite(fd, data, bytes, (off_t)offset), bytes);
	close(fd);
}

static void read_super(struct file_super out[2])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_int_equal(pread(fd, out, 2 * sizeof(*out), 0), 2 * sizeof(*out));
	close(fd);
}

static void test_makes(void **state)
{
	struct stat st;

	umask(0);
	opened(300 * MIB);
	assert_true(f.fresh);
	assert_int_equal(f.journal_bytes, 8 * MIB);
	assert_int_equal(f.data_offset, 9 * MIB);
	assert_int_equal(f.segment_count, 4);
	assert_int_equal(f.bytes, 9 * MIB + 4 * FILE_SEGMENT_BYTES);
	assert_int_equal(fstat(f.fd, &st), 0);
	assert_int_equal(st.st_size, f.bytes);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_true((uint64_t)st.st_blocks * 512 >= f.bytes);
	assert_int_equal(fcntl(f.fd, F_GETFL) & O_DIRECT, f.buffered ? 0 : O_DIRECT);
	assert_int_equal(fcntl(f.journal_fd, F_GETFL) & O_DIRECT, 0);
	struct core_slot slot = {.offset_bytes = 8192};
	assert_int_equal(file_slot_offset(&f, &slot), 9 * MIB + 8192);
	file_close(&f);
	file_close(&f);
}

static void test_finds_again(void **state)
{
	uint8_t uuid[16];

	opened(256 * MIB);
	memcpy(uuid, f.uuid, sizeof(uuid));
	file_close(&f);
	opened(0);
	assert_false(f.fresh);
	assert_memory_equal(uuid, f.uuid, sizeof(uuid));
	assert_int_equal(f.segment_count, 3);
	file_close(&f);
	opened(256 * MIB);
	assert_false(f.fresh);
	file_close(&f);
}

static void test_grows(void **state)
{
	struct stat st;

	opened(256 * MIB);
	file_close(&f);
	opened(400 * MIB);
	assert_false(f.fresh);
	assert_int_equal(f.segment_count, 6);
	assert_int_equal(f.journal_bytes, 8 * MIB);
	assert_int_equal(fstat(f.fd, &st), 0);
	assert_int_equal(st.st_size, f.bytes);
	file_close(&f);
	opened(0);
	assert_int_equal(f.segment_count, 6);
	file_close(&f);
	refused(256 * MIB, -EINVAL, "has 393.00 MiB and cannot shrink to 256.00 MiB: give no size");
}

/* A crash between the two copies, or bytes that rot in one: the other counts, and is copied. */
static void test_one_copy_is_enough(void **state)
{
	struct file_super supers[2];

	for (uint32_t bad = 0; bad < 2; bad++) {
		opened(256 * MIB);
		file_close(&f);
		write_at(bad * sizeof(supers[0]) + 40, "rot", 3);
		opened(0);
		assert_int_equal(f.segment_count, 3);
		file_close(&f);
		read_super(supers);
		assert_memory_equal(&supers[0], &supers[1], sizeof(supers[0]));
	}
}

static void test_newer_copy_counts(void **state)
{
	struct file_super supers[2];

	opened(400 * MIB);
	file_close(&f);
	read_super(supers);
	file_super_resize(&supers[1], 3);
	supers[1].sequence++;
	file_super_seal(&supers[1]);
	write_at(0, supers, sizeof(supers));
	opened(0);
	assert_int_equal(f.segment_count, 3);
	file_close(&f);
}

/* Space was not there yet when the daemon died. */
static void test_unfinished_is_made_anew(void **state)
{
	struct file_super s = {.sequence = 0};

	assert_int_equal(file_super_plan(&s, 300 * MIB), 0);
	file_super_seal(&s);
	write_at(0, &s, sizeof(s));
	opened(0);
	assert_true(f.fresh);
	assert_int_equal(f.segment_count, 4);
	file_close(&f);
	opened(0);
	assert_false(f.fresh);
	file_close(&f);
}

static void test_refuses_what_is_not_ours(void **state)
{
	refused(0, -ENOENT, "there is none: say how large it shall be");
	refused(FILE_BYTES_MIN - 1, -EINVAL, "must have 256.00 MiB or more");
	write_at(0, "a letter to my mother", 21);
	refused(256 * MIB, -EEXIST, "is not empty and no file of kvd: give another path");
	assert_int_equal(truncate(path, 1 << 20), 0);
	refused(256 * MIB, -EEXIST, "is not empty and no file of kvd: give another path");
	assert_int_equal(truncate(path, 0), 0);
	refused(0, -ENOENT, "is empty: say how large it shall be");
	assert_int_equal(chmod(path, 0640), 0);
	refused(256 * MIB, -EPERM, "others may open it: chmod 600");
	assert_int_equal(chmod(path, 0600), 0);
	if (geteuid() == 0) {
		assert_int_equal(chown(path, 1, 1), 0);
		refused(256 * MIB, -EPERM, "belongs to uid ");
		assert_int_equal(chown(path, 0, 0), 0);
	}
	opened(256 * MIB);
	file_close(&f);
}

static void test_refuses_what_is_no_file(void **state)
{
	char target[160], longest[512];

	snprintf(target, sizeof(target), "%s/target", dir);
	assert_int_equal(symlink(target, path), 0);
	refused(256 * MIB, -ELOOP, "is a symbolic link: give the path of the file itself");
	assert_int_equal(access(target, F_OK), -1);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	refused(256 * MIB, -EINVAL, "is no regular file");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	refused(256 * MIB, -EISDIR, "is a directory: give the path of a file in it");
	assert_int_equal(rmdir(path), 0);
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(file_open(&f, longest, 0, error, sizeof(error)), -ENAMETOOLONG);
	assert_non_null(strstr(error, "the path is too long"));
}

static void test_refuses_damage(void **state)
{
	struct file_super supers[2];
	char words[64];

	opened(256 * MIB);
	file_close(&f);
	read_super(supers);
	assert_int_equal(truncate(path, 100 * MIB), 0);
	refused(0, -EUCLEAN, "is truncated, 100.00 MiB of 201.00 MiB: remove it");
	assert_int_equal(truncate(path, (off_t)supers[0].file_bytes), 0);
	supers[0].version = supers[1].version = 7;
	write_at(0, supers, sizeof(supers));
	snprintf(words, sizeof(words), "is of version 7 and this kvd reads %u: remove it",
		 FILE_VERSION);
	refused(0, -EPROTONOSUPPORT, words);
	supers[0].version = supers[1].version = FILE_VERSION;
	supers[0].checksum ^= 1;
	supers[1].checksum ^= 2;
	write_at(0, supers, sizeof(supers));
	refused(0, -EUCLEAN, "its superblock is damaged: remove it");
}

/* A checksum that fits is no reason to believe a number. */
static void test_refuses_numbers(void **state)
{
	static const struct {
		size_t at;
		uint64_t value;
	} bad[] = {
		{offsetof(struct file_super, segment_bytes), 1},
		{offsetof(struct file_super, segment_bytes), 128 * MIB},
		{offsetof(struct file_super, segment_count), 0},
		{offsetof(struct file_super, segment_count), UINT64_MAX},
		{offsetof(struct file_super, segment_count), 1ull << 38},
		{offsetof(struct file_super, file_bytes), 4096},
		{offsetof(struct file_super, journal_offset), 0},
		{offsetof(struct file_super, journal_bytes), 4096},
		{offsetof(struct file_super, journal_bytes), 1ull << 40},
		{offsetof(struct file_super, data_offset), 0},
		{offsetof(struct file_super, data_offset), 9 * MIB - 1},
	};
	struct file_super good = {.sequence = 1}, out;

	assert_int_equal(file_super_plan(&good, 300 * MIB), 0);
	file_super_seal(&good);
	assert_int_equal(file_super_choose(&good, sizeof(good), &out), 0);
	assert_int_equal(file_super_choose(&good, sizeof(good) - 1, &out), -ENOENT);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct file_super s = good;
		memcpy((uint8_t *)&s + bad[i].at, &bad[i].value, sizeof(bad[i].value));
		file_super_seal(&s);
		assert_int_equal(file_super_choose(&s, sizeof(s), &out), -EBADMSG);
	}
	assert_int_equal(file_super_plan(&good, 1ull << 60), -EFBIG);
	assert_int_equal(file_super_plan(&good, 1ull << 40), 0);
	assert_int_equal(good.journal_bytes, FILE_JOURNAL_BYTES_MAX);
}

static void test_refuses_what_does_not_fit(void **state)
{
	struct rlimit old, less = {.rlim_cur = 100 * MIB};

	/* Nobody has so much. */
	opened(256 * MIB);
	file_close(&f);
	refused(15ull << 40, -ENOSPC, "TiB, and ");
	opened(0);
	assert_int_equal(f.segment_count, 3);
	file_close(&f);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	less.rlim_max = old.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
	int r = file_open(&f, path, 256 * MIB, error, sizeof(error));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(r, -EFBIG);
	assert_non_null(strstr(error, "201.00 MiB is more than ulimit -f allows"));
	/* An empty file may be left, and stands in nobody's way. */
	opened(256 * MIB);
	file_close(&f);
}

static void test_is_locked(void **state)
{
	int to_child[2], from_child[2];
	char words[64], byte = 0;

	assert_int_equal(pipe(to_child), 0);
	assert_int_equal(pipe(from_child), 0);
	pid_t pid = fork();
	if (pid == 0) {
		close(to_child[1]);
		if (file_open(&f, path, 256 * MIB, error, sizeof(error)) < 0)
			_exit(1);
		(void)!write(from_child[1], "x", 1);
		(void)!read(to_child[0], &byte, 1);
		_exit(0);
	}
	close(to_child[0]);
	assert_int_equal(read(from_child[0], &byte, 1), 1);
	snprintf(words, sizeof(words), "is locked by another kvd (pid %d)", pid);
	refused(256 * MIB, -EBUSY, "is locked by another kvd");
	/* Not every file system shows it. */
	if (strstr(error, "pid"))
		assert_non_null(strstr(error, words));
	close(to_child[1]);
	waitpid(pid, NULL, 0);
	opened(0);
	file_close(&f);
	close(from_child[0]);
	close(from_child[1]);
}

/* --- headers ---------------------------------------------------------------------------------- */

static struct core_transfer transfer(void)
{
	struct core_transfer t = {
		.slot = {.tier = CORE_TIER_FILE,
			 .area = 1,
			 .offset_bytes = 1 << 20,
			 .bytes = 3 * 4096,
			 .generation = 77},
		.part_count = 2,
		.part_bytes = {4096, 4096},
	};

	memset(t.key, 0xaa, sizeof(t.key));
	memset(t.identity, 0xbb, sizeof(t.identity));
	return t;
}

static void test_header(void **state)
{
	static uint8_t header[FILE_HEADER_BYTES];
	struct core_transfer t = transfer();

	memset(header, 0xff, sizeof(header));
	file_header_fill(header, &t, 5);
	assert_int_equal(file_header_check(header, &t, 5), 0);
	assert_int_equal(file_header_check(header, &t, 6), -EBADMSG);
	for (size_t i = 0; i < sizeof(header); i++) {
		header[i] ^= 0x10;
		assert_int_equal(file_header_check(header, &t, 5), -EBADMSG);
		header[i] ^= 0x10;
	}
	/* Its number among the files may be another one after a restart. */
	t.slot.area = 2;
	assert_int_equal(file_header_check(header, &t, 5), 0);
}

static void test_header_of_another(void **state)
{
	static uint8_t header[FILE_HEADER_BYTES];
	const struct core_transfer t = transfer();
	struct core_transfer other[8];

	file_header_fill(header, &t, 5);
	for (size_t i = 0; i < ARRAY_LEN(other); i++)
		other[i] = t;
	other[0].slot.generation++;
	other[1].slot.offset_bytes += 4096;
	other[2].slot.bytes += 4096;
	other[3].key[15] ^= 1;
	other[4].identity[0] ^= 1;
	other[5].part_count = 1;
	other[6].part_bytes[1] += 4096;
	other[7].part_count = 3;
	for (size_t i = 0; i < ARRAY_LEN(other); i++)
		assert_int_equal(file_header_check(header, &other[i], 5), -EBADMSG);
}

static void test_checksum(void **state)
{
	static uint8_t a[8192], b[4096];
	void *parts[] = {a, b};
	uint64_t bytes[] = {sizeof(a), sizeof(b)};
	uint64_t random = 1, sum;

	for (size_t i = 0; i < sizeof(a); i++)
		a[i] = b[i % sizeof(b)] = (uint8_t)test_random(&random);
	sum = file_checksum(2, parts, bytes);
	assert_int_equal(file_checksum(2, parts, bytes), sum);
	assert_int_not_equal(file_checksum(1, parts, bytes), sum);
	a[8191] ^= 1;
	assert_int_not_equal(file_checksum(2, parts, bytes), sum);
	a[8191] ^= 1;
	b[0] ^= 0x80;
	assert_int_not_equal(file_checksum(2, parts, bytes), sum);
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
TEST_MAIN(file, TEST(test_makes), TEST(test_finds_again), TEST(test_grows),
	  TEST(test_one_copy_is_enough), TEST(test_newer_copy_counts),
	  TEST(test_unfinished_is_made_anew), TEST(test_refuses_what_is_not_ours),
	  TEST(test_refuses_what_is_no_file), TEST(test_refuses_damage), TEST(test_refuses_numbers),
	  TEST(test_refuses_what_does_not_fit), TEST(test_is_locked), cmocka_unit_test(test_header),
	  cmocka_unit_test(test_header_of_another), cmocka_unit_test(test_checksum))
