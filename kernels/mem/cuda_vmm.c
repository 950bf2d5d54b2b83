/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "cuda-vmm": slabs are physical memory with a descriptor, mapped by whoever holds one.
 *
 * An importer maps a slab twice: pages of others are read through a view that faults when it is
 * written, own open pages are written through the other. The memory lives as long as any handle,
 * map or descriptor of it does, whoever made it: an engine's maps outlive the daemon. Sizes are
 * whole granules (2 MiB on all devices known), and a map is of the whole slab or not at all.
 */
#include "base/bits.h"
#include "base/mutant.h"
#include "base/units.h"
#include "kernels/mem/cuda_device.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static CUmemAllocationProp cuda_vmm_prop(int ordinal)
{
	return (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal},
	};
}

static bool cuda_vmm_has(const struct cuda_driver *driver, CUdevice_attribute which, uint32_t index)
{
	int value = 0;

	return driver->device_get_attribute(&value, which, (CUdevice)index) == CUDA_SUCCESS &&
	       value;
}

static int cuda_vmm_describe(uint32_t index, struct device_info *out, char *error, size_t size)
{
	struct device_info info;
	int r = cuda_device_describe(index, &info, error, size);

	if (r < 0)
		return r;
	const struct cuda_driver *driver = cuda_driver(error, size);
	if (!driver)
		return -ENOTSUP;
	if (!cuda_vmm_has(driver, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, index) ||
	    !cuda_vmm_has(driver, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
			  index)) {
		snprintf(error, size,
			 "GPU %u, %s: its memory cannot be shared by a file descriptor", index,
			 info.name);
		return -ENOTSUP;
	}
	*out = info;
	return 0;
}

static int cuda_vmm_granularity(struct device *dev)
{
	CUmemAllocationProp prop = cuda_vmm_prop(dev->ordinal);
	size_t granularity = 0;
	int r = cuda_device_check_driver(
		dev,
		dev->driver->mem_get_granularity(&granularity, &prop,
						 CU_MEM_ALLOC_GRANULARITY_MINIMUM),
		"the granularity of memory is unknown");

	if (r == 0 && !bits_is_pow2(granularity))
		r = cuda_device_fail(dev, -ENOTSUP, "memory comes in granules of %zu bytes",
				     granularity);
	dev->granularity = granularity;
	return r;
}

static int cuda_vmm_open(uint32_t index, struct device **out, char *error, size_t size)
{
	struct device_info info;
	int r = cuda_vmm_describe(index, &info, error, size);

	if (r == 0)
		r = cuda_device_open(index, out, error, size);
	if (r < 0)
		return r;
	r = cuda_vmm_granularity(*out);
	if (r < 0) {
		snprintf(error, size, "%s", (*out)->words);
		cuda_device_close(*out);
		*out = NULL;
	}
	return r;
}

/* --- views --------------------------------------------------------------------------------------
 */

/* Addresses for the memory, with these rights. On failure nothing is left. */
static int cuda_vmm_map(struct device *dev, CUmemGenericAllocationHandle handle, uint64_t bytes,
			CUmemAccess_flags rights, uint64_t *out)
{
	CUmemAccessDesc access = {.location = cuda_vmm_prop(dev->ordinal).location,
				  .flags = rights};
	CUdeviceptr at = 0;
	int r = cuda_device_check_driver(
		dev, dev->driver->mem_reserve(&at, bytes, dev->granularity, 0, 0),
		"no addresses for a slab");

	if (r < 0)
		return r;
	r = cuda_device_check_driver(dev, dev->driver->mem_map(at, bytes, 0, handle, 0),
				     "a slab cannot be mapped");
	if (r < 0)
		goto unreserve;
	r = cuda_device_check_driver(dev, dev->driver->mem_set_access(at, bytes, &access, 1),
				     "a slab cannot be made accessible");
	if (r < 0)
		goto unmap;
	*out = at;
	return 0;
unmap:
	(void)dev->driver->mem_unmap(at, bytes);
unreserve:
	(void)dev->driver->mem_unreserve(at, bytes);
	return r;
}

static void cuda_vmm_drop(struct device *dev, uint64_t at, uint64_t bytes)
{
	(void)cuda_device_check_driver(dev, dev->driver->mem_unmap(at, bytes),
				       "a slab cannot be unmapped");
	(void)dev->driver->mem_unreserve(at, bytes);
}

/* --- the owner's side ---------------------------------------------------------------------------
 */

static CUresult cuda_vmm_create(struct device *dev, uint64_t bytes,
				CUmemGenericAllocationHandle *out)
{
	CUmemAllocationProp prop = cuda_vmm_prop(dev->ordinal);

	return dev->driver->mem_create(out, bytes, &prop, 0);
}

static bool cuda_vmm_fits(struct device *dev, uint64_t bytes)
{
	CUmemGenericAllocationHandle handle;

	if (cuda_vmm_create(dev, bits_align_up(bytes, dev->granularity), &handle) != CUDA_SUCCESS)
		return false;
	(void)dev->driver->mem_release(handle);
	return true;
}

