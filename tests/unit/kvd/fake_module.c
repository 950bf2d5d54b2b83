/* SPDX-License-Identifier: Apache-2.0 */
/* A device module that has a name and nothing else, for test_module.c. */
#include "kernels/mem/device.h"
#include <string.h>

const struct device_ops *device_module(const char *name);

const struct device_ops *device_module(const char *name)
{
	static const struct device_ops ops = {.name = "fake-one"};

	return strcmp(name, ops.name) == 0 ? &ops : NULL;
}
