/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging memory: one area of host memory, pinned for GPUs, of which a transfer takes a piece as
 * long as its slot. First fit; whoever finds no room waits, and all behind it wait too, so that a
 * large block is not starved by small ones. What it holds is written before it is read: nothing is
 * cleared.
 *
 * Where pages are host memory it is only for blocks that are verified, and not touched until then.
 */
#include "base/bits.h"
#include "base/units.h"
#include "kernels/mem/prefault.h"
#include "kvd/mover_inside.h"
#include <errno.h>
#include <sys/mman.h>

/* A slot fits into one segment, so a segment is enough; for GPUs some more, to work at once. */
#define MOVER_STAGE_BYTES FILE_SEGMENT_BYTES
#define MOVER_STAGE_GPU_BYTES (4 * FILE_SEGMENT_BYTES)

static int mover_stage_pin(struct mover *m, char *error, size_t size)
{
	char why[256] = "", bytes[32];

	int r = prefault(m->stage, m->stage_bytes, 1, false);

	if (r < 0)
		snprintf(why, sizeof(why), "%s", strerror(-r));
	else if (devmem_pin(m->config.devmem, m->stage, m->stage_bytes, why, sizeof(why)) == 0)
		return 0;
	snprintf(error, size, "%s of host memory for copies between files and GPUs: %s",
		 units_format_bytes(m->stage_bytes, bytes, sizeof(bytes)), why);
	return -ENOMEM;
}

int mover_stage_init(struct mover *m, char *error, size_t size)
{
	list_init(&m->stage_taken);
	list_init(&m->stage_waiting);
	if (m->config.file_count == 0)
		return 0;
	m->stage_bytes = m->gpu ? MOVER_STAGE_GPU_BYTES : MOVER_STAGE_BYTES;
	if (m->config.stage_bytes)
		m->stage_bytes = m->config.stage_bytes;
	void *map = mmap(NULL, m->stage_bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (map == MAP_FAILED)
		return -errno;
	m->stage = map;
	(void)madvise(map, m->stage_bytes, MADV_DONTFORK);
	(void)madvise(map, m->stage_bytes, MADV_DONTDUMP);
	return m->gpu ? mover_stage_pin(m, error, size) : 0;
}

void mover_stage_fini(struct mover *m)
{
	if (m->stage)
		munmap(m->stage, m->stage_bytes);
}

/* Puts the transfer into the first gap that is large enough. */
static bool mover_stage_fit(struct mover_transfer *t)
{
	struct mover *m = t->mover;
	uint64_t bytes = t->what.slot.bytes, at = 0;
	struct list_link *next = m->stage_taken.next;

	for (; next != &m->stage_taken; next = next->next) {
		const struct mover_transfer *u =
			CONTAINER_OF(next, struct mover_transfer, stage_link);
		if (u->stage_at - at >= bytes)
			break;
		at = u->stage_at + u->stage_bytes;
	}
	if (next == &m->stage_taken && m->stage_bytes - at < bytes)
		return false;
	t->stage_at = at;
	t->stage_bytes = bytes;
	list_insert_before(next, &t->stage_link);
	mover_plan_lay(t, m->stage + at);
	return true;
}

void mover_stage_take(struct mover_transfer *t)
{
	if (list_empty(&t->mover->stage_waiting) && mover_stage_fit(t)) {
		mover_next(t, 0);
		return;
	}
	list_push_back(&t->mover->stage_waiting, &t->link);
	mover_time(t, t->mover->config.file_timeout_ns);
}

void mover_stage_give(struct mover_transfer *t)
{
	struct list_link *waiting = &t->mover->stage_waiting;

	if (t->stage_bytes == 0)
		return;
	list_remove(&t->stage_link);
	while (!list_empty(waiting)) {
		struct mover_transfer *next =
			CONTAINER_OF(waiting->next, struct mover_transfer, link);
		if (!mover_stage_fit(next))
			return;
		list_remove(&next->link);
		mover_time_stop(next);
		mover_next(next, 0);
	}
}