/* Descriptor and map hold the memory; the handle is not needed beyond this. */
static int cuda_vmm_back(struct device *dev, CUmemGenericAllocationHandle handle,
			 struct device_slab *slab)
{
	int r = cuda_device_check_driver(
		dev,
		dev->driver->mem_export(&slab->fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					0),
		"a slab cannot be exported");

	if (r < 0)
		return r;
	(void)fcntl(slab->fd, F_SETFD, FD_CLOEXEC);
	r = cuda_vmm_map(dev, handle, slab->bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
			 &slab->address);
	if (r < 0)
		close(slab->fd);
	return r;
}

static int cuda_vmm_slab_alloc(struct device *dev, uint64_t bytes, struct device_slab *out)
{
	struct device_slab slab = {.fd = -1};
	CUmemGenericAllocationHandle handle;
	int r = cuda_device_enter(dev);

	if (r < 0)
		return r;
	if (bytes == 0 || bytes > INT64_MAX)
		return cuda_device_fail(dev, -EINVAL, "a slab of %llu bytes",
					(unsigned long long)bytes);
	slab.bytes = bits_align_up(bytes, dev->granularity);
	CUresult e = cuda_vmm_create(dev, slab.bytes, &handle);
	if (e == CUDA_ERROR_OUT_OF_MEMORY)
		return cuda_device_no_room(dev, slab.bytes, cuda_vmm_fits);
	r = cuda_device_check_driver(dev, e, "a slab cannot be allocated");
	if (r < 0)
		return r;
	r = cuda_vmm_back(dev, handle, &slab);
	(void)dev->driver->mem_release(handle);
	if (r == 0)
		*out = slab;
	return r;
}

static void cuda_vmm_slab_free(struct device *dev, struct device_slab *slab)
{
	if (!slab->address)
		return;
	if (cuda_device_enter(dev) == 0)
		cuda_vmm_drop(dev, slab->address, slab->bytes);
	close(slab->fd);
	*slab = (struct device_slab){.fd = -1};
}

static int cuda_vmm_slab_export(struct device *dev, const struct device_slab *slab,
				struct kvd_slab_wire *wire, int *out_fd)
{
	wire->kind = KVD_SLAB_CUDA_VMM;
	wire->base_offset = 0;
	wire->slab_bytes = slab->bytes;
	memcpy(wire->device_uuid, dev->info.uuid, sizeof(wire->device_uuid));
	*out_fd = slab->fd;
	return 0;
}

/* --- the importer's side ------------------------------------------------------------------------
 */

static int cuda_vmm_slab_import(struct device *dev, const struct kvd_slab_wire *wire, int fd,
				struct device_view *out)
{
	struct device_view view = {.bytes = wire->slab_bytes};
	CUmemGenericAllocationHandle handle;
	int r = cuda_device_same(dev, wire, KVD_SLAB_CUDA_VMM);

	if (r == 0 && (fd < 0 || wire->slab_bytes == 0 || wire->slab_bytes % dev->granularity))
		r = cuda_device_fail(dev, -EPROTO, "a slab without a descriptor or a size");
	if (r == 0)
		r = cuda_device_enter(dev);
	if (r == 0)
		r = cuda_device_check_driver(
			dev,
			dev->driver->mem_import(&handle, (void *)(intptr_t)fd,
						CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
			"kvd's slab cannot be imported");
	if (r < 0)
		return r;
	r = cuda_vmm_map(dev, handle, view.bytes,
			 KVD_MUTANT(vmm_views_alike) ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
						     : CU_MEM_ACCESS_FLAGS_PROT_READ,
			 &view.read);
	if (r == 0) {
		r = cuda_vmm_map(dev, handle, view.bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
				 &view.write);
		if (r < 0)
			cuda_vmm_drop(dev, view.read, view.bytes);
	}
	(void)dev->driver->mem_release(handle);
	if (r == 0)
		*out = view;
	return r;
}

static void cuda_vmm_slab_unmap(struct device *dev, struct device_view *view)
{
	if (view->bytes && cuda_device_enter(dev) == 0) {
		cuda_vmm_drop(dev, view->read, view->bytes);
		cuda_vmm_drop(dev, view->write, view->bytes);
	}
	*view = (struct device_view){0};
}

const struct device_ops *cuda_vmm_ops(void)
{
	static const struct device_ops ops = {
		.name = "cuda-vmm",
		.kind = KVD_SLAB_CUDA_VMM,
		.count = cuda_device_count,
		.describe = cuda_vmm_describe,
		.open = cuda_vmm_open,
		.close = cuda_device_close,
		.failure = cuda_device_failure,
		.slab_alloc = cuda_vmm_slab_alloc,
		.slab_free = cuda_vmm_slab_free,
		.slab_export = cuda_vmm_slab_export,
		.slab_import = cuda_vmm_slab_import,
		.slab_unmap = cuda_vmm_slab_unmap,
		.copy_start = cuda_copy_start,
		.copy_poll = cuda_copy_poll,
		.fill = cuda_copy_fill,
		.pin = cuda_pin,
		.unpin = cuda_pin_end,
		.process_gone = cuda_nvml_process_gone,
	};

	return &ops;
}
