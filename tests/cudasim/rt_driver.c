/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's small functions, and the table by which the runtime hands all of them out. A
 * context's handle is its device's place in a table: there are only primary ones here.
 */
#include "tests/cudasim/rt_area.h"
#include "tests/cudasim/rt_host.h"
#include "tests/cudasim/rt_queue.h"
#include <stdlib.h>
#include <string.h>

struct CUctx_st {
	int device;
};

static struct CUctx_st contexts[RT_DEVICES_MAX];

static const struct {
	const char *name;
	void (*function)(void);
	unsigned since; /* the version that brought it */
} entries[] = {
#define ENTRY(name, since)                                                                         \
	{                                                                                          \
#name, (void (*)(void))name, since                                                 \
	}
	ENTRY(cuInit, 2000),
	ENTRY(cuDriverGetVersion, 2020),
	ENTRY(cuGetErrorName, 6000),
	ENTRY(cuGetErrorString, 6000),
	ENTRY(cuDeviceGet, 2000),
	ENTRY(cuDeviceGetCount, 2000),
	ENTRY(cuDeviceGetUuid, 11040),
	ENTRY(cuDeviceGetAttribute, 2000),
	ENTRY(cuDeviceTotalMem, 3020),
	ENTRY(cuCtxGetCurrent, 4000),
	ENTRY(cuCtxSetCurrent, 4000),
	ENTRY(cuCtxGetDevice, 2000),
	ENTRY(cuDevicePrimaryCtxRetain, 7000),
	ENTRY(cuDevicePrimaryCtxRelease, 11000),
	ENTRY(cuDevicePrimaryCtxGetState, 7000),
	ENTRY(cuPointerGetAttribute, 4000),
	ENTRY(cuMemGetAddressRange, 3020),
	ENTRY(cuMemGetAllocationGranularity, 10020),
	ENTRY(cuMemCreate, 10020),
	ENTRY(cuMemRelease, 10020),
	ENTRY(cuMemAddressReserve, 10020),
	ENTRY(cuMemAddressFree, 10020),
	ENTRY(cuMemMap, 10020),
	ENTRY(cuMemUnmap, 10020),
	ENTRY(cuMemSetAccess, 10020),
	ENTRY(cuMemExportToShareableHandle, 10020),
	ENTRY(cuMemImportFromShareableHandle, 10020),
	ENTRY(cuStreamWriteValue64, 11070),
	ENTRY(cuStreamWaitValue64, 11070),
#undef ENTRY
};

static enum cudaDriverEntryPointQueryResult driver_find(const char *symbol, unsigned version,
							void **out)
{
	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		if (strcmp(entries[i].name, symbol) != 0)
			continue;
		/* An older driver, for tests: CUDASIM_DRIVER=11000. */
		if (version < entries[i].since ||
		    rt_env_u64("CUDASIM_DRIVER", CUDA_VERSION) < entries[i].since)
			return cudaDriverEntryPointVersionNotSufficent;
		memcpy(out, &entries[i].function, sizeof(*out));
		return cudaDriverEntryPointSuccess;
	}
	return cudaDriverEntryPointSymbolNotFound;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **funcPtr,
					     unsigned int cudaVersion, unsigned long long flags,
					     enum cudaDriverEntryPointQueryResult *driverStatus)
{
	cudaError_t e = rt_enter(RT_INFO);

	if (e == cudaSuccess && (!symbol || !funcPtr || flags))
		e = cudaErrorInvalidValue;
	if (e != cudaSuccess)
		return rt_leave(e);
	*funcPtr = NULL;
	enum cudaDriverEntryPointQueryResult r = driver_find(symbol, cudaVersion, funcPtr);
	if (driverStatus)
		*driverStatus = r;
	/* Who does not ask for the state is told by the error. */
	else if (r != cudaDriverEntryPointSuccess)
		e = cudaErrorSymbolNotFound;
	return rt_leave(e);
}

CUresult cuInit(unsigned int flags)
{
	return rt_leave_driver(rt_enter(RT_INFO));
}

