/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registered ("pinned") host memory. Its device address is its own address. Two registrations may
 * touch but not overlap, and nothing merges them: a copy that crosses from one into the next is
 * refused.
 */
#include "tests/cudasim/rt_host.h"
#include "tests/cudasim/rt.h"
#include "tests/cudasim/rt_area.h"
#include "tests/cudasim/rt_map.h"
#include "tests/cudasim/rt_queue.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static struct rt_host *hosts;

const struct rt_host *rt_host_find(const void *at)
{
	struct rt_host *h = hosts;

	while (h && (size_t)((const uint8_t *)at - h->base) >= h->bytes)
		h = h->next;
	return h;
}

bool sim_is_pinned(const void *at, size_t bytes)
{
	rt_lock();
	const struct rt_host *h = rt_host_find(at);
	bool yes = h && bytes <= h->bytes - (size_t)((const uint8_t *)at - h->base);
	rt_unlock();
	return yes;
}

static bool host_overlaps(const uint8_t *base, size_t bytes)
{
	for (const struct rt_host *h = hosts; h; h = h->next)
		if (base < h->base + h->bytes && h->base < base + bytes)
			return true;
	return false;
}

static bool host_mapped(uint8_t *base, size_t bytes)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = (uintptr_t)base & ~(page - 1), to = (uintptr_t)base + bytes;

	/* Says ENOMEM where something is not mapped. */
	return msync((void *)from, to - from, MS_ASYNC) == 0;
}

static cudaError_t host_add(uint8_t *base, size_t bytes, bool owned)
{
	struct rt_host *h;

	if (!base || !bytes || rt_map_owns(base))
		return cudaErrorInvalidValue;
	if (host_overlaps(base, bytes))
		return cudaErrorHostMemoryAlreadyRegistered;
	if (!host_mapped(base, bytes))
		return cudaErrorInvalidValue;
	h = malloc(sizeof(*h));
	if (!h)
		return cudaErrorMemoryAllocation;
	*h = (struct rt_host){.next = hosts, .base = base, .bytes = bytes, .owned = owned};
	hosts = h;
	return cudaSuccess;
}

/* Work may still use it: all of it is waited for. */
static cudaError_t host_remove(void *base, bool owned)
{
	struct rt_host **at = &hosts;

	while (*at && ((*at)->base != base || (*at)->owned != owned))
		at = &(*at)->next;
	if (!*at)
		return owned ? cudaErrorInvalidValue : cudaErrorHostMemoryNotRegistered;
	for (int d = 0; d < rt_device_count(); d++)
		(void)rt_queue_drain(d);
	struct rt_host *h = *at;
	*at = h->next;
	if (owned)
		munmap(h->base, h->bytes);
	free(h);
	return cudaSuccess;
}

cudaError_t cudaHostRegister(void *ptr, size_t size, unsigned int flags)
{
	cudaError_t e = rt_enter(RT_REGISTER);

	if (e == cudaSuccess)
		e = host_add(ptr, size, false);
	return rt_leave(e);
}

cudaError_t cudaHostUnregister(void *ptr)
{
	cudaError_t e = rt_enter(RT_UNREGISTER);

	if (e == cudaSuccess)
		e = host_remove(ptr, false);
	return rt_leave(e);
}

cudaError_t cudaHostAlloc(void **pHost, size_t size, unsigned int flags)
{
	cudaError_t e = rt_enter(RT_REGISTER);

	if (e == cudaSuccess) {
		void *p = mmap(NULL, size ? size : 1, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		e = p == MAP_FAILED ? cudaErrorMemoryAllocation
				    : host_add(p, size ? size : 1, true);
		if (e == cudaSuccess)
			*pHost = p;
	}
	return rt_leave(e);
}

cudaError_t cudaMallocHost(void **ptr, size_t size)
{
	return cudaHostAlloc(ptr, size, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void *ptr)
{
	cudaError_t e = rt_enter(RT_UNREGISTER);

	if (e == cudaSuccess && ptr)
		e = host_remove(ptr, true);
	return rt_leave(e);
}

cudaError_t cudaHostGetDevicePointer(void **pDevice, void *pHost, unsigned int flags)
{
	cudaError_t e = rt_enter(RT_POINTER);

	if (e == cudaSuccess && !rt_host_find(pHost))
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess)
		*pDevice = pHost;
	return rt_leave(e);
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr)
{
	cudaError_t e = rt_enter(RT_POINTER);

	if (e != cudaSuccess)
		return rt_leave(e);
	const struct rt_area *a = rt_area_find(ptr);
	if (a)
		*attributes = (struct cudaPointerAttributes){.type = cudaMemoryTypeDevice,
							     .device = a->device,
							     .devicePointer = (void *)ptr};
	else if (rt_host_find(ptr))
		*attributes = (struct cudaPointerAttributes){.type = cudaMemoryTypeHost,
							     .device = rt_device_current(),
							     .devicePointer = (void *)ptr,
							     .hostPointer = (void *)ptr};
	else
		*attributes = (struct cudaPointerAttributes){.type = cudaMemoryTypeUnregistered,
							     .device = cudaInvalidDeviceId,
							     .hostPointer = (void *)ptr};
	return rt_leave(e);
}
