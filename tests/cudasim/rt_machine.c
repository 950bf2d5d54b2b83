/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine that all processes share is a folder: CUDASIM_DIR, or /dev/shm, and in it
 * cudasim-UID-MACHINE (CUDASIM_MACHINE, "0" if unset). Each segment is a file there, whose name
 * says whose it is and how large; what the names add up to is in use.
 *
 * Who maps a segment or keeps an fd of it holds a shared flock: it belongs to the open file, and so
 * ends with the last fd or mapping of it, on whatever way a process ends, and passes along with an
 * fd that is sent. Whoever can lock a file alone knows that nobody is left, and removes it. All
 * changes of the folder are made under the lock of its file "lock".
 */
#include "tests/cudasim/rt_machine.h"
#include "tests/cudasim/rt.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define MACHINE_ROOM (512ull << 20)
#define MACHINE_FORMAT "%s-%d-%" PRIu64 "-%d-%" PRIu64 "-%" PRIu64

static uint64_t numbers;

/* A container's /dev/shm may be tiny; a folder on disk serves as well. */
static const char *machine_base(void)
{
	const char *dir = getenv("CUDASIM_DIR");
	struct statvfs fs;

	if (dir && *dir)
		return dir;
	if (statvfs("/dev/shm", &fs) == 0 && (uint64_t)fs.f_blocks * fs.f_frsize >= MACHINE_ROOM)
		return "/dev/shm";
	return "/tmp";
}

