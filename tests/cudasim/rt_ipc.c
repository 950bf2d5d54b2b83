/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Legacy IPC. A handle names the segment below an allocation, wherever in it the pointer points,
 * and is good in other processes while its maker lives and has not freed it. "Other" is decided by
 * the number of the process (CUDASIM_PID overrides it, for two namespaces with equal numbers). A
 * second open in a process gives the same address and counts; a mapping outlives its maker.
 */
#include "tests/cudasim/rt.h"
#include "tests/cudasim/rt_alloc.h"
#include "tests/cudasim/rt_area.h"
#include "tests/cudasim/rt_map.h"
#include "tests/cudasim/rt_queue.h"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define IPC_MAGIC 0x63706973u

/* What the 64 bytes of a handle hold. */
struct ipc_handle {
	uint32_t magic;
	uint32_t pid; /* as the driver sees it */
	struct rt_segment segment;
};
_Static_assert(sizeof(struct ipc_handle) <= CUDA_IPC_HANDLE_SIZE, "fits the handle");

static uint32_t ipc_pid(void)
{
	return (uint32_t)rt_env_u64("CUDASIM_PID", (uint64_t)getpid());
}

static cudaError_t ipc_get(cudaIpcMemHandle_t *out, const void *at)
{
	struct rt_area *a = rt_area_find(at);

	if (!rt_device_ipc())
		return cudaErrorNotSupported;
	if (!out || !a || a->kind != RT_AREA_BLOCK)
		return cudaErrorInvalidValue;
	struct ipc_handle h = {.magic = IPC_MAGIC, .pid = ipc_pid(), .segment = a->chunk->segment};
	a->chunk->exported = true;
	memset(out, 0, sizeof(*out));
	memcpy(out, &h, sizeof(h));
	return cudaSuccess;
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *devPtr)
{
	cudaError_t e = rt_enter(RT_IPCGET);

	if (e == cudaSuccess)
		e = ipc_get(handle, devPtr);
	return rt_leave(e);
}

static struct rt_area *ipc_find(const struct rt_segment *segment)
{
	for (size_t i = 0; i < rt_area_count(); i++) {
		struct rt_area *a = rt_area_at(i);
		if (a->kind == RT_AREA_IMPORT &&
		    memcmp(&a->segment, segment, sizeof(*segment)) == 0)
			return a;
	}
	return NULL;
}

static cudaError_t ipc_map(void **out, const struct rt_segment *segment, int device)
{
	struct rt_area area = {.bytes = segment->bytes,
			       .kind = RT_AREA_IMPORT,
			       .device = device,
			       .refs = 1,
			       .segment = *segment};
	int fd;

	if (rt_machine_open(segment, &fd) < 0)
		return cudaErrorMapBufferObjectFailed;
	area.base = rt_map_reserve(area.bytes);
	if (!area.base) {
		close(fd);
		return cudaErrorMemoryAllocation;
	}
	if (rt_map_file(area.base, area.bytes, fd, PROT_READ | PROT_WRITE) < 0 ||
	    !rt_area_add(&area)) {
		rt_map_drop(area.base, area.bytes);
		close(fd);
		return cudaErrorMapBufferObjectFailed;
	}
	close(fd);
	*out = area.base;
	return cudaSuccess;
}

static cudaError_t ipc_open(void **out, const cudaIpcMemHandle_t *handle, unsigned flags)
{
	struct ipc_handle h;

	memcpy(&h, handle, sizeof(h));
	if (!rt_device_ipc())
		return cudaErrorNotSupported;
	if (!out || h.magic != IPC_MAGIC || flags != cudaIpcMemLazyEnablePeerAccess)
		return cudaErrorInvalidValue;
	if (h.pid == ipc_pid())
		return cudaErrorDeviceUninitialized;
	int device = rt_device_of_physical(h.segment.physical);
	if (device < 0)
		return cudaErrorMapBufferObjectFailed;
	struct rt_area *there = ipc_find(&h.segment);
	if (!there)
		return ipc_map(out, &h.segment, device);
	there->refs++;
	*out = there->base;
	return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void **devPtr, cudaIpcMemHandle_t handle, unsigned int flags)
{
	cudaError_t e = rt_enter(RT_IPCOPEN);

	if (e == cudaSuccess)
		e = ipc_open(devPtr, &handle, flags);
	return rt_leave(e);
}

static cudaError_t ipc_close(void *at)
{
	struct rt_area *a = rt_area_find(at);

	if (!a || a->base != at || a->kind != RT_AREA_IMPORT)
		return cudaErrorInvalidValue;
	if (--a->refs)
		return cudaSuccess;
	cudaError_t e = rt_queue_drain(a->device);
	struct rt_segment segment = a->segment;
	rt_map_drop(a->base, a->bytes);
	rt_area_remove(a);
	(void)rt_machine_leave(&segment, false);
	return e;
}

cudaError_t cudaIpcCloseMemHandle(void *devPtr)
{
	cudaError_t e = rt_enter(RT_IPCCLOSE);

	if (e == cudaSuccess)
		e = ipc_close(devPtr);
	return rt_leave(e);
}
