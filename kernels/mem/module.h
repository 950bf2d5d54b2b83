/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules: shared objects that hold what needs a device's libraries, so that no program of ours
 * links them. They are looked for in $KVD_MODULE_DIR alone if that is set, else where they are
 * installed, and stay loaded until the process ends.
 */
#ifndef KERNELS_MEM_MODULE_H
#define KERNELS_MEM_MODULE_H

#include <stddef.h>

/* The symbol of lib`name`.so. NULL, and one sentence in error[size]. Called at start. */
void *module_symbol(const char *name, const char *symbol, char *error, size_t size);

#endif
