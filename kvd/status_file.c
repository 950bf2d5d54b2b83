/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One struct kvd_status in a regular file, behind a sequence lock: `seq` is odd while it changes.
 * The file gets its name when it is whole, so a reader never sees a short one. It stays behind when
 * the daemon is killed: pid and start time in it tell that it is a dead one's.
 */
#include "kvd/status_file.h"
#include "base/atomic.h"
#include "kvd/crash.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Field 22 of /proc/self/stat; the name in field 2 may hold anything but ends with the last ')'. */
static uint64_t status_file_start_ticks(void)
{
	char text[1024] = "";
	int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	char *at = n > 0 ? strrchr(text, ')') : NULL;
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at + 1, NULL, 10) : 0;
}

/* An empty file of the right size, mapped. -errno: nothing is left. */
static int status_file_make(const char *path, const gid_t *gid, struct kvd_status **out)
{
	void *map = MAP_FAILED;
	int r = 0;

	(void)unlink(path);
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	if (gid && (fchown(fd, (uid_t)-1, *gid) < 0 || fchmod(fd, 0640) < 0))
		r = -errno;
	if (r == 0 && posix_fallocate(fd, 0, sizeof(**out)) != 0)
		r = -ENOSPC;
	if (r == 0)
		map = mmap(NULL, sizeof(**out), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (r == 0 && map == MAP_FAILED)
		r = -errno;
	close(fd);
	if (r < 0)
		(void)unlink(path);
	else
		*out = map;
	return r;
}

int status_file_init(struct status_file *s, const char *path, const gid_t *gid)
{
	char aside[sizeof(s->path) + 8];

	*s = (struct status_file){0};
	snprintf(s->path, sizeof(s->path), "%s", path);
	snprintf(aside, sizeof(aside), "%s.new", path);
	int r = status_file_make(aside, gid, &s->map);
	if (r < 0)
		return r;
	s->map->magic = KVD_STATUS_MAGIC;
	s->map->major = KVD_ABI_MAJOR;
	s->map->minor = KVD_ABI_MINOR;
	s->map->pid = (uint32_t)getpid();
	s->map->pid_start_ticks = status_file_start_ticks();
	if (rename(aside, s->path) == 0)
		return 0;
	r = -errno;
	(void)unlink(aside);
	munmap(s->map, sizeof(*s->map));
	s->map = NULL;
	return r;
}

/* Word by word, so that a reader that races with it sees old or new words and never half of one. */
static void status_file_copy(struct kvd_status *map, const struct kvd_status *now)
{
	const size_t skip = offsetof(struct kvd_status, nonce) / sizeof(uint64_t);
	const uint64_t *from = (const uint64_t *)now;
	uint64_t *to = (uint64_t *)map;

	static_assert(offsetof(struct kvd_status, nonce) % sizeof(uint64_t) == 0, "words");
	static_assert(sizeof(struct kvd_status) % sizeof(uint64_t) == 0, "words");
	for (size_t i = skip; i < sizeof(*map) / sizeof(uint64_t); i++)
		atomic_store_relaxed(&to[i], from[i]);
}

void status_file_write(struct status_file *s, const struct kvd_status *now)
{
	if (!s->map)
		return;
	/* Partner: readers load seq (acquire), copy, fence, and load it again. */
	atomic_store_relaxed(&s->map->seq, s->map->seq + 1);
	atomic_fence_seq_cst();
	status_file_copy(s->map, now);
	CRASH_POINT(status_odd);
	atomic_store_release(&s->map->seq, s->map->seq + 1);
}

void status_file_fini(struct status_file *s)
{
	if (!s->map)
		return;
	(void)unlink(s->path);
	munmap(s->map, sizeof(*s->map));
	s->map = NULL;
}
