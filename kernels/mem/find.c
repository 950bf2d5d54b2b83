/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the operations of a device memory by name. `host` is built in; "FAMILY-KIND" is asked of
 * the module libkvd-mem-FAMILY.so, whose function device_module(name) knows all kinds of its
 * family. Called at start, from one thread.
 */
#include "kernels/mem/device.h"
#include "kernels/mem/module.h"
#include <stdio.h>
#include <string.h>

typedef const struct device_ops *(*find_entry)(const char *name);

/* Part of a file name: nothing that could lead out of the directory. */
static int name_ok(const char *name)
{
	size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");

	return n > 0 && n < 32 && name[n] == '\0' && name[0] != '-';
}

const struct device_ops *device_find(const char *name, char *error, size_t size)
{
	char module[64], why[512];

	if (strcmp(name, device_host()->name) == 0)
		return device_host();
	if (!name_ok(name)) {
		snprintf(error, size, "'%s' is no name of a device memory; 'host' is built in",
			 name);
		return NULL;
	}
	snprintf(module, sizeof(module), "kvd-mem-%.*s", (int)strcspn(name, "-"), name);
	find_entry entry = (find_entry)module_symbol(module, "device_module", why, sizeof(why));
	const struct device_ops *ops = entry ? entry(name) : NULL;

	if (entry && !ops)
		snprintf(why, sizeof(why), "lib%s.so does not know it", module);
	if (!ops)
		snprintf(error, size, "device memory '%s': %s", name, why);
	return ops;
}
