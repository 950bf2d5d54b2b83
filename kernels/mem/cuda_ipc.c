/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "cuda-ipc": slabs are made by cudaMalloc and travel as the 64 bytes of a cudaIpcMemHandle.
 *
 * A handle means the whole allocation, whatever pointer it was made from, and small allocations
 * may share one with strangers: slabs are multiples of 2 MiB, and the offset of ours within the
 * allocation goes along. The driver maps a handle once a process: here too it is opened once and
 * counted. There is one view, which can be written. Freeing memory that somebody imports is
 * undefined, so there is no punch; and the exporting process cannot import what it exports, which
 * the driver decides by the number of the process: two containers whose numbers are equal are one
 * process to it.
 */
#include "base/mutant.h"
#include "base/units.h"
#include "kernels/mem/cuda_device.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CUDA_IPC_ALIGN (2 * UNITS_MIB)
#define CUDA_IPC_WSL_DEVICE "/dev/dxg"

static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(((struct kvd_slab_wire *)0)->ipc_handle),
	      "a handle fits the wire");

/* A handle that is open in this process. */
struct cuda_device_import {
	struct cuda_device_import *next;
	cudaIpcMemHandle_t handle;
	void *base;
	uint64_t uses;
};

/* Why this device can have no IPC, or NULL. */
static const char *cuda_ipc_obstacle(uint32_t index, const struct device_info *info)
{
	int supported = 0;

	if (access(CUDA_IPC_WSL_DEVICE, F_OK) == 0)
		return "CUDA IPC does not exist under WSL";
	if (strstr(info->name, " MIG ") || strncmp(info->name, "MIG ", 4) == 0)
		return "it is a slice (MIG), and slices have no CUDA IPC: use cuda-vmm";
	if (cudaDeviceGetAttribute(&supported, cudaDevAttrIpcEventSupport, (int)index) !=
	    cudaSuccess)
		(void)cudaGetLastError();
	return supported ? NULL : "it has no CUDA IPC: use cuda-vmm";
}

static int cuda_ipc_describe(uint32_t index, struct device_info *out, char *error, size_t size)
{
	struct device_info info;
	int r = cuda_device_describe(index, &info, error, size);

	if (r < 0)
		return r;
	const char *obstacle = cuda_ipc_obstacle(index, &info);
	if (obstacle) {
		snprintf(error, size, "GPU %u, %s: %s", index, info.name, obstacle);
		return -ENOTSUP;
	}
	*out = info;
	return 0;
}

static int cuda_ipc_open(uint32_t index, struct device **out, char *error, size_t size)
{
	struct device_info info;
	int r = cuda_ipc_describe(index, &info, error, size);

	return r < 0 ? r : cuda_device_open(index, out, error, size);
}

/* On a device that has failed nothing can be closed any more, and the record goes all the same. */
static void cuda_ipc_forget(struct device *dev, struct cuda_device_import *import)
{
	struct cuda_device_import **at = &dev->imports;

	while (*at != import)
		at = &(*at)->next;
	*at = import->next;
	if (cuda_device_enter(dev) == 0)
		(void)cuda_device_check(dev, cudaIpcCloseMemHandle(import->base),
					"kvd's slab cannot be unmapped");
	free(import);
}

static void cuda_ipc_close(struct device *dev)
{
	while (dev && dev->imports)
		cuda_ipc_forget(dev, dev->imports);
	cuda_device_close(dev);
}

/* --- the owner's side ---------------------------------------------------------------------------
 */

static bool cuda_ipc_fits(struct device *dev, uint64_t bytes)
{
	void *memory;

	if (cudaMalloc(&memory, bytes) != cudaSuccess) {
		(void)cudaGetLastError();
		return false;
	}
	(void)cudaFree(memory);
	return true;
}

static int cuda_ipc_handle(struct device *dev, void *memory, struct device_slab *out)
{
	cudaIpcMemHandle_t handle;
	CUdeviceptr base = 0;
	size_t bytes = 0;
	int r = cuda_device_check(dev, cudaIpcGetMemHandle(&handle, memory),
				  "a slab cannot be exported");

	if (r == 0)
		r = cuda_device_check_driver(dev,
					     dev->driver->mem_get_address_range(
						     &base, &bytes, (CUdeviceptr)(uintptr_t)memory),
					     "a slab's allocation is unknown");
	if (r < 0)
		return r;
	memcpy(out->ipc_handle, &handle, sizeof(handle));
	out->base_offset = (uintptr_t)memory - base;
	return 0;
}

static int cuda_ipc_slab_alloc(struct device *dev, uint64_t bytes, struct device_slab *out)
{
	struct device_slab slab = {.bytes = bytes, .fd = -1};
	void *memory = NULL;
	int r = cuda_device_enter(dev);

	if (r < 0)
		return r;
	if (bytes == 0 || bytes % CUDA_IPC_ALIGN)
		return cuda_device_fail(dev, -EINVAL, "a slab of %llu bytes: not whole 2 MiB",
					(unsigned long long)bytes);
	cudaError_t e = cudaMalloc(&memory, bytes);
	if (e == cudaErrorMemoryAllocation)
		return cuda_device_no_room(dev, bytes, cuda_ipc_fits);
	r = cuda_device_check(dev, e, "a slab cannot be allocated");
	if (r < 0)
		return r;
	r = cuda_ipc_handle(dev, memory, &slab);
	if (r < 0) {
		(void)cudaFree(memory);
		return r;
	}
	slab.address = (uintptr_t)memory;
	*out = slab;
	return 0;
}

