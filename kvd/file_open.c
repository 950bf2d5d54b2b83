/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a file of the file tier. It may hold what people said to a model, and it may be the only
 * thing of value on a disk: so it is nobody else's to read, and nothing is written to a file that
 * is not empty and has no superblock of ours.
 *
 * Two descriptors: a buffered one for superblock and journal, which also carries the lock, and one
 * that goes past the page cache for slots, where the file system has that. The space is allocated
 * before anything is stored: a write that extends a file blocks, and a disk that is full is known
 * at start and not in the middle of the night.
 *
 * A file that is being made has a superblock with sequence 0 until its space is there; found again
 * after a crash, it is made anew. At start, on the main thread, before the loop.
 */
#include "base/bits.h"
#include "base/units.h"
#include "kvd/file.h"
#include "kvd/file_super.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

struct file_opening {
	struct file *f;
	uint64_t bytes; /* 0: as large as it is */
	struct stat st;
	struct file_super super;
	char *error;
	size_t size;
};

/* Returns r, with words. */
__attribute__((format(printf, 3, 4))) static int file_open_say(const struct file_opening *o, int r,
							       const char *format, ...)
{
	char text[384];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	snprintf(o->error, o->size, "file %s: %s", o->f->path, text);
	return r;
}

/* What an errno means here, where it is not plain. */
static int file_open_failed(const struct file_opening *o, const char *what)
{
	int r = -errno;

	if (r == -ELOOP)
		return file_open_say(o, r, "is a symbolic link: give the path of the file itself");
	if (r == -ENOENT && o->bytes == 0)
		return file_open_say(o, r, "there is none: say how large it shall be");
	if (r == -ENOENT)
		return file_open_say(o, r, "there is no such directory: make it");
	if (r == -EISDIR)
		return file_open_say(o, r, "is a directory: give the path of a file in it");
	if (r == -EROFS)
		return file_open_say(o, r, "its file system is read-only: give another path");
	if (r == -EACCES)
		return file_open_say(o, r,
				     "cannot be opened by uid %u: give it to that user, who must "
				     "be let into the directory, too",
				     geteuid());
	return file_open_say(o, r, "%s: %s", what, strerror(-r));
}

static int file_open_buffered(struct file_opening *o)
{
	int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
	struct stat *st = &o->st;

	if (o->bytes != 0)
		flags |= O_CREAT;
	o->f->journal_fd = open(o->f->path, flags, 0600);
	if (o->f->journal_fd < 0 || fstat(o->f->journal_fd, st) < 0)
		return file_open_failed(o, "cannot be opened");
	if (!S_ISREG(st->st_mode))
		return file_open_say(o, -EINVAL, "is no regular file: give another path");
	if (st->st_uid != geteuid())
		return file_open_say(o, -EPERM,
				     "belongs to uid %u: give it to uid %u, or remove it",
				     st->st_uid, geteuid());
	if (st->st_mode & 077)
		return file_open_say(o, -EPERM, "others may open it: chmod 600, or remove it");
	return 0;
}

/* Who holds the lock, from /proc/locks; 0: it cannot be known. */
static int file_open_owner(const struct stat *st)
{
	unsigned int dev_major, dev_minor;
	unsigned long long inode;
	char line[256];
	int pid, owner = 0;
	FILE *locks = fopen("/proc/locks", "re");

	while (locks && owner == 0 && fgets(line, sizeof(line), locks)) {
		if (sscanf(line, "%*d: FLOCK ADVISORY WRITE %d %x:%x:%llu", &pid, &dev_major,
			   &dev_minor, &inode) != 4)
			continue;
		if (inode == st->st_ino && dev_major == major(st->st_dev) &&
		    dev_minor == minor(st->st_dev))
			owner = pid;
	}
	if (locks)
		fclose(locks);
	return BITS_MAX(owner, 0);
}

static int file_open_lock(struct file_opening *o)
{
	if (flock(o->f->journal_fd, LOCK_EX | LOCK_NB) == 0)
		return fstat(o->f->journal_fd, &o->st) < 0 ? file_open_failed(o, "fstat") : 0;
	if (errno != EWOULDBLOCK)
		return file_open_failed(o, "cannot be locked");
	int owner = file_open_owner(&o->st);
	if (owner == getpid())
		return file_open_say(o, -EBUSY, "is given twice, by two names: leave one out");
	if (owner == 0)
		return file_open_say(o, -EBUSY, "is locked by another kvd");
	return file_open_say(o, -EBUSY, "is locked by another kvd (pid %d)", owner);
}

