/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kvd says in its welcome where it has slabs, and in each slab's description of which kind it is
 * and on which GPU. Two processes may number their GPUs differently: the UUID alone says which is
 * meant. A kind is opened once a process and stays, because a daemon that comes back may have
 * another while slabs of the first are still mapped.
 */
#include "engine/devmap.h"
#include "base/log.h"
#include "base/uuid.h"
#include "kernels/mem/device.h"
#include <errno.h>
#include <stdlib.h>

#define DEVMAP_KINDS 3

static const char *const devmap_names[DEVMAP_KINDS] = {[KVD_SLAB_HOST] = "host",
						       [KVD_SLAB_CUDA_IPC] = "cuda-ipc",
						       [KVD_SLAB_CUDA_VMM] = "cuda-vmm"};

struct devmap {
	struct kvd_map_ops ops;
	uint8_t uuid[16];
	struct devmap_kind {
		const struct device_ops *ops;
		struct device *dev;
	} kinds[DEVMAP_KINDS];
	int result; /* of the last import, and why it failed */
	char words[320];
};

static struct devmap_kind *devmap_of(struct devmap *m, uint32_t kind)
{
	return kind < DEVMAP_KINDS && m->kinds[kind].dev ? &m->kinds[kind] : NULL;
}

static int devmap_map(void *ctx, const struct kvd_slab_wire *slab, int fd, uint64_t *out_read,
		      uint64_t *out_write)
{
	struct devmap *m = ctx;
	struct devmap_kind *k = devmap_of(m, slab->kind);
	struct device_view view;

	m->words[0] = '\0';
	int r = k ? k->ops->slab_import(k->dev, slab, fd, &view) : -EPROTO;
	if (r < 0) {
		snprintf(m->words, sizeof(m->words), "%s",
			 k ? k->ops->failure(k->dev) : "kvd's welcome named no such memory");
		m->result = r;
		log_error("kvd", "slab %u: %s", slab->slab, m->words);
		return r;
	}
	m->result = 0;
	*out_read = view.read;
	*out_write = view.write;
	return 0;
}

static void devmap_unmap(void *ctx, const struct kvd_slab_wire *slab, uint64_t read, uint64_t write)
{
	struct devmap_kind *k = devmap_of(ctx, slab->kind);
	struct device_view view = {.read = read, .write = write, .bytes = slab->slab_bytes};

	k->ops->slab_unmap(k->dev, &view);
}

/* One of them is open, or no page could have been leased; any fills memory of this GPU. */
static void devmap_poison(void *ctx, uint64_t write, uint64_t bytes)
{
	struct devmap *m = ctx;

	for (uint32_t i = 0; i < DEVMAP_KINDS; i++) {
		struct devmap_kind *k = devmap_of(m, i);
		if (!k)
			continue;
		if (k->ops->fill(k->dev, write, 0xff, bytes) < 0)
			log_error("kvd", "poison: %s", k->ops->failure(k->dev));
		return;
	}
}

static const char *devmap_failure(void *ctx)
{
	return ((struct devmap *)ctx)->words;
}

struct devmap *devmap_new(const uint8_t uuid[16])
{
	struct devmap *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	memcpy(m->uuid, uuid, sizeof(m->uuid));
	m->ops = (struct kvd_map_ops){.map = devmap_map,
				      .unmap = devmap_unmap,
				      .ctx = m,
				      .poison = devmap_poison,
				      .failure = devmap_failure};
	return m;
}

void devmap_free(struct devmap *m)
{
	for (uint32_t i = 0; m && i < DEVMAP_KINDS; i++)
		if (m->kinds[i].dev)
			m->kinds[i].ops->close(m->kinds[i].dev);
	free(m);
}

const struct kvd_map_ops *devmap_ops(const struct devmap *m)
{
	return &m->ops;
}

void devmap_forget(struct devmap *m)
{
	m->result = 0;
}

const char *devmap_why(const struct devmap *m, int result)
{
	return result < 0 && m->result == result ? m->words : NULL;
}

/* The number, in this process, of the GPU with our uuid. */
static int devmap_ordinal(const struct devmap *m, const struct device_ops *ops, char *error,
			  size_t size)
{
	struct device_info info;
	char uuid[UUID_TEXT];
	int count = ops->count(error, size), refused = 0;

	if (count < 0)
		return count;
	for (int i = 0; i < count; i++) {
		int r = ops->describe((uint32_t)i, &info, error, size);
		if (r == 0 && memcmp(info.uuid, m->uuid, sizeof(m->uuid)) == 0)
			return i;
		refused = r < 0 ? r : refused;
	}
	/* It may be one that cannot have such memory: the words are there. */
	if (refused < 0)
		return refused;
	snprintf(error, size, "%s: no GPU of this process is %s", ops->name,
		 uuid_format(m->uuid, uuid));
	return -ENODEV;
}

int devmap_open(struct devmap *m, uint32_t kind, char *error, size_t size)
{
	if (kind >= DEVMAP_KINDS || kind == KVD_SLAB_HOST) {
		snprintf(error, size, "kvd has memory of a kind (%u) that is unknown here", kind);
		return -EPROTO;
	}
	struct devmap_kind *k = &m->kinds[kind];
	if (k->dev)
		return 0;
	k->ops = device_find(devmap_names[kind], error, size);
	if (!k->ops)
		return -ENODEV;
	int ordinal = devmap_ordinal(m, k->ops, error, size);
	return ordinal < 0 ? ordinal : k->ops->open((uint32_t)ordinal, &k->dev, error, size);
}

/* Nothing fits: what kvd has, what we have, and how to make them meet. */
static void devmap_differ(const struct kvd_device *first, const uint8_t uuid[16], char *error,
			  size_t size)
{
	char theirs[UUID_TEXT], ours[UUID_TEXT];

	uuid_format(first->uuid, theirs);
	uuid_format(uuid, ours);
	if (uuid_is_zero(uuid))
		snprintf(error, size,
			 "kvd's pages lie on a GPU (%s, %s), this engine computes on the CPU: give "
			 "the engine --device cuda:N, or kvd --device-memory host",
			 first->name, theirs);
	else if (first->kind == KVD_SLAB_HOST)
		snprintf(error, size,
			 "kvd's pages lie in host memory, this engine computes on %s: give kvd "
			 "--device-memory auto, or the engine --device cpu",
			 ours);
	else
		snprintf(error, size,
			 "kvd's pages lie on %s (%s), this engine computes on %s: see --devices of "
			 "kvd, --device of the engine and CUDA_VISIBLE_DEVICES of both",
			 theirs, first->name, ours);
}

int devmap_choose(const struct kvd_device *devices, uint32_t count, const uint8_t uuid[16],
		  char *error, size_t size)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct kvd_device *d = &devices[i];
		bool host = d->kind == KVD_SLAB_HOST;
		if (host == uuid_is_zero(uuid) &&
		    (host || memcmp(d->uuid, uuid, sizeof(d->uuid)) == 0))
			return (int)d->index;
	}
	devmap_differ(&devices[0], uuid, error, size);
	return -EXDEV;
}
