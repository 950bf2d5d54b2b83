/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See prf_gpu.h. One staging page of pinned host memory; each copy is waited for before its bytes
 * are used or its page is sealed, as an engine waits for the event of its step. A copy that fails
 * ends the client: there is nothing to go on with.
 */
#include "tests/e2e/prf_gpu.h"
#include "base/uuid.h"
#include "engine/devmap.h"
#include "kernels/mem/device.h"
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct prf_gpu {
	uint32_t ordinal;
	struct device_info info;
	struct devmap *map;
	const struct device_ops *ops; /* of kvd's kind, for copies */
	struct device *dev;
	uint8_t *stage;
	size_t stage_bytes;
};

static int prf_gpu_stage(struct prf_gpu *g, uint64_t page_bytes)
{
	uint64_t os_page = (uint64_t)sysconf(_SC_PAGESIZE);

	g->stage_bytes = (page_bytes + os_page - 1) / os_page * os_page;
	g->stage = mmap(NULL, g->stage_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	return g->stage == MAP_FAILED ? -errno : 0;
}

int prf_gpu_new(uint32_t ordinal, uint64_t page_bytes, struct prf_gpu **out, char *error,
		size_t size)
{
	struct prf_gpu *g = calloc(1, sizeof(*g));
	const struct device_ops *any = device_find("cuda-vmm", error, size);

	if (!g)
		return -ENOMEM;
	g->ordinal = ordinal;
	int r = any ? any->describe(ordinal, &g->info, error, size) : -ENODEV;
	if (r == 0)
		r = prf_gpu_stage(g, page_bytes);
	if (r == 0) {
		g->map = devmap_new(g->info.uuid);
		r = g->map ? 0 : -ENOMEM;
	}
	if (r < 0) {
		free(g);
		return r;
	}
	*out = g;
	return 0;
}

void prf_gpu_free(struct prf_gpu *g)
{
	if (!g)
		return;
	devmap_free(g->map);
	if (g->dev)
		g->ops->close(g->dev);
	munmap(g->stage, g->stage_bytes);
	free(g);
}

const struct kvd_map_ops *prf_gpu_map_ops(const struct prf_gpu *g)
{
	return g ? devmap_ops(g->map) : NULL;
}

static int prf_gpu_open(struct prf_gpu *g, uint32_t kind, char *error, size_t size)
{
	int r = devmap_open(g->map, kind, error, size);

	if (r < 0)
		return r;
	g->ops = device_find(kind == KVD_SLAB_CUDA_IPC ? "cuda-ipc" : "cuda-vmm", error, size);
	r = g->ops->open(g->ordinal, &g->dev, error, size);
	if (r == 0)
		r = g->ops->pin(g->dev, g->stage, g->stage_bytes);
	return r;
}

int prf_gpu_device(struct prf_gpu *g, struct kvd *k, char *error, size_t size)
{
	static const uint8_t host[UUID_BYTES];
	struct kvd_device devices[KVD_DEVICES_MAX];
	uint32_t count = kvd_devices(k, devices, KVD_DEVICES_MAX);
	int device = devmap_choose(devices, count, g ? g->info.uuid : host, error, size);

	if (device < 0 || !g)
		return device;
	int r = prf_gpu_open(g, devices[device].kind, error, size);
	return r < 0 ? r : device;
}

void prf_gpu_copy(struct prf_gpu *g, uint64_t to, uint64_t from, uint64_t bytes)
{
	uint64_t ticket;
	int r;

	if (!g) {
		memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
		return;
	}
	r = g->ops->copy_start(g->dev, to, from, bytes, &ticket);
	while (r == 0 && (r = g->ops->copy_poll(g->dev, ticket)) == 0)
		sched_yield();
	if (r < 0) {
		fprintf(stderr, "prf_client: %s\n", g->ops->failure(g->dev));
		_exit(3);
	}
}

void prf_gpu_write(struct prf_gpu *g, const struct prf_sequence *s, struct prf_page page,
		   uint32_t first, uint32_t end, uint64_t address)
{
	uint32_t place_bytes = page.bytes / page.tokens;
	uint64_t offset = (uint64_t)(first % page.tokens) * place_bytes;

	prf_write(s, page, first, end, g ? g->stage : (void *)(uintptr_t)address);
	if (g)
		prf_gpu_copy(g, address + offset, (uintptr_t)g->stage + offset,
			     (uint64_t)(end - first) * place_bytes);
}

uint32_t prf_gpu_wrong(struct prf_gpu *g, const struct prf_sequence *s, struct prf_page page,
		       uint32_t first, uint32_t end, uint64_t address)
{
	if (g)
		prf_gpu_copy(g, (uintptr_t)g->stage, address, page.bytes);
	return prf_wrong(s, page, first, end, g ? g->stage : (const void *)(uintptr_t)address);
}
