/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm.c: memory that two processes share, without a name in any file system, so that nothing is
 * left behind when both are gone.
 *
 * A memfd is mapped by its maker first and sealed afterwards: F_SEAL_FUTURE_WRITE spares the maps
 * that exist, which is how a table can be written by kvd and only read by whoever else gets the
 * descriptor. F_SEAL_SHRINK is what makes it safe to touch: without it the other side could
 * truncate the file and turn every access into a SIGBUS. shm_map() therefore refuses what lacks it.
 *
 * No state, any thread.
 */
#include "ipc/shm.h"
#include <base/assert.h>
#include <base/bits.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

static int shm_memfd(const char *name)
{
	unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);

	/* Linux before 6.3 does not know the flag. */
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, flags);
	return fd < 0 ? -errno : fd;
}

static int shm_mmap(int fd, size_t bytes, int writable, void **out)
{
	int prot = PROT_READ | (writable ? PROT_WRITE : 0);
	void *map = mmap(NULL, bytes, prot, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		return -errno;
	/* A child has no business here, and a core file no use for it. Kept when refused. */
	(void)madvise(map, bytes, MADV_DONTFORK);
	(void)madvise(map, bytes, MADV_DONTDUMP);
	*out = map;
	return 0;
}

static int shm_seals(enum shm_seal seal)
{
	int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

	return seal == SHM_SEAL_READ_ONLY ? seals | F_SEAL_FUTURE_WRITE : seals;
}

int shm_create(struct shm *shm, const char *name, size_t bytes, enum shm_seal seal)
{
	size_t size = bits_align_up(bytes, (uint64_t)sysconf(_SC_PAGESIZE));
	void *map = NULL;
	int r;

	ASSERT(bytes > 0 && size >= bytes);
	int fd = shm_memfd(name);
	if (fd < 0)
		return fd;
	if (ftruncate(fd, (off_t)size) < 0) {
		r = -errno;
		goto close;
	}
	r = shm_mmap(fd, size, 1, &map);
	if (r < 0)
		goto close;
	if (fcntl(fd, F_ADD_SEALS, shm_seals(seal)) < 0) {
		r = -errno;
		goto unmap;
	}
	*shm = (struct shm){.fd = fd, .bytes = size, .map = map};
	return 0;
unmap:
	munmap(map, size);
close:
	close(fd);
	return r;
}

int shm_map(int fd, size_t bytes, int writable, void **out)
{
	struct stat st;

	if (bytes == 0)
		return -EPROTO;
	if (fstat(fd, &st) < 0)
		return -errno;
	int seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || !(seals & F_SEAL_SHRINK))
		return -EPROTO;
	if (st.st_size < 0 || (uint64_t)st.st_size < bytes)
		return -EPROTO;
	return shm_mmap(fd, bytes, writable, out);
}

void shm_unmap(void *map, size_t bytes)
{
	if (map)
		munmap(map, bytes);
}

void shm_fini(struct shm *shm)
{
	if (!shm->map)
		return;
	munmap(shm->map, shm->bytes);
	close(shm->fd);
	*shm = (struct shm){.fd = -1};
}
