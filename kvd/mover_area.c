/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a file does. It is degraded (the core keeps what it holds, and neither reads nor writes it)
 * when an operation takes longer than --file-timeout, when a write says that the disk is full or
 * broken, or when three operations in a row fail. It is then probed by reading its superblock,
 * after a while and then after ever longer ones, and is back when a probe succeeds. A file that can
 * be read but not written would come and go: the while only shrinks again when what failed works.
 *
 * One log line when it goes, one when it comes back; the rest is counted.
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
	return a->probe_buffer ? 0 : -ENOMEM;
}

void mover_area_fini(struct mover_area *a)
{
	free(a->probe_buffer);
}

static void mover_area_down(struct mover_area *a, bool write, const char *what, const char *why)
{
	if (a->down)
		return;
	log_warn("mover", "file %s: %s%s; degraded, it is tried again in %llu s", a->file->path,
		 what, why, (unsigned long long)(a->wait_ns / UNITS_NS_PER_S));
	a->down = true;
	a->down_by_write = write;
	a->probe_at_ns = units_now_ns() + a->wait_ns;
	a->wait_ns = BITS_MIN(2 * a->wait_ns, MOVER_AREA_WAIT_FACTOR * mover_area_wait(a));
}

/* No other write will do better. */
static bool mover_area_is_full(int result)
{
	return result == -ENOSPC || result == -EDQUOT || result == -EIO || result == -EROFS;
}

void mover_area_result(struct mover_area *a, bool write, int result)
{
	if (a->mover->muted)
		return;
	if (result == -ETIMEDOUT) {
		mover_area_late(a);
	} else if (result < 0) {
		a->errors++;
		a->errors_in_row++;
		if ((write && mover_area_is_full(result)) || a->errors_in_row >= MOVER_AREA_ERRORS)
			mover_area_down(a, write,
					write ? "writing: " : "reading: ", strerror(-result));
	} else {
		a->errors_in_row = 0;
		if (!a->down && (write || !a->down_by_write))
			a->wait_ns = mover_area_wait(a);
	}
}

void mover_area_late(struct mover_area *a)
{
	if (a->mover->muted)
		return;
	a->errors++;
	mover_area_down(a, false, "it does not answer within --file-timeout", "");
}

static void mover_area_probed(struct aio_op *op, int result)
{
	struct mover_area *a = CONTAINER_OF(op, struct mover_area, probe);

	a->probing = false;
	if (a->mover->muted)
		return;
	if (result < 0) {
		a->errors++;
		a->probe_at_ns = units_now_ns() + a->wait_ns;
		a->wait_ns = BITS_MIN(2 * a->wait_ns, MOVER_AREA_WAIT_FACTOR * mover_area_wait(a));
		return;
	}
	log_info("mover", "file %s: answers again", a->file->path);
	a->down = false;
	a->errors_in_row = 0;
}

void mover_area_turn(struct mover_area *a, uint64_t now_ns)
{
	if (a->mover->muted || mover_area_deadline_ns(a) > now_ns)
		return;
	a->probing = true;
	a->probe = (struct aio_op){
		.fd = a->file->fd,
		.vecs = {{a->probe_buffer, FILE_HEADER_BYTES}},
		.vec_count = 1,
		.timeout_ns = a->mover->config.file_timeout_ns,
		.done = mover_area_probed,
	};
	list_init(&a->probe.link);
	aio_submit(a->mover->config.aio, &a->probe);
}

uint64_t mover_area_deadline_ns(const struct mover_area *a)
{
	return a->down && !a->probing ? a->probe_at_ns : UINT64_MAX;
}
