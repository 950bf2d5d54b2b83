/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a file does. It is degraded (the core keeps what it holds, and neither reads nor writes it)
 * when an operation takes longer than --file-timeout, when a write says that the disk is full or
 * broken, when three operations in a row fail, or when its journal cannot be written. It is then
 * probed, after a while and then after ever longer ones, by what has failed: by reading its
 * superblock, or by writing a block that means nothing. It is back when a probe succeeds.
 *
 * Nobody probes while something late is still under way, or the journal fails, which tries by
 * itself: a disk that hangs would only get more to hang on, and memory that it keeps is bounded so.
 *
 * One log line when it goes, one when it comes back; the rest is counted. What comes and goes does
 * so ever less often: the while is only short again when the file was well for as long as it is.
 */
#include "base/bits.h"
#include "base/log.h"
#include "base/units.h"
#include "kvd/mover_inside.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MOVER_AREA_ERRORS 3u
#define MOVER_AREA_WAIT_FACTOR 16u /* the longest wait, in first waits */

static uint64_t mover_area_wait(const struct mover_area *a)
{
	uint64_t wait_ns = a->mover->config.file_retry_ns;

	return wait_ns ? wait_ns : MOVER_RETRY_NS;
}

int mover_area_init(struct mover *m, uint32_t number)
{
	struct mover_area *a = &m->areas[number];

	a->mover = m;
	a->file = &m->config.files[number];
	list_init(&a->reads);
	list_init(&a->writes);
	a->wait_ns = mover_area_wait(a);
	a->probe_buffer = aligned_alloc(FILE_HEADER_BYTES, FILE_HEADER_BYTES);
	if (!a->probe_buffer)
		return -ENOMEM;
	memset(a->probe_buffer, 0, FILE_HEADER_BYTES);
	return 0;
}

void mover_area_fini(struct mover_area *a)
{
	free(a->probe_buffer);
}

/* The while after that is longer. */
static void mover_area_probe_after(struct mover_area *a, uint64_t now_ns)
{
	a->probe_at_ns = now_ns + a->wait_ns;
	a->wait_ns = BITS_MIN(2 * a->wait_ns, MOVER_AREA_WAIT_FACTOR * mover_area_wait(a));
}

static void mover_area_down(struct mover_area *a, bool write, const char *what, const char *why)
{
	uint64_t now_ns = units_now_ns();

	a->probe_writes = write || (a->down && a->probe_writes);
	if (a->down)
		return;
	if (now_ns - a->up_ns >= a->wait_ns)
		a->wait_ns = mover_area_wait(a);
	log_warn("mover", "file %s: %s%s; degraded, it is tried again in %.1f s", a->file->path,
		 what, why, (double)a->wait_ns / (double)UNITS_NS_PER_S);
	a->down = true;
	mover_area_probe_after(a, now_ns);
}

/* No other write will do better. */
static bool mover_area_is_full(int result)
{
	return result == -ENOSPC || result == -EDQUOT || result == -EIO || result == -EROFS;
}

static void mover_area_no_answer(struct mover_area *a, bool write)
{
	a->errors++;
	mover_area_down(a, write, "it does not answer within --file-timeout", "");
}

void mover_area_result(struct mover_area *a, bool write, int result)
{
	if (a->mover->muted)
		return;
	if (result == -ETIMEDOUT) {
		mover_area_no_answer(a, write);
	} else if (result < 0) {
		a->errors++;
		a->errors_in_row++;
		if ((write && mover_area_is_full(result)) || a->errors_in_row >= MOVER_AREA_ERRORS)
			mover_area_down(a, write,
					write ? "writing: " : "reading: ", strerror(-result));
	} else {
		a->errors_in_row = 0;
	}
}

void mover_area_late(struct mover_area *a, bool write)
{
	a->late_count++;
	if (!a->mover->muted)
		mover_area_no_answer(a, write);
}

void mover_area_late_done(struct mover_area *a)
{
	a->late_count--;
}

void mover_area_journal(struct mover_area *a, int state)
{
	if (a->mover->muted || state == a->journal)
		return;
	a->journal = state;
	if (state == -ETIMEDOUT) {
		mover_area_no_answer(a, true);
	} else if (state < 0) {
		a->errors++;
		mover_area_down(a, true, "writing its journal: ", strerror(-state));
	}
}

/* --- probes -------------------------------------------------------------------------------------
 */

static void mover_area_probe_late(struct aio_op *op)
{
	CONTAINER_OF(op, struct mover_area, probe)->probe_late = true;
}

static void mover_area_probed(struct aio_op *op, int result)
{
	struct mover_area *a = CONTAINER_OF(op, struct mover_area, probe);

	a->probing = a->probe_late = false;
	if (a->mover->muted)
		return;
	if (result < 0) {
		a->errors++;
		mover_area_probe_after(a, units_now_ns());
		return;
	}
	log_info("mover", "file %s: answers again", a->file->path);
	a->down = false;
	a->up_ns = units_now_ns();
	a->errors_in_row = 0;
}

void mover_area_turn(struct mover_area *a, uint64_t now_ns)
{
	if (a->mover->muted || mover_area_deadline_ns(a) > now_ns)
		return;
	a->probing = true;
	a->probe = (struct aio_op){
		.fd = a->file->fd,
		.write = a->probe_writes,
		.offset = a->probe_writes ? FILE_PROBE_OFFSET : 0,
		.vecs = {{a->probe_buffer, FILE_HEADER_BYTES}},
		.vec_count = 1,
		.timeout_ns = a->mover->config.file_timeout_ns,
		.done = mover_area_probed,
		.late = mover_area_probe_late,
	};
	list_init(&a->probe.link);
	aio_submit(a->mover->config.aios[a - a->mover->areas], &a->probe);
}

uint64_t mover_area_deadline_ns(const struct mover_area *a)
{
	if (!a->down || a->probing || a->late_count || a->journal)
		return UINT64_MAX;
	return a->probe_at_ns;
}
