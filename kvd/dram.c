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
#include "base/assert.h"
#include "base/atomic.h"
#include "base/bits.h"
#include "base/log.h"
#include "base/units.h"
#include "kvd/hostmem.h"
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define DRAM_THREADS_MAX 16u
#define DRAM_PIECE_BYTES DRAM_SEGMENT_BYTES_MAX

/* --- faulting in --------------------------------------------------------------------------------
 */

struct dram_fault {
	uint8_t *map;
	uint64_t bytes;
	uint64_t next; /* the first byte of the next piece that somebody takes */
	int result;    /* the first error; then nobody takes any more */
};

/* Huge pages first: of a piece that is still empty nothing has to be copied for them. */
static int dram_fault_piece(uint8_t *start, uint64_t bytes)
{
	int r;

	(void)madvise(start, bytes, MADV_COLLAPSE);
	do
		r = madvise(start, bytes, MADV_POPULATE_WRITE);
	while (r < 0 && (errno == EINTR || errno == EAGAIN));
	if (r < 0)
		return errno == EFAULT ? -ENOMEM : -errno;
	return 0;
}

static void *dram_fault_main(void *arg)
{
	struct dram_fault *f = arg;

	while (atomic_load_relaxed(&f->result) == 0) {
		/* Partner: the other threads, which take the pieces before and behind. */
		uint64_t at = atomic_add_relaxed(&f->next, DRAM_PIECE_BYTES);
		if (at >= f->bytes)
			break;
		int r = dram_fault_piece(f->map + at, BITS_MIN(f->bytes - at, DRAM_PIECE_BYTES));
		if (r < 0)
			atomic_store_relaxed(&f->result, r);
	}
	return NULL;
}

/* A thread that cannot be had is one less: this one is always there. */
static int dram_fault(uint8_t *map, uint64_t bytes)
{
	struct dram_fault f = {.map = map, .bytes = bytes};
	pthread_t threads[DRAM_THREADS_MAX];
	uint64_t wanted = BITS_MIN((uint64_t)BITS_MAX(sysconf(_SC_NPROCESSORS_ONLN), 1),
				   bits_div_ceil(bytes, DRAM_PIECE_BYTES));
	uint32_t count = 0;

	wanted = BITS_MIN(wanted, DRAM_THREADS_MAX);
	while (count + 1 < wanted &&
	       pthread_create(&threads[count], NULL, dram_fault_main, &f) == 0)
		count++;
	dram_fault_main(&f);
	while (count)
		pthread_join(threads[--count], NULL);
	return f.result;
}

/* --- start and end ------------------------------------------------------------------------------
 */

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
	return dram_fault(d->map, d->bytes);
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
