/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a device's name to its op table. The CPU's tables are linked in; those of a GPU come from
 * the module libkvd-ops-cuda.so, so that the engine starts where there is no CUDA library. Called
 * at start, from one thread.
 */
#include "kernels/kernels.h"
#include "kernels/mem/module.h"

#include <stdio.h>
#include <string.h>

typedef const struct kernel_ops *(*open_entry)(const char *device, char *error, size_t size);

static const struct kernel_ops *open_cpu(const char *device, char *error, size_t size)
{
	const char *isa = device[3] == ':' ? device + 4 : NULL;
	const struct kernel_ops *ops = kernels_cpu(isa);

	if (!ops)
		snprintf(error, size,
			 "device %s: this processor or this build does not have it; known are "
			 "cpu:amx, cpu:avx512bf16, cpu:portable",
			 device);
	return ops;
}

static const struct kernel_ops *open_cuda(const char *device, char *error, size_t size)
{
	char why[512];
	open_entry entry =
		(open_entry)module_symbol("kvd-ops-cuda", "kernels_module", why, sizeof(why));
	const struct kernel_ops *ops = entry ? entry(device, why, sizeof(why)) : NULL;

	if (!ops)
		snprintf(error, size, "device %s: %s", device, why);
	return ops;
}

const struct kernel_ops *kernels_open(const char *device, char *error, size_t size)
{
	error[0] = '\0';
	if (strcmp(device, "cpu") == 0 || strncmp(device, "cpu:", 4) == 0)
		return open_cpu(device, error, size);
	if (strncmp(device, "cuda:", 5) == 0)
		return open_cuda(device, error, size);
	if (strcmp(device, "auto") == 0) {
		const struct kernel_ops *ops = open_cuda("cuda:0", error, size);

		return ops ? ops : open_cpu("cpu", error, size);
	}
	snprintf(error, size, "device %s: not one of auto, cpu, cpu:ISA, cuda:N", device);
	return NULL;
}
