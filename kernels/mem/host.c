/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host device: slabs are memfds that everybody maps.
 *
 * A slab is made in this order: memfd, size, map, fault in (several threads), fallocate, seals.
 * Only then may anyone else see it: what is missing shows here as -ENOMEM and never as a SIGBUS in
 * some importer. It is sealed against shrinking and growing, so that no importer can take the
 * memory away from under the others; holes can still be punched, which is what slab_punch() does.
 *
 * Huge pages: hugetlb when the pool has enough of them, else transparent ones where the kernel is
 * willing. Both are only an attempt; a slab of small OS pages is a good slab.
 *
 * slab_alloc() and slab_free() take long and run on a worker. All functions may be called from any
 * thread; a slab belongs to one thread at a time.
 */
#include "base/units.h"
#include "kernels/mem/device.h"
#include "kernels/mem/prefault.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21u << 26)
#endif

#define HOST_HUGE_BYTES (2 * UNITS_MIB)
#define HOST_PREFAULT_THREADS 8u

struct device {
	char nothing; /* the host has no state */
};

static struct device host_device;

static int host_count(char *error, size_t size)
{
	return 1;
}

static int host_describe(uint32_t index, struct device_info *out, char *error, size_t size)
{
	if (index != 0) {
		snprintf(error, size, "the host is one device, number 0; there is no number %u",
			 index);
		return -ENODEV;
	}
	*out = (struct device_info){.name = "host"};
	return 0;
}

static int host_open(uint32_t index, struct device **out, char *error, size_t size)
{
	struct device_info info;
	int r = host_describe(index, &info, error, size);

	if (r == 0)
		*out = &host_device;
	return r;
}

static void host_close(struct device *dev)
{
}

/* The error number says it all. */
static const char *host_failure(const struct device *dev)
{
	return "";
}

/* Backs the whole file. */
static int host_back(int fd, void *map, uint64_t bytes)
{
	int r = prefault(map, bytes, HOST_PREFAULT_THREADS, false);

	if (r < 0)
		return r;
	do
		r = fallocate(fd, 0, 0, (off_t)bytes);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return errno == ENOSPC ? -ENOMEM : -errno;
	return 0;
}

/* One attempt, with or without hugetlb pages. On failure nothing is left. */
static int host_try(uint64_t bytes, unsigned int huge, struct device_slab *out)
{
	int fd = memfd_create("kvd-slab", MFD_CLOEXEC | MFD_ALLOW_SEALING | huge);
	void *map = MAP_FAILED;
	int r;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)bytes) < 0)
		goto fail;
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		goto fail;
	(void)madvise(map, bytes, MADV_DONTFORK);
	(void)madvise(map, bytes, MADV_DONTDUMP);
	if (!huge)
		(void)madvise(map, bytes, MADV_HUGEPAGE);
	r = host_back(fd, map, bytes);
	if (r < 0)
		goto out;
	if (!huge)
		(void)madvise(map, bytes, MADV_COLLAPSE);
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		goto fail;
	*out = (struct device_slab){.address = (uintptr_t)map, .bytes = bytes, .fd = fd};
	return 0;
fail:
	r = -errno;
out:
	if (map != MAP_FAILED)
		munmap(map, bytes);
	close(fd);
	return r;
}

static int host_slab_alloc(struct device *dev, uint64_t bytes, struct device_slab *out)
{
	if (bytes == 0 || bytes > INT64_MAX)
		return -EINVAL;
	if (bytes % HOST_HUGE_BYTES == 0 && host_try(bytes, MFD_HUGETLB | MFD_HUGE_2MB, out) == 0)
		return 0;
	return host_try(bytes, 0, out);
}

static void host_slab_free(struct device *dev, struct device_slab *slab)
{
	if (!slab->address)
		return;
	munmap((void *)(uintptr_t)slab->address, slab->bytes);
	close(slab->fd);
	*slab = (struct device_slab){.fd = -1};
}

static int host_slab_punch(struct device *dev, struct device_slab *slab)
{
	int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

	return fallocate(slab->fd, mode, 0, (off_t)slab->bytes) < 0 ? -errno : 0;
}

static int host_slab_export(struct device *dev, const struct device_slab *slab,
			    struct kvd_slab_wire *wire, int *out_fd)
{
	wire->kind = KVD_SLAB_HOST;
	wire->base_offset = 0;
	wire->slab_bytes = slab->bytes;
	*out_fd = slab->fd;
	return 0;
}

/* A memfd that could shrink under our map is refused: its reader would die by SIGBUS. */
static int host_import_check(int fd, uint64_t bytes)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) < 0)
		return -EPROTO;
	return bytes == 0 || (uint64_t)st.st_size < bytes ? -EPROTO : 0;
}

static void *host_view(int fd, uint64_t bytes, int prot)
{
	void *map = mmap(NULL, bytes, prot, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		return NULL;
	(void)madvise(map, bytes, MADV_DONTFORK);
	(void)madvise(map, bytes, MADV_DONTDUMP);
	(void)madvise(map, bytes, MADV_HUGEPAGE);
	return map;
}

static int host_slab_import(struct device *dev, const struct kvd_slab_wire *wire, int fd,
			    struct device_view *out)
{
	int r = host_import_check(fd, wire->slab_bytes);

	if (r < 0)
		return r;
	void *read = host_view(fd, wire->slab_bytes, PROT_READ);
	void *write = host_view(fd, wire->slab_bytes, PROT_READ | PROT_WRITE);
	if (!read || !write) {
		if (read)
			munmap(read, wire->slab_bytes);
		if (write)
			munmap(write, wire->slab_bytes);
		return -ENOMEM;
	}
	*out = (struct device_view){(uintptr_t)read, (uintptr_t)write, wire->slab_bytes};
	return 0;
}

static void host_slab_unmap(struct device *dev, struct device_view *view)
{
	if (!view->bytes)
		return;
	munmap((void *)(uintptr_t)view->read, view->bytes);
	munmap((void *)(uintptr_t)view->write, view->bytes);
	*view = (struct device_view){0};
}

static int host_copy_start(struct device *dev, uint64_t dst, uint64_t src, uint64_t bytes,
			   uint64_t *out_ticket)
{
	memcpy((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, bytes);
	*out_ticket = 0;
	return 0;
}

static int host_copy_poll(struct device *dev, uint64_t ticket)
{
	return 1;
}

static int host_fill(struct device *dev, uint64_t address, uint8_t byte, uint64_t bytes)
{
	memset((void *)(uintptr_t)address, byte, bytes);
	return 0;
}

static int host_pin(struct device *dev, void *memory, size_t bytes)
{
	return 0;
}

static void host_unpin(struct device *dev, void *memory)
{
}

const struct device_ops *device_host(void)
{
	static const struct device_ops ops = {
		.name = "host",
		.kind = KVD_SLAB_HOST,
		.count = host_count,
		.describe = host_describe,
		.open = host_open,
		.close = host_close,
		.failure = host_failure,
		.slab_alloc = host_slab_alloc,
		.slab_free = host_slab_free,
		.slab_punch = host_slab_punch,
		.slab_export = host_slab_export,
		.slab_import = host_slab_import,
		.slab_unmap = host_slab_unmap,
		.copy_start = host_copy_start,
		.copy_poll = host_copy_poll,
		.fill = host_fill,
		.pin = host_pin,
		.unpin = host_unpin,
	};

	return &ops;
}