static int file_open_no_space(const struct file_opening *o, uint64_t needed, uint64_t free_bytes)
{
	char a[32], b[32];

	return file_open_say(o, -ENOSPC, "needs %s, and %s are free on its file system",
			     units_format_bytes(needed, a, sizeof(a)),
			     units_format_bytes(free_bytes, b, sizeof(b)));
}

/* Asks before it tries: a failing attempt would fill the disk for everybody, for a moment. */
static int file_open_allocate(const struct file_opening *o)
{
	uint64_t bytes = o->super.file_bytes, have = (uint64_t)o->st.st_blocks * 512;
	uint64_t needed = bytes > have ? bytes - have : 0;
	struct rlimit limit;
	struct statvfs v;
	char text[32];

	if (fstatvfs(o->f->journal_fd, &v) < 0)
		return file_open_failed(o, "statvfs");
	uint64_t free_bytes = (uint64_t)v.f_bavail * v.f_frsize;
	if (needed > free_bytes)
		return file_open_no_space(o, needed, free_bytes);
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur)
		return file_open_say(o, -EFBIG, "%s is more than ulimit -f allows",
				     units_format_bytes(bytes, text, sizeof(text)));
	errno = posix_fallocate(o->f->journal_fd, 0, (off_t)bytes);
	if (errno == ENOSPC || errno == EDQUOT)
		return file_open_no_space(o, needed, free_bytes);
	return errno ? file_open_failed(o, "its space cannot be allocated") : 0;
}

/* One copy after the other: a crash leaves one of them whole. */
static int file_open_write_super(struct file_opening *o)
{
	file_super_seal(&o->super);
	for (int i = 0; i < 2; i++) {
		ssize_t n = pwrite(o->f->journal_fd, &o->super, sizeof(o->super),
				   i * (off_t)sizeof(o->super));
		if (n >= 0 && n != (ssize_t)sizeof(o->super))
			errno = EIO;
		if (n != (ssize_t)sizeof(o->super) || fdatasync(o->f->journal_fd) < 0)
			return file_open_failed(o, "its superblock cannot be written");
	}
	return 0;
}

/* Sizes for a new file, as given; or as the superblock says of one that was never finished. */
static int file_open_plan(struct file_opening *o)
{
	if (o->bytes == 0 && o->super.file_bytes != 0)
		return 0;
	if (o->bytes == 0)
		return file_open_say(o, -ENOENT, "is empty: say how large it shall be");
	if (file_super_plan(&o->super, o->bytes) < 0)
		return file_open_say(o, -EFBIG, "must have less than %u segments of 64 MiB",
				     FILE_SEGMENTS_MAX + 1);
	return 0;
}

/* What fails leaves an empty file, which is as good as none. */
static int file_open_make(struct file_opening *o)
{
	int r = file_open_plan(o);

	if (r < 0)
		return r;
	o->f->fresh = true;
	o->super.sequence = 0;
	if (getrandom(o->super.uuid, sizeof(o->super.uuid), 0) != sizeof(o->super.uuid))
		return file_open_failed(o, "no random bytes");
	r = file_open_write_super(o);
	if (r == 0)
		r = file_open_allocate(o);
	o->super.sequence = 1;
	if (r == 0)
		r = file_open_write_super(o);
	if (r < 0)
		(void)!ftruncate(o->f->journal_fd, 0);
	return r;
}

/* The size that is wanted against the size that it has. Sets *out_grown. */
static int file_open_resize(struct file_opening *o, bool *out_grown)
{
	uint64_t wanted = file_super_segments(&o->super, o->bytes);
	char a[32], b[32];

	*out_grown = o->bytes != 0 && wanted > o->super.segment_count;
	if (o->bytes != 0 && wanted < o->super.segment_count)
		return file_open_say(
			o, -EINVAL,
			"has %s and cannot shrink to %s: give no size, or remove it and its blocks",
			units_format_bytes(o->super.file_bytes, a, sizeof(a)),
			units_format_bytes(o->bytes, b, sizeof(b)));
	if (!*out_grown)
		return 0;
	if (wanted > FILE_SEGMENTS_MAX)
		return file_open_say(o, -EFBIG, "must have less than %u segments of 64 MiB",
				     FILE_SEGMENTS_MAX + 1);
	file_super_resize(&o->super, wanted);
	return 0;
}