CUresult cuDriverGetVersion(int *version)
{
	*version = (int)rt_env_u64("CUDASIM_DRIVER", CUDA_VERSION);
	return CUDA_SUCCESS;
}

/* The driver's names of those errors that its functions give here. */
CUresult cuGetErrorName(CUresult error, const char **out)
{
	static const struct {
		CUresult error;
		const char *name;
	} names[] = {
#define NAME(x) {x, #x}
		NAME(CUDA_SUCCESS),
		NAME(CUDA_ERROR_INVALID_VALUE),
		NAME(CUDA_ERROR_OUT_OF_MEMORY),
		NAME(CUDA_ERROR_NOT_INITIALIZED),
		NAME(CUDA_ERROR_NO_DEVICE),
		NAME(CUDA_ERROR_INVALID_DEVICE),
		NAME(CUDA_ERROR_INVALID_CONTEXT),
		NAME(CUDA_ERROR_MAP_FAILED),
		NAME(CUDA_ERROR_UNMAP_FAILED),
		NAME(CUDA_ERROR_ALREADY_MAPPED),
		NAME(CUDA_ERROR_OPERATING_SYSTEM),
		NAME(CUDA_ERROR_INVALID_HANDLE),
		NAME(CUDA_ERROR_ILLEGAL_STATE),
		NAME(CUDA_ERROR_NOT_FOUND),
		NAME(CUDA_ERROR_NOT_READY),
		NAME(CUDA_ERROR_ILLEGAL_ADDRESS),
		NAME(CUDA_ERROR_LAUNCH_TIMEOUT),
		NAME(CUDA_ERROR_LAUNCH_FAILED),
		NAME(CUDA_ERROR_NOT_PERMITTED),
		NAME(CUDA_ERROR_NOT_SUPPORTED),
		NAME(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED),
		NAME(CUDA_ERROR_UNKNOWN),
#undef NAME
	};

	*out = NULL;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].error == error)
			*out = names[i].name;
	return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **out)
{
	*out = error == CUDA_ERROR_ALREADY_MAPPED ? "resource already mapped"
						  : cudaGetErrorString((cudaError_t)error);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *out)
{
	cudaError_t e = rt_enter(RT_INFO);

	if (e == cudaSuccess)
		*out = rt_device_count();
	return rt_leave_driver(e);
}

static cudaError_t driver_enter(int device)
{
	cudaError_t e = rt_enter(RT_INFO);

	if (e == cudaSuccess && (device < 0 || device >= rt_device_count()))
		e = cudaErrorInvalidDevice;
	return e;
}

CUresult cuDeviceGet(CUdevice *out, int ordinal)
{
	cudaError_t e = driver_enter(ordinal);

	if (e == cudaSuccess)
		*out = ordinal;
	return rt_leave_driver(e);
}

CUresult cuDeviceGetUuid(CUuuid *out, CUdevice device)
{
	cudaError_t e = driver_enter(device);

	if (e == cudaSuccess)
		rt_device_uuid(rt_device(device)->physical, out);
	return rt_leave_driver(e);
}

CUresult cuDeviceTotalMem(size_t *out, CUdevice device)
{
	cudaError_t e = driver_enter(device);

	if (e == cudaSuccess)
		*out = rt_device_bytes();
	return rt_leave_driver(e);
}

CUresult cuDeviceGetAttribute(int *out, CUdevice_attribute which, CUdevice device)
{
	struct cudaDeviceProp props;
	cudaError_t e = driver_enter(device);

	if (e != cudaSuccess)
		return rt_leave_driver(e);
	sim_device_props(device, &props);
	switch (which) {
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
		*out = props.multiProcessorCount;
		break;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
		*out = props.major;
		break;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
		*out = props.minor;
		break;
	case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
		*out = rt_env_u64("CUDASIM_VMM", 1) != 0;
		break;
	case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
		*out = 1;
		break;
	default:
		e = cudaErrorInvalidValue;
	}
	return rt_leave_driver(e);
}

static CUcontext driver_context(int device)
{
	contexts[device].device = device;
	return &contexts[device];
}

