/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps that touch bytes, on any worker: copies between host memory and host memory, checksums,
 * headers. Those that follow each other are one job. A block that is stored from another slot was
 * summed when it was checked, and is not read twice.
 */
#include "base/bits.h"
#include "kvd/mover_inside.h"
#include <errno.h>

static void mover_bytes_sum(struct mover_transfer *t)
{
	if (!t->summed)
		t->checksum = file_checksum(t->what.part_count, t->parts, t->what.part_bytes);
	t->summed = true;
}

/* What a header says of a block is about the slot in which it lies. */
static int mover_bytes_check(struct mover_transfer *t)
{
	struct core_transfer as_read = t->what;

	as_read.slot = *mover_plan_source(t);
	mover_bytes_sum(t);
	return file_header_check(t->found, &as_read, t->checksum);
}

static int mover_bytes_fill(struct mover_transfer *t)
{
	mover_bytes_sum(t);
	file_header_fill(t->header, &t->what, t->checksum);
	return 0;
}

/* The host device's copies are done when they have started. */
static int mover_bytes_copy(struct mover_transfer *t)
{
	const struct devmem *d = t->mover->config.devmem;
	bool load = t->what.kind == CORE_TRANSFER_LOAD;
	int r = 0;

	for (uint32_t i = 0; i < t->what.part_count && r == 0; i++) {
		uint64_t host = (uintptr_t)t->parts[i], page = t->addresses[i];
		uint64_t ticket;
		r = d->ops->copy_start(d->devices[t->devices[i]].dev, load ? page : host,
				       load ? host : page, t->what.part_bytes[i], &ticket);
	}
	return r;
}

void mover_bytes_run(struct work_job *job)
{
	static int (*const step[])(struct mover_transfer *) = {
		[MOVER_COPY] = mover_bytes_copy,
		[MOVER_CHECK] = mover_bytes_check,
		[MOVER_FILL] = mover_bytes_fill,
	};
	struct mover_transfer *t = CONTAINER_OF(job, struct mover_transfer, job);

	while (t->result == 0 && t->steps[t->at] < ARRAY_LEN(step) && step[t->steps[t->at]]) {
		t->result = step[t->steps[t->at]](t);
		t->at++;
	}
}
