/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory this host, and the control group that we run in, have. */
#ifndef KVD_HOSTMEM_H
#define KVD_HOSTMEM_H

#include <stddef.h>
#include <stdint.h>

/* min(a quarter of what is available, half of the control group's limit), whole 2 MiB, not less
 * than 64 MiB. */
uint64_t hostmem_pool_default(void);
/* The same from given figures; limit_bytes UINT64_MAX: no limit. */
uint64_t hostmem_pool_from(uint64_t available_bytes, uint64_t limit_bytes);
/* What could be had: what is available, but no more than the control group's limit. */
uint64_t hostmem_available(void);
/* The figure of /proc/meminfo with that name and colon, in bytes; 0: not there. */
uint64_t hostmem_meminfo(const char *text, const char *name);

#endif