/* NULL before the thread's device has its context. */
CUresult cuCtxGetCurrent(CUcontext *out)
{
	cudaError_t e = rt_enter(RT_INFO);

	if (e == cudaSuccess)
		*out = rt_device(rt_device_current())->active ? driver_context(rt_device_current())
							      : NULL;
	return rt_leave_driver(e);
}

CUresult cuCtxSetCurrent(CUcontext context)
{
	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	return (CUresult)cudaSetDevice(context->device);
}

CUresult cuCtxGetDevice(CUdevice *out)
{
	cudaError_t e = rt_enter(RT_INFO);

	if (e == cudaSuccess && !rt_device(rt_device_current())->active)
		e = cudaErrorDeviceUninitialized;
	if (e == cudaSuccess)
		*out = rt_device_current();
	return rt_leave_driver(e);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
	cudaError_t e = driver_enter(device);

	if (e == cudaSuccess) {
		rt_device(device)->active = true;
		*out = driver_context(device);
		e = rt_device(device)->sticky;
	}
	return rt_leave_driver(e);
}

/* The runtime keeps its own reference: the context stays. */
CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
	cudaError_t e = driver_enter(device);

	if (e == cudaSuccess && !rt_device(device)->active)
		e = cudaErrorDeviceUninitialized;
	return rt_leave_driver(e);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
	cudaError_t e = driver_enter(device);

	if (e == cudaSuccess) {
		*flags = 0;
		*active = rt_device(device)->active;
	}
	return rt_leave_driver(e);
}

/* The allocation, import or mapping; what an IPC handle names may be more. */
CUresult cuMemGetAddressRange(CUdeviceptr *out_base, size_t *out_bytes, CUdeviceptr at)
{
	cudaError_t e = rt_enter(RT_POINTER);
	struct rt_area *a = rt_area_find((void *)(uintptr_t)at);

	if (e == cudaSuccess && !a)
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess && out_base)
		*out_base = (CUdeviceptr)(uintptr_t)a->base;
	if (e == cudaSuccess && out_bytes)
		*out_bytes = a->bytes;
	return rt_leave_driver(e);
}

static cudaError_t driver_device_pointer(void *out, CUpointer_attribute which,
					 const struct rt_area *a, CUdeviceptr at)
{
	switch (which) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(CUcontext *)out = driver_context(a->device);
		return cudaSuccess;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned *)out = CU_MEMORYTYPE_DEVICE;
		return cudaSuccess;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*(CUdeviceptr *)out = at;
		return cudaSuccess;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)out = a->device;
		return cudaSuccess;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*(unsigned *)out = rt_device_ipc() && a->kind == RT_AREA_BLOCK;
		return cudaSuccess;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(CUdeviceptr *)out = (CUdeviceptr)(uintptr_t)a->base;
		return cudaSuccess;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(size_t *)out = a->bytes;
		return cudaSuccess;
	default:
		return cudaErrorInvalidValue;
	}
}

static cudaError_t driver_host_pointer(void *out, CUpointer_attribute which, CUdeviceptr at)
{
	switch (which) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned *)out = CU_MEMORYTYPE_HOST;
		return cudaSuccess;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*(CUdeviceptr *)out = at;
		return cudaSuccess;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		*(void **)out = (void *)(uintptr_t)at;
		return cudaSuccess;
	default:
		return cudaErrorInvalidValue;
	}
}

CUresult cuPointerGetAttribute(void *out, CUpointer_attribute which, CUdeviceptr at)
{
	cudaError_t e = rt_enter(RT_POINTER);
	struct rt_area *a = rt_area_find((void *)(uintptr_t)at);

	if (e == cudaSuccess && a)
		e = driver_device_pointer(out, which, a, at);
	else if (e == cudaSuccess && rt_host_find((void *)(uintptr_t)at))
		e = driver_host_pointer(out, which, at);
	else if (e == cudaSuccess)
		e = cudaErrorInvalidValue;
	return rt_leave_driver(e);
}