/* A good superblock was found. Space that is a hole, as in a sparse copy, is allocated too. */
static int file_open_adopt(struct file_opening *o, bool repair)
{
	bool grown;
	char a[32], b[32];

	if ((uint64_t)o->st.st_size < o->super.file_bytes)
		return file_open_say(o, -EUCLEAN,
				     "is truncated, %s of %s: remove it, its blocks are lost",
				     units_format_bytes((uint64_t)o->st.st_size, a, sizeof(a)),
				     units_format_bytes(o->super.file_bytes, b, sizeof(b)));
	int r = file_open_resize(o, &grown);
	if (r == 0 && (uint64_t)o->st.st_blocks * 512 < o->super.file_bytes)
		r = file_open_allocate(o);
	if (r < 0 || !(grown || repair))
		return r;
	o->super.sequence++;
	return file_open_write_super(o);
}

static int file_open_content(struct file_opening *o)
{
	uint8_t copies[2 * sizeof(struct file_super)];
	ssize_t n = pread(o->f->journal_fd, copies, sizeof(copies), 0);

	if (n < 0)
		return file_open_failed(o, "cannot be read");
	if (n == 0)
		return file_open_make(o);
	switch (file_super_choose(copies, (size_t)n, &o->super)) {
	case 0:
		break;
	case -EPROTONOSUPPORT:
		return file_open_say(o, -EPROTONOSUPPORT,
				     "is of version %u and this kvd reads %u: remove it, or give "
				     "another path",
				     o->super.version, FILE_VERSION);
	case -EBADMSG:
		return file_open_say(o, -EUCLEAN,
				     "its superblock is damaged: remove it, its blocks are lost");
	default:
		return file_open_say(o, -EEXIST,
				     "is not empty and no file of kvd: give another path, or "
				     "remove it");
	}
	if (o->super.sequence == 0)
		return file_open_make(o);
	return file_open_adopt(
		o, n < (ssize_t)sizeof(copies) ||
			   memcmp(copies, copies + sizeof(o->super), sizeof(o->super)) != 0);
}

/* Some file systems take O_DIRECT when a file is opened, and nothing when it is read. */
static bool file_open_direct_works(int fd)
{
	void *buffer = NULL;

	if (posix_memalign(&buffer, FILE_BLOCK_BYTES, FILE_BLOCK_BYTES) != 0)
		return false;
	ssize_t n = pread(fd, buffer, FILE_BLOCK_BYTES, 0);
	free(buffer);
	return n == FILE_BLOCK_BYTES;
}

static int file_open_direct(struct file_opening *o)
{
	const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
	struct file *f = o->f;
	struct stat st;

	f->fd = open(f->path, flags | O_DIRECT);
	f->buffered = f->fd < 0 ? errno == EINVAL : !file_open_direct_works(f->fd);
	if (f->buffered) {
		if (f->fd >= 0)
			close(f->fd);
		f->fd = open(f->path, flags);
	}
	if (f->fd < 0 || fstat(f->fd, &st) < 0)
		return file_open_failed(o, "cannot be opened");
	if (st.st_dev != o->st.st_dev || st.st_ino != o->st.st_ino)
		return file_open_say(o, -ESTALE, "was replaced while it was opened");
	return 0;
}

static void file_open_take(struct file *f, const struct file_super *s)
{
	f->bytes = s->file_bytes;
	f->journal_offset = s->journal_offset;
	f->journal_bytes = s->journal_bytes;
	f->data_offset = s->data_offset;
	f->segment_count = (uint32_t)s->segment_count;
	memcpy(f->uuid, s->uuid, sizeof(f->uuid));
}

int file_open(struct file *f, const char *path, uint64_t bytes, char *error, size_t size)
{
	struct file_opening o = {.f = f, .bytes = bytes, .error = error, .size = size};
	char text[32];

	*f = (struct file){.fd = -1, .journal_fd = -1};
	if ((size_t)snprintf(f->path, sizeof(f->path), "%s", path) >= sizeof(f->path))
		return file_open_say(&o, -ENAMETOOLONG, "the path is too long");
	if (bytes != 0 && bytes < FILE_BYTES_MIN)
		return file_open_say(&o, -EINVAL, "must have %s or more",
				     units_format_bytes(FILE_BYTES_MIN, text, sizeof(text)));
	int r = file_open_buffered(&o);
	if (r == 0)
		r = file_open_lock(&o);
	if (r == 0)
		r = file_open_content(&o);
	if (r == 0)
		r = file_open_direct(&o);
	if (r < 0)
		file_close(f);
	else
		file_open_take(f, &o.super);
	return r;
}
