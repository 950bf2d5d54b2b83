/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core says which slabs shall be; this file makes it so. There is one record for each slab id,
 * made at start: an order can always be taken, and what fails comes back as the result of its job.
 * While `busy` a record belongs to a worker, and the loop must not look at it; otherwise to the
 * loop. The core never orders anything for a slab whose last order has not been completed.
 */
#include "kvd/devmem.h"
#include "base/assert.h"
#include "base/bits.h"
#include "base/log.h"
#include "base/units.h"
#include "kvd/crash.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct devmem_slab {
	struct work_job job;
	struct devmem *owner;
	struct core_order order;
	struct device_slab memory;
	uint64_t took_ns;
	int result;
	bool busy;
};

int devmem_init(struct devmem *d, const char *device_memory, struct work *work, char *error,
		size_t size)
{
	*d = (struct devmem){.work = work};
	d->ops = device_find(device_memory, error, size);
	if (!d->ops)
		return -ENODEV;
	d->slabs = calloc(DEVMEM_SLABS_MAX, sizeof(*d->slabs));
	return d->slabs ? d->ops->open(0, &d->dev, error, size) : -ENOMEM;
}

static struct devmem_slab *devmem_find(const struct devmem *d, uint32_t slab)
{
	return slab < DEVMEM_SLABS_MAX ? &d->slabs[slab] : NULL;
}

/* On a worker. */
static void devmem_run(struct work_job *job)
{
	struct devmem_slab *s = CONTAINER_OF(job, struct devmem_slab, job);
	const struct device_ops *ops = s->owner->ops;
	uint64_t start_ns = units_now_ns();

	if (s->order.kind == CORE_ORDER_SLAB_MAKE && s->order.device != 0) {
		s->result = -ENODEV;
	} else if (s->order.kind == CORE_ORDER_SLAB_MAKE) {
		s->result = ops->slab_alloc(s->owner->dev, s->order.slab_bytes, &s->memory);
		CRASH_POINT(slab_made);
	} else {
		s->result = s->order.forced ? ops->slab_punch(s->owner->dev, &s->memory) : 0;
		ops->slab_free(s->owner->dev, &s->memory);
		CRASH_POINT(slab_destroyed);
	}
	s->took_ns = units_now_ns() - start_ns;
}

void devmem_order(struct devmem *d, const struct core_order *order)
{
	struct devmem_slab *s = devmem_find(d, order->slab);

	ASSERT(s && !s->busy);
	s->owner = d;
	s->job.run = devmem_run;
	s->order = *order;
	s->busy = true;
	work_submit(d->work, &s->job);
	CRASH_POINT(slab_ordered);
}

static void devmem_log(const struct devmem_slab *s)
{
	const struct core_order *o = &s->order;
	char bytes[32], stride[32];

	units_format_bytes(o->slab_bytes, bytes, sizeof(bytes));
	units_format_bytes(o->stride_bytes, stride, sizeof(stride));
	if (s->result < 0 && o->kind == CORE_ORDER_SLAB_MAKE)
		log_warn("devmem", "slab %u: %s cannot be had, the pool is that much less: %s",
			 o->slab, bytes, strerror(-s->result));
	else if (s->result < 0)
		log_warn("devmem", "slab %u: destroyed, but importers keep %s: %s", o->slab, bytes,
			 strerror(-s->result));
	else if (o->kind == CORE_ORDER_SLAB_MAKE)
		log_info("devmem", "slab %u: made, %s, %u pages of %s, took %llu ms", o->slab,
			 bytes, o->page_count, stride,
			 (unsigned long long)s->took_ns / UNITS_NS_PER_MS);
	else
		log_info("devmem", "slab %u: %s, %s given back", o->slab,
			 o->forced ? "retired without an answer of all importers" : "retired",
			 bytes);
}

struct devmem_result devmem_done(struct devmem *d, struct work_job *job)
{
	struct devmem_slab *s = CONTAINER_OF(job, struct devmem_slab, job);
	struct devmem_result result = {s->order.kind, s->order.slab, s->result};

	devmem_log(s);
	s->busy = false;
	return result;
}

int devmem_export(struct devmem *d, struct kvd_slab_wire *wire, int *out_fd)
{
	struct devmem_slab *s = devmem_find(d, wire->slab);

	if (!s || s->busy || !s->memory.bytes)
		return -ENOENT;
	return d->ops->slab_export(d->dev, &s->memory, wire, out_fd);
}

void devmem_fini(struct devmem *d)
{
	for (uint32_t i = 0; d->slabs && i < DEVMEM_SLABS_MAX; i++)
		if (d->slabs[i].memory.bytes)
			d->ops->slab_free(d->dev, &d->slabs[i].memory);
	free(d->slabs);
	if (d->dev)
		d->ops->close(d->dev);
	*d = (struct devmem){0};
}
