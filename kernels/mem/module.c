/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds a module's file, opens it and takes one symbol out of it. A missing file, a file whose own
 * libraries are missing (no CUDA on this host) and a file without the symbol are told apart.
 */
#include "kernels/mem/module.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifndef KVD_MODULE_DIR
#define KVD_MODULE_DIR "/usr/lib/kvd"
#endif

void *module_symbol(const char *name, const char *symbol, char *error, size_t size)
{
	const char *dir = getenv("KVD_MODULE_DIR");
	char path[PATH_MAX];

	if (!dir || !dir[0])
		dir = KVD_MODULE_DIR;
	snprintf(path, sizeof(path), "%s/lib%s.so", dir, name);
	if (access(path, R_OK) < 0) {
		snprintf(error, size, "there is no module %s (KVD_MODULE_DIR says where it is)",
			 path);
		return NULL;
	}
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!handle) {
		snprintf(error, size, "the module cannot be loaded: %s", dlerror());
		return NULL;
	}
	void *found = dlsym(handle, symbol);

	if (!found) {
		snprintf(error, size, "%s is no module of ours: it has no %s()", path, symbol);
		dlclose(handle);
	}
	return found;
}
