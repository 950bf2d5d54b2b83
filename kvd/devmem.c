/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core says which slabs shall be; this file makes it so. There is one record for each slab id,
 * made at start: an order can always be taken, and what fails comes back as the result of its job.
 * While `busy` a record belongs to a worker, and the loop must not look at it; otherwise to the
 * loop. The core never orders anything for a slab whose last order has not been completed.
 *
 * A GPU is spoken to on its lane alone, at start and at the end too. A call that hangs there holds
 * up that GPU's slabs and nothing else: a slab that was not made in time is given up, its record
 * stays with the worker and a spare takes its place, and the GPU is asked for no more until the
 * call comes back. What it then brings is given back.
 *
 * Memory that can be punched is given back at once when the core says `forced`. Other memory must
 * not be freed under a map: its record counts importers, by session as long as that lasts and then
 * by process, and an order to destroy `waits` here until there are none.
 */
#include "kvd/devmem.h"
#include "base/assert.h"
#include "base/bits.h"
#include "base/log.h"
#include "base/units.h"
#include "base/uuid.h"
#include "kvd/crash.h"
#include "kvd/devprobe.h"
#include "kvd/importers.h"
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define DEVMEM_START_NS (60 * UNITS_NS_PER_S)
#define DEVMEM_SPARES 256u

struct devmem_slab {
	struct work_job job;
	struct list_link link; /* among the spares */
	struct devmem *owner;
	struct core_order order;
	struct device_slab memory;
	struct importers importers;
	uint64_t ordered_ns;
	uint64_t took_ns;
	int result;
	bool busy;
	bool waits;
	bool given_up;
	char *words; /* of a failure, from the device */
};

/* --- start --------------------------------------------------------------------------------------
 */

/* The probe talks to drivers, so it is a job too: of the first GPU's lane. */
struct devmem_probe {
	struct work_job job;
	struct devprobe found;
	const char *memory;
	const char *wanted;
	int result;
	char error[512];
};

static void devmem_probe_run(struct work_job *job)
{
	struct devmem_probe *p = CONTAINER_OF(job, struct devmem_probe, job);

	p->result = devprobe(&p->found, p->memory, p->wanted, p->error, sizeof(p->error));
}

/* Nothing else is at the workers yet: what comes back first is this. */
static int devmem_wait(struct devmem *d, uint32_t lane, struct work_job *job)
{
	uint64_t end_ns = units_now_ns() + DEVMEM_START_NS;
	struct pollfd p = {.fd = d->work->fd, .events = POLLIN};

	work_submit_lane(d->work, lane, job);
	while (units_now_ns() < end_ns) {
		(void)poll(&p, 1, 1000);
		if (work_take(d->work) == job)
			return 0;
	}
	return -ETIMEDOUT;
}

static void devmem_open_run(struct work_job *job)
{
	struct devmem_device *x = CONTAINER_OF(job, struct devmem_device, job);

	x->result = x->owner->ops->open(x->ordinal, &x->dev, x->error, sizeof(x->error));
}

/* The probe's lane is the first GPU's; the others get theirs here. */
static int devmem_open_gpu(struct devmem *d, struct devmem_device *x, char *error, size_t size)
{
	int lane = x == &d->devices[0] ? 0 : work_lane_new(d->work);

	if (lane < 0)
		return lane;
	x->lane = lane;
	x->job.run = devmem_open_run;
	int r = devmem_wait(d, (uint32_t)lane, &x->job);
	if (r < 0)
		snprintf(error, size, "GPU %u: the driver does not answer", x->ordinal);
	else
		snprintf(error, size, "%s", x->error);
	return r < 0 ? r : x->result;
}

static int devmem_open_all(struct devmem *d, const struct devprobe *found, char *error, size_t size)
{
	int r = 0;

	d->ops = found->ops;
	devprobe_pools(found, d->pool_bytes_default);
	for (uint32_t i = 0; i < found->count && r == 0; i++) {
		struct devmem_device *x = &d->devices[d->device_count++];
		*x = (struct devmem_device){.owner = d,
					    .ordinal = found->devices[i].ordinal,
					    .info = found->devices[i].info,
					    .lane = -1};
		if (d->ops->kind == KVD_SLAB_HOST)
			r = d->ops->open(x->ordinal, &x->dev, error, size);
		else
			r = devmem_open_gpu(d, x, error, size);
	}
	return r;
}

