/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faulting memory in, in parallel: the kernel clears pages at a fraction of what the memory can
 * take when one thread asks.
 *
 * Threads take one piece after the other until all are taken or one has failed. A thread that
 * cannot be had is one less: the caller's own is always there. Any thread; blocks.
 */
#include "kernels/mem/prefault.h"
#include "base/atomic.h"
#include "base/bits.h"
#include "base/units.h"
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define PREFAULT_PIECE_BYTES (32 * UNITS_MIB) /* less is not worth a thread */
#define PREFAULT_THREADS_MAX 16u

struct prefault {
	uint8_t *map;
	uint64_t bytes;
	uint64_t next; /* the first byte of the next piece that somebody takes */
	int result;    /* the first error; then nobody takes any more */
	bool huge;
};

/*
 * Huge pages first: of a piece that is still empty nothing has to be copied for them.
 * MADV_POPULATE_WRITE says EFAULT where a write would have raised SIGBUS, which for memory of ours
 * can only mean that it ran out.
 */
static int prefault_piece(const struct prefault *p, uint8_t *start, uint64_t bytes)
{
	int r;

	if (p->huge)
		(void)madvise(start, bytes, MADV_COLLAPSE);
	do
		r = madvise(start, bytes, MADV_POPULATE_WRITE);
	while (r < 0 && (errno == EINTR || errno == EAGAIN));
	if (r < 0)
		return errno == EFAULT ? -ENOMEM : -errno;
	return 0;
}

static void *prefault_main(void *arg)
{
	struct prefault *p = arg;

	while (atomic_load_relaxed(&p->result) == 0) {
		/* Partner: the other threads, which take the pieces before and behind. */
		uint64_t at = atomic_add_relaxed(&p->next, PREFAULT_PIECE_BYTES);
		if (at >= p->bytes)
			break;
		uint64_t bytes = BITS_MIN(p->bytes - at, PREFAULT_PIECE_BYTES);
		int r = prefault_piece(p, p->map + at, bytes);
		if (r < 0)
			atomic_store_relaxed(&p->result, r);
	}
	return NULL;
}

int prefault(void *map, uint64_t bytes, uint32_t threads_max, bool huge)
{
	struct prefault p = {.map = map, .bytes = bytes, .huge = huge};
	pthread_t threads[PREFAULT_THREADS_MAX];
	uint64_t wanted = BITS_MIN((uint64_t)BITS_MAX(sysconf(_SC_NPROCESSORS_ONLN), 1),
				   bytes / PREFAULT_PIECE_BYTES);
	uint32_t count = 0;

	wanted = BITS_MIN(wanted, BITS_MIN(threads_max, PREFAULT_THREADS_MAX));
	while (count + 1 < wanted && pthread_create(&threads[count], NULL, prefault_main, &p) == 0)
		count++;
	prefault_main(&p);
	while (count)
		pthread_join(threads[--count], NULL);
	return p.result;
}
