/* SPDX-License-Identifier: Apache-2.0 */
/* The one symbol of the CUDA memory module: which kinds of memory it knows. See find.c. */
#include "kernels/mem/cuda_device.h"
#include <string.h>

__attribute__((visibility("default"))) const struct device_ops *device_module(const char *name);

const struct device_ops *device_module(const char *name)
{
	if (strcmp(name, cuda_ipc_ops()->name) == 0)
		return cuda_ipc_ops();
	if (strcmp(name, cuda_vmm_ops()->name) == 0)
		return cuda_vmm_ops();
	return NULL;
}