static void devmem_say(const struct devmem *d, const struct devprobe *found)
{
	char bytes[32], uuid[UUID_TEXT];

	if (found->why[0])
		log_info("devmem", "auto takes %s: %s", d->ops->name, found->why);
	for (uint32_t i = 0; i < d->device_count && d->ops->kind != KVD_SLAB_HOST; i++)
		log_info("devmem", "device %u: %s, GPU %u: %s, %s, %s", i, d->ops->name,
			 d->devices[i].ordinal, d->devices[i].info.name,
			 units_format_bytes(d->devices[i].info.bytes, bytes, sizeof(bytes)),
			 uuid_format(d->devices[i].info.uuid, uuid));
}

/* In the heap, because a driver that never answers may still write there when we have given up. */
static int devmem_probe(struct devmem *d, const char *memory, const char *wanted,
			struct devmem_probe **out, char *error, size_t size)
{
	struct devmem_probe *p = calloc(1, sizeof(*p));
	int lane = p ? work_lane_new(d->work) : -ENOMEM;

	if (lane < 0) {
		free(p);
		return lane;
	}
	p->memory = memory;
	p->wanted = wanted;
	p->job.run = devmem_probe_run;
	int r = devmem_wait(d, (uint32_t)lane, &p->job);
	if (r < 0) {
		snprintf(error, size, "device memory %s: the driver does not answer", memory);
		return r;
	}
	r = p->result;
	if (r < 0) {
		snprintf(error, size, "%s", p->error);
		free(p);
	} else {
		*out = p;
	}
	return r;
}

static int devmem_records(struct devmem *d)
{
	uint32_t total = DEVMEM_SLABS_MAX + DEVMEM_SPARES;

	list_init(&d->spares);
	int r = slabmap_init(&d->map, DEVMEM_SLABS_MAX);
	if (r < 0)
		return r;
	d->slabs = calloc(DEVMEM_SLABS_MAX, sizeof(struct devmem_slab *));
	d->records = calloc(total, sizeof(*d->records));
	if (!d->slabs || !d->records)
		return -ENOMEM;
	for (uint32_t i = 0; i < total; i++) {
		d->records[i].owner = d;
		if (i < DEVMEM_SLABS_MAX)
			d->slabs[i] = &d->records[i];
		else
			list_push_back(&d->spares, &d->records[i].link);
	}
	return 0;
}

int devmem_init(struct devmem *d, const char *memory, const char *wanted, uint64_t timeout_ns,
		struct work *work, char *error, size_t size)
{
	struct devmem_probe *probe = NULL;
	struct devprobe host;
	int r;

	*d = (struct devmem){.work = work, .timeout_ns = timeout_ns};
	r = devmem_records(d);
	if (r < 0)
		return r;
	/* The host asks no driver, and needs no lane. */
	if (strcmp(memory, device_host()->name) == 0)
		r = devprobe(&host, memory, wanted, error, size);
	else
		r = devmem_probe(d, memory, wanted, &probe, error, size);
	if (r < 0)
		return r;
	r = devmem_open_all(d, probe ? &probe->found : &host, error, size);
	if (r == 0 && probe)
		devmem_say(d, &probe->found);
	free(probe);
	return r;
}

static void devmem_pin_run(struct work_job *job)
{
	struct devmem_device *x = CONTAINER_OF(job, struct devmem_device, job);
	const struct device_ops *ops = x->owner->ops;

	x->result = ops->pin(x->dev, x->pin, x->pin_bytes);
	if (x->result < 0)
		snprintf(x->error, sizeof(x->error), "%s", ops->failure(x->dev));
}

/* What one GPU has pinned is pinned for all of them; the second is told that it is there. */
int devmem_pin(struct devmem *d, void *memory, size_t bytes, char *error, size_t size)
{
	ASSERT(bytes <= DEVMEM_PIN_BYTES);
	for (uint32_t i = 0; i < d->device_count; i++) {
		struct devmem_device *x = &d->devices[i];
		if (x->lane < 0)
			continue;
		x->job.run = devmem_pin_run;
		x->pin = memory;
		x->pin_bytes = bytes;
		int r = devmem_wait(d, (uint32_t)x->lane, &x->job);
		if (r < 0)
			snprintf(x->error, sizeof(x->error), "the driver does not answer");
		else
			r = x->result == -EEXIST ? 0 : x->result;
		if (r < 0) {
			snprintf(error, size, "GPU %u: %s", x->ordinal, x->error);
			return r;
		}
	}
	return 0;
}

