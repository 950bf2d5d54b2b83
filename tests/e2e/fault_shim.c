/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk that fails, for a process that has this before libc (LD_PRELOAD): calls on the file that
 * the test names do what fault.h says. Calls come from any thread; all counting is atomic. Whoever
 * hangs here looks up every few milliseconds, so that the test can end it.
 *
 * io_uring goes past this: the daemon must do its I/O by threads. The names are right because both
 * are built with the same off_t: with a wide one, pread() is pread64() here and there.
 */
#include "tests/e2e/fault.h"
#include <base/atomic.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define FAULT_VECS_MAX 1024
#define FAULT_LOOK_US 2000
#define FAULT_ALIGN 4096u

#define FAULT_EXPORT __attribute__((visibility("default")))

static struct fault *fault;
static ssize_t (*real_preadv)(int, const struct iovec *, int, off_t);
static ssize_t (*real_pwritev)(int, const struct iovec *, int, off_t);
static ssize_t (*real_pread)(int, void *, size_t, off_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static int (*real_fdatasync)(int);

static void fault_find(const char *name, void *out)
{
	void *found = dlsym(RTLD_NEXT, name);

	if (!found)
		abort();
	memcpy(out, &found, sizeof(found));
}

__attribute__((constructor)) static void fault_init(void)
{
	const char *path = getenv("KVD_FAULT_FILE");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;

	fault_find("preadv", (void *)&real_preadv);
	fault_find("pwritev", (void *)&real_pwritev);
	fault_find("pread", (void *)&real_pread);
	fault_find("pwrite", (void *)&real_pwrite);
	fault_find("fdatasync", (void *)&real_fdatasync);
	if (fd < 0)
		return;
	void *map = mmap(NULL, sizeof(*fault), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (map != MAP_FAILED)
		fault = map;
}

/* Is the descriptor one of the file's? */
static bool fault_is_about(int fd)
{
	size_t want = strnlen(fault->path, sizeof(fault->path));
	char link[32], path[256];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, sizeof(path));
	return n >= (ssize_t)want && memcmp(path + n - want, fault->path, want) == 0;
}

static void fault_wait(void)
{
	if (fault->kind == FAULT_DELAY)
		usleep(fault->delay_ms * 1000);
	/* Partner: the test, which writes the kind last. */
	while (atomic_load_acquire(&fault->kind) == FAULT_HANG)
		usleep(FAULT_LOOK_US);
}

/* What this call is to do: nothing special, or a fault of those that end it. */
static enum fault_kind fault_now(int fd, enum fault_call call)
{
	if (!fault)
		return FAULT_NONE;
	uint32_t kind = atomic_load_acquire(&fault->kind);
	if (kind == FAULT_NONE || !(fault->calls & call) || !fault_is_about(fd))
		return FAULT_NONE;
	uint64_t seen = atomic_add_relaxed(&fault->seen, (uint64_t)1);
	if (seen < fault->from || (fault->limit && seen >= fault->from + fault->limit))
		return FAULT_NONE;
	(void)atomic_add_relaxed(&fault->had, (uint64_t)1);
	if (kind != FAULT_DELAY && kind != FAULT_HANG)
		return kind;
	fault_wait();
	return FAULT_NONE;
}

/* The first half of the bytes, as long as direct I/O wants it; 0: there is no half. */
static size_t fault_half(size_t bytes)
{
	return bytes / 2 / FAULT_ALIGN * FAULT_ALIGN;
}

/* What the call says after its first half. */
static ssize_t fault_end(enum fault_kind kind, ssize_t moved)
{
	if (kind == FAULT_DEATH)
		kill(getpid(), SIGKILL);
	if (kind == FAULT_SHORT)
		return moved;
	errno = (int)fault->error;
	return -1;
}

static ssize_t fault_vectors(enum fault_kind kind, bool write, int fd, const struct iovec *vecs,
			     int count, off_t offset)
{
	struct iovec half[FAULT_VECS_MAX];
	size_t bytes = 0;
	int n = 0;

	for (int i = 0; i < count; i++)
		bytes += vecs[i].iov_len;
	if (kind == FAULT_ERROR || count > FAULT_VECS_MAX)
		return fault_end(FAULT_ERROR, 0);
	if (kind == FAULT_SHORT && fault_half(bytes) == 0)
		return write ? real_pwritev(fd, vecs, count, offset)
			     : real_preadv(fd, vecs, count, offset);
	for (size_t left = fault_half(bytes); left > 0; n++) {
		half[n] = vecs[n];
		if (half[n].iov_len > left)
			half[n].iov_len = left;
		left -= half[n].iov_len;
	}
	return fault_end(kind, write ? real_pwritev(fd, half, n, offset)
				     : real_preadv(fd, half, n, offset));
}

FAULT_EXPORT ssize_t preadv(int fd, const struct iovec *vecs, int count, off_t offset)
{
	enum fault_kind kind = fault_now(fd, FAULT_SLOT_READ);

	return kind ? fault_vectors(kind, false, fd, vecs, count, offset)
		    : real_preadv(fd, vecs, count, offset);
}

FAULT_EXPORT ssize_t pwritev(int fd, const struct iovec *vecs, int count, off_t offset)
{
	enum fault_kind kind = fault_now(fd, FAULT_SLOT_WRITE);

	return kind ? fault_vectors(kind, true, fd, vecs, count, offset)
		    : real_pwritev(fd, vecs, count, offset);
}

FAULT_EXPORT ssize_t pread(int fd, void *data, size_t bytes, off_t offset)
{
	enum fault_kind kind = fault_now(fd, FAULT_JOURNAL_READ);

	if (kind == FAULT_NONE)
		return real_pread(fd, data, bytes, offset);
	if (kind == FAULT_ERROR)
		return fault_end(kind, 0);
	return fault_end(kind, real_pread(fd, data, (bytes + 1) / 2, offset));
}

FAULT_EXPORT ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset)
{
	enum fault_kind kind = fault_now(fd, FAULT_JOURNAL_WRITE);

	if (kind == FAULT_NONE)
		return real_pwrite(fd, data, bytes, offset);
	if (kind == FAULT_ERROR)
		return fault_end(kind, 0);
	return fault_end(kind, real_pwrite(fd, data, (bytes + 1) / 2, offset));
}

FAULT_EXPORT int fdatasync(int fd)
{
	enum fault_kind kind = fault_now(fd, FAULT_SYNC);

	return kind ? (int)fault_end(kind == FAULT_SHORT ? FAULT_ERROR : kind, 0)
		    : real_fdatasync(fd);
}
