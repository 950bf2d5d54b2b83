/* SPDX-License-Identifier: Apache-2.0 */
/* From what was told to what holds: every limit that was not given gets its default here. */
#ifndef KVD_DEFAULTS_H
#define KVD_DEFAULTS_H

#include "kvd/core/core.h"
#include "kvd/options.h"
#include "kvd/paths.h"

/* All but the index and the tiers. device_bytes: what the pool of each device may take where nobody
 * says; 0: it is the host's. */
struct core_config defaults_config(const struct options *o, const uint64_t *device_bytes,
				   uint32_t device_count);
/* When config->tiers is known: an index that has room for what they hold, unless it was given. */
void defaults_index(const struct options *o, struct core_config *config);
uint32_t defaults_spin_us(const struct options *o);
uint32_t defaults_uid_sessions_max(const struct options *o);
/* The limits and their bytes, one log line each; memory: the kind that was taken. */
void defaults_log(const struct options *o, const struct core_config *config,
		  const struct paths *paths, const char *memory);
/* --check-config: checks everything, without touching a file. 0, or -errno with words. */
int defaults_check(struct options *o, char *error, size_t size);

#endif
