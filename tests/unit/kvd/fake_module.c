/* SPDX-License-Identifier: Apache-2.0 */
/* A device module that has a name and nothing else, for test_module.c. */
#include "kernels/mem/device.h"

const struct device_ops *device_module(void);

const struct device_ops *device_module(void)
{
	static const struct device_ops ops = {.name = "fake"};

	return &ops;
}
