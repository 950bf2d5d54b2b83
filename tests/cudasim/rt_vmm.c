/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual memory management: physical handles, reserved addresses, and mappings of the first at
 * the second. A handle is a segment and an fd of it; an exported fd is the same open file, so
 * whoever holds it keeps the memory, though every process that knew it is dead. A mapping may be
 * touched only after access to it was set; read-only means it.
 */
#include "tests/cudasim/rt_alloc.h"
#include "tests/cudasim/rt_area.h"
#include "tests/cudasim/rt_map.h"
#include "tests/cudasim/rt_queue.h"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

struct vmm_handle {
	struct vmm_handle *next;
	CUmemGenericAllocationHandle id;
	struct rt_segment segment;
	int fd;
	bool exportable;
};

struct vmm_reservation {
	struct vmm_reservation *next;
	uint8_t *base;
	uint64_t bytes;
};

static struct vmm_handle *handles;
static struct vmm_reservation *reservations;
static CUmemGenericAllocationHandle ids = 0x7000;

static bool vmm_round(uint64_t n)
{
	return n && n % RT_GRANULARITY == 0;
}

static cudaError_t vmm_device(const CUmemLocation *location)
{
	if (location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return cudaErrorNotSupported;
	if (location->id < 0 || location->id >= rt_device_count())
		return cudaErrorInvalidDevice;
	return rt_device(location->id)->sticky;
}

static cudaError_t vmm_prop(const CUmemAllocationProp *prop)
{
	if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return cudaErrorInvalidValue;
	if (prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE && !rt_env_u64("CUDASIM_VMM", 1))
		return cudaErrorNotSupported;
	return vmm_device(&prop->location);
}

static struct vmm_handle *vmm_find(CUmemGenericAllocationHandle id)
{
	struct vmm_handle *h = handles;

	while (h && h->id != id)
		h = h->next;
	return h;
}

/* Takes the fd over. */
static cudaError_t vmm_handle_new(CUmemGenericAllocationHandle *out, const struct rt_segment *s,
				  int fd, bool exportable)
{
	struct vmm_handle *h = malloc(sizeof(*h));

	if (!h) {
		close(fd);
		return cudaErrorMemoryAllocation;
	}
	*h = (struct vmm_handle){
		.next = handles, .id = ++ids, .segment = *s, .fd = fd, .exportable = exportable};
	handles = h;
	*out = h->id;
	return cudaSuccess;
}

CUresult cuMemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *prop,
				       CUmemAllocationGranularity_flags flags)
{
	cudaError_t e = rt_enter(RT_INFO);

	if (e == cudaSuccess)
		e = vmm_prop(prop);
	if (e == cudaSuccess)
		*out = RT_GRANULARITY;
	return rt_leave_driver(e);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes,
		     const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct rt_segment segment;
	int fd;
	cudaError_t e = rt_enter(RT_VMMCREATE);

	if (e == cudaSuccess)
		e = vmm_prop(prop);
	if (e == cudaSuccess && (!out || flags || !vmm_round(bytes)))
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess &&
	    rt_machine_new(rt_device(prop->location.id)->physical, bytes, &segment, &fd) < 0)
		e = cudaErrorMemoryAllocation;
	if (e == cudaSuccess)
		e = vmm_handle_new(out, &segment, fd,
				   prop->requestedHandleTypes ==
					   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	return rt_leave_driver(e);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct vmm_handle **at = &handles;
	cudaError_t e = rt_enter(RT_VMMRELEASE);

	if (e == cudaSuccess && !vmm_find(handle))
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess) {
		while ((*at)->id != handle)
			at = &(*at)->next;
		struct vmm_handle *h = *at;
		*at = h->next;
		close(h->fd);
		(void)rt_machine_leave(&h->segment, false);
		free(h);
	}
	return rt_leave_driver(e);
}

CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
				      CUmemAllocationHandleType type, unsigned long long flags)
{
	cudaError_t e = rt_enter(RT_VMMEXPORT);

	if (e != cudaSuccess)
		return rt_leave_driver(e);
	struct vmm_handle *h = vmm_find(handle);
	if (!out || !h || !h->exportable || flags ||
	    type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return rt_leave_driver(cudaErrorInvalidValue);
	int fd = fcntl(h->fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return rt_leave_driver(cudaErrorOperatingSystem);
	*(int *)out = fd;
	return rt_leave_driver(cudaSuccess);
}

static cudaError_t vmm_import(CUmemGenericAllocationHandle *out, int fd)
{
	struct rt_segment segment;

	if (rt_machine_identify(fd, &segment) < 0)
		return cudaErrorInvalidValue;
	if (rt_device_of_physical(segment.physical) < 0)
		return cudaErrorInvalidDevice;
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (own < 0)
		return cudaErrorOperatingSystem;
	return vmm_handle_new(out, &segment, own, true);
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *os_handle,
					CUmemAllocationHandleType type)
{
	cudaError_t e = rt_enter(RT_VMMIMPORT);

	if (e == cudaSuccess && (!out || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess && !rt_env_u64("CUDASIM_VMM", 1))
		e = cudaErrorNotSupported;
	if (e == cudaSuccess)
		e = vmm_import(out, (int)(intptr_t)os_handle);
	return rt_leave_driver(e);
}

CUresult cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr wish,
			     unsigned long long flags)
{
	cudaError_t e = rt_enter(RT_VMMRESERVE);

	if (e != cudaSuccess)
		return rt_leave_driver(e);
	if (!out || !vmm_round(bytes) || alignment > RT_GRANULARITY || flags)
		return rt_leave_driver(cudaErrorInvalidValue);
	struct vmm_reservation *r = malloc(sizeof(*r));
	uint8_t *base = r ? rt_map_reserve(bytes) : NULL;
	if (!base) {
		free(r);
		return rt_leave_driver(cudaErrorMemoryAllocation);
	}
	*r = (struct vmm_reservation){.next = reservations, .base = base, .bytes = bytes};
	reservations = r;
	*out = (CUdeviceptr)(uintptr_t)base;
	return rt_leave_driver(cudaSuccess);
}

/* No mapping may lie in the range. */
static bool vmm_free_range(const uint8_t *base, uint64_t bytes)
{
	struct rt_area *a = rt_area_next(base);

	return !a || a->base >= base + bytes;
}

CUresult cuMemAddressFree(CUdeviceptr at, size_t bytes)
{
	struct vmm_reservation **link = &reservations;
	cudaError_t e = rt_enter(RT_VMMUNMAP);

	while (*link && ((CUdeviceptr)(uintptr_t)(*link)->base != at || (*link)->bytes != bytes))
		link = &(*link)->next;
	struct vmm_reservation *r = *link;
	if (e == cudaSuccess && (!r || !vmm_free_range(r->base, r->bytes)))
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess) {
		*link = r->next;
		rt_map_drop(r->base, r->bytes);
		free(r);
	}
	return rt_leave_driver(e);
}

static bool vmm_reserved(const uint8_t *base, uint64_t bytes)
{
	for (struct vmm_reservation *r = reservations; r; r = r->next)
		if (base >= r->base && base + bytes <= r->base + r->bytes)
			return true;
	return false;
}

static cudaError_t vmm_map(uint8_t *base, uint64_t bytes, struct vmm_handle *h)
{
	struct rt_area area = {.base = base, .bytes = bytes, .kind = RT_AREA_VMM};

	if (!h || !vmm_round(bytes) || bytes > h->segment.bytes ||
	    (uintptr_t)base % RT_GRANULARITY || !vmm_reserved(base, bytes))
		return cudaErrorInvalidValue;
	if (!vmm_free_range(base, bytes))
		return (cudaError_t)CUDA_ERROR_ALREADY_MAPPED;
	area.device = rt_device_of_physical(h->segment.physical);
	area.segment = h->segment;
	if (rt_map_file(base, bytes, h->fd, PROT_NONE) < 0 || !rt_area_add(&area)) {
		rt_map_unfile(base, bytes);
		return cudaErrorMapBufferObjectFailed;
	}
	return cudaSuccess;
}

CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
		  unsigned long long flags)
{
	cudaError_t e = rt_enter(RT_VMMMAP);

	if (e == cudaSuccess && (offset || flags))
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess)
		e = vmm_map((uint8_t *)(uintptr_t)at, bytes, vmm_find(handle));
	return rt_leave_driver(e);
}

/* The range must be made of whole mappings, without a gap. */
static bool vmm_whole(const uint8_t *base, uint64_t bytes)
{
	const uint8_t *end = base + bytes;

	while (base < end) {
		struct rt_area *a = rt_area_find(base);
		if (!a || a->kind != RT_AREA_VMM || a->base != base || a->base + a->bytes > end)
			return false;
		base += a->bytes;
	}
	return bytes > 0;
}

CUresult cuMemUnmap(CUdeviceptr at, size_t bytes)
{
	uint8_t *base = (uint8_t *)(uintptr_t)at, *end = base + bytes;
	cudaError_t e = rt_enter(RT_VMMUNMAP);

	if (e == cudaSuccess && !vmm_whole(base, bytes))
		e = cudaErrorInvalidValue;
	while (e == cudaSuccess && base < end) {
		struct rt_area *a = rt_area_find(base);
		struct rt_segment segment = a->segment;
		base += a->bytes;
		rt_map_unfile(a->base, a->bytes);
		rt_area_remove(a);
		(void)rt_machine_leave(&segment, false);
	}
	return rt_leave_driver(e);
}

static cudaError_t vmm_access(uint8_t *base, uint64_t bytes, CUmemAccess_flags flags)
{
	int prot = PROT_NONE;

	if (!vmm_whole(base, bytes))
		return cudaErrorInvalidValue;
	if (flags == CU_MEM_ACCESS_FLAGS_PROT_READ)
		prot = PROT_READ;
	else if (flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		prot = PROT_READ | PROT_WRITE;
	else if (flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
		return cudaErrorInvalidValue;
	return rt_map_protect(base, bytes, prot) < 0 ? cudaErrorOperatingSystem : cudaSuccess;
}

CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *desc, size_t count)
{
	cudaError_t e = rt_enter(RT_VMMACCESS);

	if (e == cudaSuccess && (!desc || count == 0))
		e = cudaErrorInvalidValue;
	for (size_t i = 0; e == cudaSuccess && i < count; i++) {
		e = vmm_device(&desc[i].location);
		if (e == cudaSuccess)
			e = vmm_access((uint8_t *)(uintptr_t)at, bytes, desc[i].flags);
	}
	return rt_leave_driver(e);
}

/* The process ends in order: what nobody else keeps goes. */
__attribute__((destructor)) static void vmm_fini(void)
{
	for (size_t i = 0; i < rt_area_count(); i++) {
		struct rt_area *a = rt_area_at(i);
		if (a->kind != RT_AREA_BLOCK)
			rt_map_unfile(a->base, a->bytes);
	}
	for (struct vmm_handle *h = handles; h; h = h->next)
		close(h->fd);
	for (struct vmm_handle *h = handles; h; h = h->next)
		(void)rt_machine_leave(&h->segment, false);
	for (size_t i = 0; i < rt_area_count(); i++)
		if (rt_area_at(i)->kind != RT_AREA_BLOCK)
			(void)rt_machine_leave(&rt_area_at(i)->segment, false);
}