uint32_t devmem_list(const struct devmem *d, struct kvd_device out[KVD_DEVICES_MAX])
{
	for (uint32_t i = 0; i < d->device_count; i++) {
		const struct device_info *info = &d->devices[i].info;
		out[i] = (struct kvd_device){.kind = d->ops->kind, .index = i};
		memcpy(out[i].uuid, info->uuid, sizeof(out[i].uuid));
		memcpy(out[i].name, info->name, sizeof(out[i].name));
	}
	return d->device_count;
}

/* --- orders -------------------------------------------------------------------------------------
 */

static struct devmem_slab *devmem_find(const struct devmem *d, uint32_t slab)
{
	return slab < DEVMEM_SLABS_MAX ? d->slabs[slab] : NULL;
}

/* On a worker. */
static void devmem_make(struct devmem_slab *s)
{
	const struct devmem *d = s->owner;
	struct device *dev;

	s->result = -ENODEV;
	if (s->order.device >= d->device_count)
		return;
	dev = d->devices[s->order.device].dev;
	s->result = d->ops->slab_alloc(dev, s->order.slab_bytes, &s->memory);
	if (s->result < 0 && d->ops->failure(dev)[0])
		s->words = strdup(d->ops->failure(dev));
	CRASH_POINT(slab_made);
}

/* On a worker. */
static void devmem_destroy(struct devmem_slab *s)
{
	const struct device_ops *ops = s->owner->ops;
	struct device *dev = s->owner->devices[s->order.device].dev;

	s->result = s->order.forced && ops->slab_punch ? ops->slab_punch(dev, &s->memory) : 0;
	ops->slab_free(dev, &s->memory);
	CRASH_POINT(slab_destroyed);
}

/* On any worker, for a GPU that hangs. */
static void devmem_refuse(struct work_job *job)
{
	struct devmem_slab *s = CONTAINER_OF(job, struct devmem_slab, job);

	s->result = -EIO;
	s->words = strdup("the GPU's driver does not answer");
}

static void devmem_run(struct work_job *job)
{
	struct devmem_slab *s = CONTAINER_OF(job, struct devmem_slab, job);
	uint64_t start_ns = units_now_ns();

	if (s->order.kind == CORE_ORDER_SLAB_MAKE)
		devmem_make(s);
	else
		devmem_destroy(s);
	s->took_ns = units_now_ns() - start_ns;
}

static void devmem_submit(struct devmem *d, struct devmem_slab *s)
{
	struct devmem_device *x =
		s->order.device < d->device_count ? &d->devices[s->order.device] : NULL;
	bool make = s->order.kind == CORE_ORDER_SLAB_MAKE;

	s->job.run = x && x->stuck && make ? devmem_refuse : devmem_run;
	s->waits = false;
	s->busy = true;
	s->ordered_ns = units_now_ns();
	if (x && x->lane >= 0 && s->job.run == devmem_run) {
		d->making_count += make;
		work_submit_lane(d->work, (uint32_t)x->lane, &s->job);
	} else {
		work_submit(d->work, &s->job);
	}
	CRASH_POINT(slab_ordered);
}

void devmem_order(struct devmem *d, const struct core_order *order)
{
	struct devmem_slab *s = devmem_find(d, order->slab);

	ASSERT(s && !s->busy && !s->waits);
	s->order = *order;
	if (order->kind == CORE_ORDER_SLAB_DESTROY)
		slabmap_remove(&d->map, order->first_page);
	if (order->kind == CORE_ORDER_SLAB_MAKE || s->importers.count == 0) {
		devmem_submit(d, s);
		return;
	}
	s->waits = true;
	log_warn("devmem",
		 "slab %u: %u importers have not unmapped it; it goes when they have ended",
		 order->slab, s->importers.count);
}

