/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's functions that the runtime has no name for. Nothing links the driver: the runtime
 * is asked for each, so that a module starts (and says what is wrong) where there is no driver.
 */
#ifndef KERNELS_MEM_CUDA_DRIVER_H
#define KERNELS_MEM_CUDA_DRIVER_H

#include <cuda.h>
#include <stddef.h>

struct cuda_driver {
	CUresult (*get_error_name)(CUresult error, const char **out);
	CUresult (*device_get_attribute)(int *out, CUdevice_attribute which, CUdevice dev);
	CUresult (*mem_get_address_range)(CUdeviceptr *out_base, size_t *out_bytes, CUdeviceptr at);
	CUresult (*mem_get_granularity)(size_t *out, const CUmemAllocationProp *prop,
					CUmemAllocationGranularity_flags flags);
	CUresult (*mem_create)(CUmemGenericAllocationHandle *out, size_t bytes,
			       const CUmemAllocationProp *prop, unsigned long long flags);
	CUresult (*mem_release)(CUmemGenericAllocationHandle handle);
	CUresult (*mem_export)(void *out, CUmemGenericAllocationHandle handle,
			       CUmemAllocationHandleType type, unsigned long long flags);
	CUresult (*mem_import)(CUmemGenericAllocationHandle *out, void *os_handle,
			       CUmemAllocationHandleType type);
	CUresult (*mem_reserve)(CUdeviceptr *out, size_t bytes, size_t align, CUdeviceptr wish,
				unsigned long long flags);
	CUresult (*mem_unreserve)(CUdeviceptr at, size_t bytes);
	CUresult (*mem_map)(CUdeviceptr at, size_t bytes, size_t offset,
			    CUmemGenericAllocationHandle handle, unsigned long long flags);
	CUresult (*mem_unmap)(CUdeviceptr at, size_t bytes);
	CUresult (*mem_set_access)(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *desc,
				   size_t count);
};

/* The table, filled once a process. NULL, and the missing function's name in error[size]. */
const struct cuda_driver *cuda_driver(char *error, size_t size);

#endif
