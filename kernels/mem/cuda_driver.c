/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills the table of driver functions, by name and version: the version says which of several
 * functions of one name is meant, whatever the driver is. 12.0 is the oldest driver that serves us;
 * all of these are older. Filled under a lock: any thread may be the first.
 */
#include "kernels/mem/cuda_driver.h"
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#define CUDA_DRIVER_VERSION 12000u

static struct cuda_driver table;

static const struct {
	const char *name;
	void **to;
} entries[] = {
	{"cuGetErrorName", (void **)&table.get_error_name},
	{"cuDeviceGetAttribute", (void **)&table.device_get_attribute},
	{"cuMemGetAddressRange", (void **)&table.mem_get_address_range},
	{"cuMemGetAllocationGranularity", (void **)&table.mem_get_granularity},
	{"cuMemCreate", (void **)&table.mem_create},
	{"cuMemRelease", (void **)&table.mem_release},
	{"cuMemExportToShareableHandle", (void **)&table.mem_export},
	{"cuMemImportFromShareableHandle", (void **)&table.mem_import},
	{"cuMemAddressReserve", (void **)&table.mem_reserve},
	{"cuMemAddressFree", (void **)&table.mem_unreserve},
	{"cuMemMap", (void **)&table.mem_map},
	{"cuMemUnmap", (void **)&table.mem_unmap},
	{"cuMemSetAccess", (void **)&table.mem_set_access},
};

static bool cuda_driver_fill(char *error, size_t size)
{
	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
		cudaError_t e = cudaGetDriverEntryPointByVersion(entries[i].name, entries[i].to,
								 CUDA_DRIVER_VERSION,
								 cudaEnableDefault, &found);
		if (e == cudaSuccess && found == cudaDriverEntryPointSuccess)
			continue;
		(void)cudaGetLastError();
		if (e != cudaSuccess)
			snprintf(error, size, "%s", cudaGetErrorString(e));
		else
			snprintf(error, size, "the driver is too old: it has no %s of CUDA 12",
				 entries[i].name);
		return false;
	}
	return true;
}

const struct cuda_driver *cuda_driver(char *error, size_t size)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static bool filled;

	pthread_mutex_lock(&lock);
	if (!filled)
		filled = cuda_driver_fill(error, size);
	bool ok = filled;
	pthread_mutex_unlock(&lock);
	return ok ? &table : NULL;
}
