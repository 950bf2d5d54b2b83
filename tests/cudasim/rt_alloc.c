/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cudaMalloc and cudaFree. A chunk is one segment of the machine, a multiple of 2 MiB. Allocations
 * of a mebibyte and more have a chunk of their own; smaller ones share chunks of 2 MiB, first fit,
 * aligned to 256 bytes: who exports one exports its neighbours, as on the real thing. A free waits
 * for all work of the device, fills the memory with poison, and gives a chunk back with its last
 * block.
 */
#include "tests/cudasim/rt_alloc.h"
#include "tests/cudasim/rt.h"
#include "tests/cudasim/rt_area.h"
#include "tests/cudasim/rt_map.h"
#include "tests/cudasim/rt_queue.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALLOC_ALIGN 256u
#define ALLOC_SHARED_MAX (1u << 20)
#define ALLOC_POISON 0xff

static struct rt_chunk *chunks;

static uint64_t alloc_round(uint64_t bytes, uint64_t step)
{
	return (bytes + step - 1) / step * step;
}

void rt_alloc_misuse(int device, const char *what)
{
	fprintf(stderr, "cudasim: misuse: %s\n", what);
	rt_fault_count("misuse");
	if (rt_env_u64("CUDASIM_STRICT", 0))
		rt_error_break(device, cudaErrorLaunchFailure, what);
}

static struct rt_chunk *alloc_chunk_new(int device, uint64_t bytes, bool shared)
{
	struct rt_chunk *c = calloc(1, sizeof(*c));
	int fd = -1;

	if (!c)
		return NULL;
	c->bytes = alloc_round(bytes, RT_GRANULARITY);
	c->device = device;
	c->shared = shared;
	if (rt_machine_new(rt_device(device)->physical, c->bytes, &c->segment, &fd) < 0)
		goto no_segment;
	c->base = rt_map_reserve(c->bytes);
	if (!c->base)
		goto no_addresses;
	if (rt_map_file(c->base, c->bytes, fd, PROT_READ | PROT_WRITE) < 0)
		goto no_map;
	close(fd);
	rt_map_forbid(c->base, c->bytes);
	c->next = chunks;
	chunks = c;
	return c;
no_map:
	rt_map_drop(c->base, c->bytes);
no_addresses:
	close(fd);
	rt_machine_leave(&c->segment, true);
no_segment:
	free(c);
	return NULL;
}

static void alloc_chunk_free(struct rt_chunk *c)
{
	struct rt_chunk **at = &chunks;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	rt_map_drop(c->base, c->bytes);
	if (rt_machine_leave(&c->segment, true))
		rt_alloc_misuse(c->device, "cudaFree while another process maps the memory");
	free(c);
}

/* The first gap of the chunk that is large enough, or NULL. */
static uint8_t *alloc_gap(const struct rt_chunk *c, uint64_t bytes)
{
	uint8_t *at = c->base;

	while (at + bytes <= c->base + c->bytes) {
		struct rt_area *a = rt_area_next(at);
		if (!a || a->base >= at + bytes)
			return at;
		at = a->base + alloc_round(a->bytes, ALLOC_ALIGN);
	}
	return NULL;
}

static struct rt_chunk *alloc_shared(int device, uint64_t bytes, uint8_t **out)
{
	for (struct rt_chunk *c = chunks; c; c = c->next) {
		if (!c->shared || c->device != device)
			continue;
		*out = alloc_gap(c, bytes);
		if (*out)
			return c;
	}
	struct rt_chunk *c = alloc_chunk_new(device, RT_GRANULARITY, true);
	if (c)
		*out = c->base;
	return c;
}

static cudaError_t alloc_new(void **out, size_t bytes)
{
	int device = rt_device_current();
	struct rt_chunk *c;
	uint8_t *base;

	if (!out)
		return cudaErrorInvalidValue;
	*out = NULL;
	if (bytes == 0)
		return cudaSuccess;
	if (bytes > rt_device_bytes())
		return cudaErrorMemoryAllocation;
	if (bytes < ALLOC_SHARED_MAX) {
		c = alloc_shared(device, bytes, &base);
	} else {
		c = alloc_chunk_new(device, bytes, false);
		base = c ? c->base : NULL;
	}
	if (!c || !rt_area_add(&(struct rt_area){.base = base,
						 .bytes = bytes,
						 .kind = RT_AREA_BLOCK,
						 .device = device,
						 .chunk = c})) {
		if (c && c->blocks == 0)
			alloc_chunk_free(c);
		return cudaErrorMemoryAllocation;
	}
	c->blocks++;
	rt_map_allow(base, bytes);
	*out = base;
	return cudaSuccess;
}

static cudaError_t alloc_free(void *at)
{
	struct rt_area *a = rt_area_find(at);

	if (!at)
		return cudaSuccess;
	if (!a || a->base != at || a->kind != RT_AREA_BLOCK)
		return cudaErrorInvalidValue;
	cudaError_t e = rt_queue_drain(a->device);
	if (e != cudaSuccess)
		return e;
	struct rt_chunk *c = a->chunk;
	sim_memory_open();
	memset(a->base, ALLOC_POISON, a->bytes);
	sim_memory_close();
	rt_map_forbid(a->base, a->bytes);
	rt_area_remove(a);
	if (--c->blocks == 0)
		alloc_chunk_free(c);
	return cudaSuccess;
}

cudaError_t cudaMalloc(void **devPtr, size_t size)
{
	cudaError_t e = rt_enter(RT_MALLOC);

	if (e == cudaSuccess)
		e = alloc_new(devPtr, size);
	return rt_leave(e);
}

cudaError_t cudaFree(void *devPtr)
{
	cudaError_t e = rt_enter(RT_FREE);

	if (e == cudaSuccess)
		e = alloc_free(devPtr);
	return rt_leave(e);
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
	cudaError_t e = rt_enter(RT_MEMINFO);

	if (e == cudaSuccess) {
		*free = rt_machine_free_bytes(rt_device(rt_device_current())->physical);
		*total = rt_device_bytes();
	}
	return rt_leave(e);
}

/* The process ends in order: what is left of its memory goes, unless others map it. */
__attribute__((destructor)) static void alloc_fini(void)
{
	for (struct rt_chunk *c = chunks; c; c = c->next) {
		/* A fork that ends owns nothing. */
		if (c->segment.pid != getpid())
			continue;
		rt_map_unfile(c->base, c->bytes);
		(void)rt_machine_leave(&c->segment, true);
	}
}