static void devmem_log(const struct devmem_slab *s)
{
	const struct core_order *o = &s->order;
	char bytes[32], stride[32];

	units_format_bytes(o->slab_bytes, bytes, sizeof(bytes));
	units_format_bytes(o->stride_bytes, stride, sizeof(stride));
	if (s->result < 0 && o->kind == CORE_ORDER_SLAB_MAKE)
		log_warn("devmem", "slab %u: %s cannot be had, the pool is that much less: %s",
			 o->slab, bytes, s->words ? s->words : strerror(-s->result));
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

/* On a lane and in time, or late. */
static bool devmem_was_made(const struct devmem *d, const struct devmem_slab *s)
{
	return s->order.kind == CORE_ORDER_SLAB_MAKE && s->job.run == devmem_run &&
	       s->order.device < d->device_count && d->devices[s->order.device].lane >= 0;
}

static void devmem_map_add(struct devmem *d, const struct devmem_slab *s)
{
	struct slabmap_slab slab = {.first_page = s->order.first_page,
				    .page_count = s->order.page_count,
				    .device = s->order.device,
				    .stride_bytes = s->order.stride_bytes,
				    .address = s->memory.address};

	slabmap_add(&d->map, &slab);
}

/* The GPU answers again. What it made is nobody's; when that is gone the record is spare. */
static void devmem_late(struct devmem *d, struct devmem_slab *s)
{
	if (s->order.kind == CORE_ORDER_SLAB_MAKE) {
		d->devices[s->order.device].stuck--;
		log_warn("devmem", "GPU %u: its driver answers again",
			 d->devices[s->order.device].ordinal);
	}
	if (s->memory.bytes) {
		s->order.kind = CORE_ORDER_SLAB_DESTROY;
		devmem_submit(d, s);
		return;
	}
	s->given_up = false;
	list_push_back(&d->spares, &s->link);
}

bool devmem_done(struct devmem *d, struct work_job *job, struct devmem_result *out)
{
	struct devmem_slab *s = CONTAINER_OF(job, struct devmem_slab, job);

	if (!s->given_up) {
		devmem_log(s);
		d->making_count -= devmem_was_made(d, s);
	}
	free(s->words);
	s->words = NULL;
	s->busy = false;
	*out = (struct devmem_result){s->order.kind, s->order.slab, s->result};
	if (!s->given_up && s->order.kind == CORE_ORDER_SLAB_MAKE && s->result == 0)
		devmem_map_add(d, s);
	if (!s->given_up)
		return true;
	devmem_late(d, s);
	return false;
}

static bool devmem_is_late(const struct devmem *d, const struct devmem_slab *s, uint64_t now_ns)
{
	return s->busy && devmem_was_made(d, s) && s->ordered_ns + d->timeout_ns <= now_ns;
}

bool devmem_overdue(struct devmem *d, uint64_t now_ns, struct devmem_result *out)
{
	for (uint32_t i = 0; d->making_count && i < DEVMEM_SLABS_MAX; i++) {
		struct devmem_slab *s = d->slabs[i];
		if (!devmem_is_late(d, s, now_ns) || list_empty(&d->spares))
			continue;
		log_error("devmem", "slab %u: GPU %u does not make it, its driver hangs; given up",
			  i, d->devices[s->order.device].ordinal);
		s->given_up = true;
		d->making_count--;
		d->devices[s->order.device].stuck++;
		d->slabs[i] = CONTAINER_OF(d->spares.next, struct devmem_slab, link);
		list_remove(&d->slabs[i]->link);
		*out = (struct devmem_result){CORE_ORDER_SLAB_MAKE, i, -ETIMEDOUT};
		return true;
	}
	return false;
}

uint64_t devmem_deadline_ns(const struct devmem *d)
{
	uint64_t at_ns = UINT64_MAX;

	for (uint32_t i = 0; d->making_count && i < DEVMEM_SLABS_MAX; i++)
		if (d->slabs[i]->busy && devmem_was_made(d, d->slabs[i]))
			at_ns = BITS_MIN(at_ns, d->slabs[i]->ordered_ns + d->timeout_ns);
	return at_ns;
}

int devmem_export(struct devmem *d, struct kvd_slab_wire *wire, int *out_fd)
{
	struct devmem_slab *s = devmem_find(d, wire->slab);

	if (!s || s->busy || s->waits || !s->memory.bytes)
		return -ENOENT;
	return d->ops->slab_export(d->devices[s->order.device].dev, &s->memory, wire, out_fd);
}

void devmem_page(struct devmem *d, uint32_t page, uint32_t *out_device, uint64_t *out_address)
{
	struct slabmap_slab *s = slabmap_find(&d->map, page);

	ASSERT(s);
	s->holds++;
	*out_device = s->device;
	*out_address = s->address + (page - s->first_page) * s->stride_bytes;
}

void devmem_page_end(struct devmem *d, uint32_t page)
{
	struct slabmap_slab *s = slabmap_find(&d->map, page);

	ASSERT(s && s->holds > 0);
	s->holds--;
}

/* --- importers ----------------------------------------------------------------------------------
 */

int devmem_imported(struct devmem *d, uint32_t slab, uint32_t session, uint64_t process)
{
	return d->ops->slab_punch ? 0 : importers_add(&d->slabs[slab]->importers, session, process);
}

static void devmem_settle(struct devmem *d, struct devmem_slab *s)
{
	if (s->waits && s->importers.count == 0)
		devmem_submit(d, s);
}

void devmem_unmapped(struct devmem *d, uint32_t slab, uint32_t session)
{
	struct devmem_slab *s = devmem_find(d, slab);

	if (!s)
		return;
	importers_drop_session(&s->importers, session);
	devmem_settle(d, s);
}

void devmem_session_end(struct devmem *d, uint32_t session, bool clean)
{
	for (uint32_t i = 0; i < DEVMEM_SLABS_MAX; i++) {
		struct devmem_slab *s = d->slabs[i];
		if (s->importers.count == 0)
			continue;
		if (clean)
			importers_drop_session(&s->importers, session);
		else
			importers_orphan_session(&s->importers, session);
		devmem_settle(d, s);
	}
}

void devmem_process_quiet(struct devmem *d, uint64_t process)
{
	for (uint32_t i = 0; i < DEVMEM_SLABS_MAX; i++) {
		struct devmem_slab *s = d->slabs[i];
		if (s->importers.count == 0)
			continue;
		importers_drop_orphan(&s->importers, process);
		devmem_settle(d, s);
	}
}

void devmem_process_end(struct devmem *d, uint64_t process)
{
	for (uint32_t i = 0; i < DEVMEM_SLABS_MAX; i++) {
		struct devmem_slab *s = d->slabs[i];
		if (s->importers.count == 0)
			continue;
		importers_drop_process(&s->importers, process);
		devmem_settle(d, s);
	}
}

/* --- the end ------------------------------------------------------------------------------------
 */

/* What others still map is left to the driver, which frees it when they end. */
static void devmem_free_slabs(struct devmem *d, uint32_t device)
{
	for (uint32_t i = 0; i < DEVMEM_SLABS_MAX; i++) {
		struct devmem_slab *s = d->slabs[i];
		/* Other devices' slabs are just being freed by their lanes. */
		if (s->order.device != device)
			continue;
		if (s->memory.bytes && s->importers.count == 0)
			d->ops->slab_free(d->devices[device].dev, &s->memory);
	}
}

static void devmem_close_run(struct work_job *job)
{
	struct devmem_device *x = CONTAINER_OF(job, struct devmem_device, job);

	devmem_free_slabs(x->owner, (uint32_t)(x - x->owner->devices));
	x->owner->ops->close(x->dev);
	x->dev = NULL;
}

void devmem_stop(struct devmem *d)
{
	for (uint32_t i = 0; i < d->device_count; i++) {
		struct devmem_device *x = &d->devices[i];
		if (x->lane < 0 || !x->dev)
			continue;
		x->job.run = devmem_close_run;
		work_submit_lane(d->work, (uint32_t)x->lane, &x->job);
	}
}

void devmem_fini(struct devmem *d)
{
	for (uint32_t i = 0; i < d->device_count; i++) {
		if (!d->devices[i].dev)
			continue;
		devmem_free_slabs(d, i);
		d->ops->close(d->devices[i].dev);
	}
	for (uint32_t i = 0; d->records && i < DEVMEM_SLABS_MAX + DEVMEM_SPARES; i++) {
		importers_fini(&d->records[i].importers);
		free(d->records[i].words);
	}
	free(d->records);
	free(d->slabs);
	slabmap_fini(&d->map);
	*d = (struct devmem){0};
}