static void cuda_ipc_slab_free(struct device *dev, struct device_slab *slab)
{
	if (!slab->address)
		return;
	if (cuda_device_enter(dev) == 0)
		(void)cuda_device_check(dev, cudaFree((void *)(uintptr_t)slab->address),
					"a slab cannot be freed");
	*slab = (struct device_slab){.fd = -1};
}

static int cuda_ipc_slab_export(struct device *dev, const struct device_slab *slab,
				struct kvd_slab_wire *wire, int *out_fd)
{
	wire->kind = KVD_SLAB_CUDA_IPC;
	wire->base_offset = slab->base_offset;
	wire->slab_bytes = slab->base_offset + slab->bytes;
	memcpy(wire->device_uuid, dev->info.uuid, sizeof(wire->device_uuid));
	memcpy(wire->ipc_handle, slab->ipc_handle, sizeof(wire->ipc_handle));
	*out_fd = -1;
	return 0;
}

/* --- the importer's side ------------------------------------------------------------------------
 */

static struct cuda_device_import *cuda_ipc_find(struct device *dev, const void *handle)
{
	struct cuda_device_import *i = dev->imports;

	while (i && memcmp(&i->handle, handle, sizeof(i->handle)) != 0)
		i = i->next;
	return i;
}

static int cuda_ipc_import_error(struct device *dev, cudaError_t e)
{
	(void)cudaGetLastError();
	if (e == cudaErrorDeviceUninitialized)
		return cuda_device_fail(dev, -EPERM,
					"the driver takes this process, pid %d, for kvd itself: "
					"it is kvd's own process, or both have that number in "
					"two containers; give one of them another",
					getpid());
	if (e == cudaErrorMapBufferObjectFailed || e == cudaErrorInvalidResourceHandle ||
	    e == cudaErrorInvalidValue)
		return cuda_device_fail(dev, -ESTALE,
					"kvd's slab cannot be imported: kvd has ended, or the "
					"two see different GPUs (%s)",
					cudaGetErrorName(e));
	return cuda_device_check(dev, e, "kvd's slab cannot be imported");
}

static int cuda_ipc_import(struct device *dev, const void *handle, struct cuda_device_import **out)
{
	struct cuda_device_import *i = calloc(1, sizeof(*i));

	if (!i)
		return -ENOMEM;
	memcpy(&i->handle, handle, sizeof(i->handle));
	cudaError_t e = cudaIpcOpenMemHandle(&i->base, i->handle, cudaIpcMemLazyEnablePeerAccess);
	if (e != cudaSuccess) {
		free(i);
		return cuda_ipc_import_error(dev, e);
	}
	i->next = dev->imports;
	dev->imports = i;
	*out = i;
	return 0;
}

static int cuda_ipc_slab_import(struct device *dev, const struct kvd_slab_wire *wire, int fd,
				struct device_view *out)
{
	struct cuda_device_import *i = NULL;
	int r = cuda_device_same(dev, wire, KVD_SLAB_CUDA_IPC);

	if (r == 0)
		r = cuda_device_enter(dev);
	if (r == 0)
		i = cuda_ipc_find(dev, wire->ipc_handle);
	if (r == 0 && !i)
		r = cuda_ipc_import(dev, wire->ipc_handle, &i);
	if (r < 0)
		return r;
	i->uses++;
	*out = (struct device_view){(uintptr_t)i->base, (uintptr_t)i->base, wire->slab_bytes};
	return 0;
}

static void cuda_ipc_slab_unmap(struct device *dev, struct device_view *view)
{
	struct cuda_device_import *i = dev->imports;

	while (i && (uintptr_t)i->base != view->read)
		i = i->next;
	*view = (struct device_view){0};
	if (i && --i->uses == 0 && !KVD_MUTANT(ipc_stale_import))
		cuda_ipc_forget(dev, i);
}

const struct device_ops *cuda_ipc_ops(void)
{
	static const struct device_ops ops = {
		.name = "cuda-ipc",
		.kind = KVD_SLAB_CUDA_IPC,
		.count = cuda_device_count,
		.describe = cuda_ipc_describe,
		.open = cuda_ipc_open,
		.close = cuda_ipc_close,
		.failure = cuda_device_failure,
		.slab_alloc = cuda_ipc_slab_alloc,
		.slab_free = cuda_ipc_slab_free,
		.slab_export = cuda_ipc_slab_export,
		.slab_import = cuda_ipc_slab_import,
		.slab_unmap = cuda_ipc_slab_unmap,
		.copy_start = cuda_copy_start,
		.copy_poll = cuda_copy_poll,
		.fill = cuda_copy_fill,
		.pin = cuda_pin,
		.unpin = cuda_pin_end,
		.process_gone = cuda_nvml_process_gone,
	};

	return &ops;
}