static int machine_dir(void)
{
	const char *machine = getenv("CUDASIM_MACHINE");
	char path[512];

	snprintf(path, sizeof(path), "%s/cudasim-%u-%s", machine_base(), (unsigned)getuid(),
		 machine && *machine ? machine : "0");
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		fprintf(stderr, "cudasim: %s: %s\n", path, strerror(errno));
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* An fd of the lock file, held; closing it gives the lock back. */
static int machine_lock(int dir)
{
	int fd = openat(dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	while (fd >= 0 && flock(fd, LOCK_EX) < 0 && errno == EINTR)
		;
	return fd;
}

static void machine_name(const struct rt_segment *s, const char *state, char *out, size_t size)
{
	snprintf(out, size, MACHINE_FORMAT, state, s->physical, s->bytes, s->pid, s->start,
		 s->number);
}

static bool machine_parse(const char *name, struct rt_segment *out)
{
	char state[8];

	return sscanf(name, "%4[a-z]-%d-%" SCNu64 "-%d-%" SCNu64 "-%" SCNu64, state, &out->physical,
		      &out->bytes, &out->pid, &out->start, &out->number) == 6 &&
	       (strcmp(state, "live") == 0 || strcmp(state, "gone") == 0);
}

/* When the process began, in ticks; 0: it is no more (a zombie keeps no memory either). */
static uint64_t machine_start(int32_t pid)
{
	char path[64], text[1024];
	uint64_t start = 0;
	char state = 'X';

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return 0;
	text[n] = 0;
	/* The command's name, in parentheses, may hold anything. */
	const char *at = strrchr(text, ')');
	if (!at || sscanf(at + 1,
			  " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
			  "%*s %*s %" SCNu64,
			  &state, &start) != 2)
		return 0;
	return state == 'Z' || state == 'X' ? 0 : start;
}

/* Removes the file if nobody maps or keeps it. */
static bool machine_reap(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT;
	bool alone = flock(fd, LOCK_EX | LOCK_NB) == 0;
	if (alone)
		unlinkat(dir, name, 0);
	close(fd);
	return alone;
}

/* Bytes in use; with `reap` what nobody uses is removed first. */
static uint64_t machine_used(int dir, int physical, bool reap)
{
	int list_fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = list_fd < 0 ? NULL : fdopendir(list_fd);
	uint64_t used = 0;
	struct dirent *entry;
	struct rt_segment s;

	while (list && (entry = readdir(list))) {
		if (!machine_parse(entry->d_name, &s) || s.physical != physical)
			continue;
		if (!reap || !machine_reap(dir, entry->d_name))
			used += s.bytes;
	}
	if (list)
		closedir(list);
	return used;
}

/* Fresh memory holds what no program put there: 0xff, NaN to any float. */
static int machine_poison(int fd, uint64_t bytes)
{
	static uint8_t poison[1 << 20];
	uint64_t at = 0;

	memset(poison, 0xff, sizeof(poison));
	while (at < bytes) {
		uint64_t piece = bytes - at < sizeof(poison) ? bytes - at : sizeof(poison);
		ssize_t n = pwrite(fd, poison, piece, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -ENOMEM;
		at += (uint64_t)n;
	}
	return 0;
}

static int machine_make(int dir, struct rt_segment *s, int *out_fd)
{
	char name[160];

	if (s->bytes > rt_device_bytes() ||
	    machine_used(dir, s->physical, false) > rt_device_bytes() - s->bytes) {
		if (s->bytes > rt_device_bytes() ||
		    machine_used(dir, s->physical, true) > rt_device_bytes() - s->bytes)
			return -ENOMEM;
	}
	machine_name(s, "live", name, sizeof(name));
	int fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -ENOMEM;
	if (flock(fd, LOCK_SH) < 0 || machine_poison(fd, s->bytes) < 0) {
		unlinkat(dir, name, 0);
		close(fd);
		return -ENOMEM;
	}
	*out_fd = fd;
	return 0;
}

int rt_machine_new(int physical, uint64_t bytes, struct rt_segment *out, int *out_fd)
{
	struct rt_segment s = {.physical = physical,
			       .pid = getpid(),
			       .start = machine_start(getpid()),
			       .number = ++numbers,
			       .bytes = bytes};
	int dir = machine_dir();
	int lock = machine_lock(dir);
	int r = dir < 0 || lock < 0 ? -ENOMEM : machine_make(dir, &s, out_fd);

	if (lock >= 0)
		close(lock);
	if (dir >= 0)
		close(dir);
	if (r == 0)
		*out = s;
	return r;
}

int rt_machine_open(const struct rt_segment *segment, int *out_fd)
{
	char name[160];

	if (machine_start(segment->pid) != segment->start)
		return -ENOENT;
	machine_name(segment, "live", name, sizeof(name));
	int dir = machine_dir();
	int lock = machine_lock(dir);
	int fd = openat(dir, name, O_RDWR | O_CLOEXEC);
	if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0) {
		close(fd);
		fd = -1;
	}
	if (lock >= 0)
		close(lock);
	if (dir >= 0)
		close(dir);
	if (fd < 0)
		return -ENOENT;
	*out_fd = fd;
	return 0;
}

int rt_machine_identify(int fd, struct rt_segment *out)
{
	char path[64], target[512];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ssize_t n = readlink(path, target, sizeof(target) - 1);
	if (n <= 0 || fstat(fd, &st) < 0)
		return -EINVAL;
	target[n] = 0;
	const char *name = strrchr(target, '/');
	if (!name || !machine_parse(name + 1, out) || (uint64_t)st.st_size != out->bytes)
		return -EINVAL;
	return 0;
}

bool rt_machine_leave(const struct rt_segment *segment, bool hide)
{
	char live[160], gone[160];
	int dir = machine_dir();
	int lock = machine_lock(dir);

	machine_name(segment, "live", live, sizeof(live));
	machine_name(segment, "gone", gone, sizeof(gone));
	bool alone = machine_reap(dir, live) && machine_reap(dir, gone);
	if (!alone && hide)
		renameat(dir, live, dir, gone);
	if (lock >= 0)
		close(lock);
	if (dir >= 0)
		close(dir);
	return !alone;
}

uint64_t rt_machine_free_bytes(int physical)
{
	int dir = machine_dir();
	int lock = machine_lock(dir);
	uint64_t used = machine_used(dir, physical, true), all = rt_device_bytes();

	if (lock >= 0)
		close(lock);
	if (dir >= 0)
		close(dir);
	return used > all ? 0 : all - used;
}
