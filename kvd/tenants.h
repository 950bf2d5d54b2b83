/* SPDX-License-Identifier: Apache-2.0 */
/* The namespaces of the configuration: their secrets and key seeds, read from files. */
#ifndef KVD_TENANTS_H
#define KVD_TENANTS_H

#include "kvd/core/core.h"
#include "kvd/entropy.h"
#include "kvd/options.h"

/* Adds "default" if the configuration names none. */
void tenants_default(struct options *o);
/* The secret of one namespace, if it has any. 0, or -errno with words in error[size]. */
int tenants_secret(const struct options_space *space, struct core_space_args *out, char *error,
		   size_t size);
/* The key seed, from state_dir or made there; state_dir "" keeps it in memory only. */
int tenants_seed(const char *state_dir, const char *name, struct entropy *entropy, uint8_t seed[16],
		 char *error, size_t size);
/* All of them, into the core, if their floors fit into the pool. */
int tenants_add(struct core *core, const struct options *o, uint64_t pool_bytes,
		const char *state_dir, struct entropy *entropy, char *error, size_t size);

#endif
