/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the operations of a device by name. `host` is built in; every other one is a module,
 * libkvd-mem-NAME.so, so that no program of ours links the libraries of a device. It is looked for
 * in $KVD_MODULE_DIR alone if that is set, else in the directory where modules are installed. A
 * module exports one function, device_module(), and stays loaded until the process ends.
 *
 * Called at start, from one thread.
 */
#include "kernels/mem/device.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef KVD_MODULE_DIR
#define KVD_MODULE_DIR "/usr/lib/kvd"
#endif

typedef const struct device_ops *(*module_entry)(void);

/* Part of a file name: nothing that could lead out of the directory. */
static int module_name_ok(const char *name)
{
	size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");

	return n > 0 && n < 32 && name[n] == '\0';
}

static const struct device_ops *module_load(const char *path, const char *name, char *error,
					    size_t size)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!handle) {
		snprintf(error, size, "device memory '%s': %s", name, dlerror());
		return NULL;
	}
	module_entry entry = (module_entry)dlsym(handle, "device_module");
	const struct device_ops *ops = entry ? entry() : NULL;
	if (!ops || strcmp(ops->name, name) != 0) {
		snprintf(error, size, "device memory '%s': %s is not a module for it", name, path);
		dlclose(handle);
		return NULL;
	}
	return ops;
}

const struct device_ops *device_find(const char *name, char *error, size_t size)
{
	const char *dir = getenv("KVD_MODULE_DIR");
	char path[PATH_MAX];

	if (strcmp(name, device_host()->name) == 0)
		return device_host();
	if (!module_name_ok(name)) {
		snprintf(error, size, "'%s' is no name of a device memory; 'host' is built in",
			 name);
		return NULL;
	}
	if (!dir || !dir[0])
		dir = KVD_MODULE_DIR;
	snprintf(path, sizeof(path), "%s/libkvd-mem-%s.so", dir, name);
	if (access(path, R_OK) < 0) {
		snprintf(error, size,
			 "device memory '%s': no module %s (set KVD_MODULE_DIR, or use 'host')",
			 name, path);
		return NULL;
	}
	return module_load(path, name, error, size);
}
