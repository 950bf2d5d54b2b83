/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A memfd, mapped once and faulted in at start: a store must not find out that memory has run out.
 * One thread faults in a few GiB a second, which for the memory of a large host is minutes: all
 * processors help, piece by piece. Huge pages are asked for, and small OS pages are good, too.
 *
 * What is not there cannot be had by trying: in a control group that ends with a kill and not with
 * an error. So the size is held against what is available first.
 */
#include "kvd/dram.h"
#include "base/bits.h"
#include "base/log.h"
#include "base/units.h"
#include "kernels/mem/prefault.h"
#include "kvd/hostmem.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DRAM_THREADS_MAX 16u

/* Large enough for large blocks, and enough of them for blocks of several sizes. */
uint64_t dram_segment_bytes(uint64_t bytes)
{
	uint64_t eighth = BITS_MAX(bytes / 8, DRAM_SEGMENT_BYTES_MIN);

	return BITS_MIN(bits_pow2_up(eighth + 1) / 2, DRAM_SEGMENT_BYTES_MAX);
}

static int dram_map(struct dram *d)
{
	d->fd = memfd_create("kvd-dram", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (d->fd < 0)
		return -errno;
	void *map = MAP_FAILED;
	if (ftruncate(d->fd, (off_t)d->bytes) == 0)
		map = mmap(NULL, d->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, d->fd, 0);
	if (map == MAP_FAILED) {
		int r = -errno;
		close(d->fd);
		return r;
	}
	d->map = map;
	(void)madvise(map, d->bytes, MADV_DONTFORK);
	(void)madvise(map, d->bytes, MADV_DONTDUMP);
	(void)madvise(map, d->bytes, MADV_HUGEPAGE);
	return prefault(d->map, d->bytes, DRAM_THREADS_MAX, true);
}

/* Segments do not cross from one piece into the next, and slots do not cross segments. */
static int dram_pin(struct dram *d, struct devmem *devmem, char *error, size_t size)
{
	int r = 0;

	for (uint64_t at = 0; at < d->bytes && r == 0; at += DEVMEM_PIN_BYTES)
		r = devmem_pin(devmem, d->map + at, BITS_MIN(d->bytes - at, DEVMEM_PIN_BYTES),
			       error, size);
	return r;
}

int dram_init(struct dram *d, uint64_t bytes, struct devmem *devmem, char *error, size_t size)
{
	char wanted[32], there[32], why[256] = "";
	uint64_t available = hostmem_available(), start_ns = units_now_ns();
	int r = -ENOMEM;

	*d = (struct dram){.segment_bytes = dram_segment_bytes(bytes)};
	d->bytes = bytes / d->segment_bytes * d->segment_bytes;
	units_format_bytes(bytes, wanted, sizeof(wanted));
	units_format_bytes(available, there, sizeof(there));
	if (bytes <= available)
		r = dram_map(d);
	if (r == 0)
		r = dram_pin(d, devmem, why, sizeof(why));
	if (r < 0) {
		snprintf(error, size,
			 "--dram-bytes: %s of memory cannot be had, %s are available: %s; ask for "
			 "less",
			 wanted, there, why[0] ? why : strerror(-r));
		return r;
	}
	log_info("dram", "%s in segments of %llu MiB, took %llu ms", wanted,
		 (unsigned long long)(d->segment_bytes / UNITS_MIB),
		 (unsigned long long)((units_now_ns() - start_ns) / UNITS_NS_PER_MS));
	return 0;
}

void dram_fini(struct dram *d)
{
	if (d->map) {
		munmap(d->map, d->bytes);
		close(d->fd);
	}
	*d = (struct dram){.fd = -1};
}
