/* SPDX-License-Identifier: Apache-2.0 */
/* space.h: namespaces: who may enter, and what is theirs. */
#ifndef KVD_CORE_SPACE_H
#define KVD_CORE_SPACE_H

#include "kvd/core/machine.h"

int space_add(struct core *core, const struct core_space_args *args);
int space_find(const struct core *core, const char *name, const uint8_t *secret,
	       uint32_t secret_bytes);
/* What nobody else may bring the space below on the device, in whole slabs of the smallest size. */
uint64_t space_floor_bytes(const struct core *core, uint32_t space, uint32_t device);
/* Rows that one space may have of a table of so many, from which nothing is taken back. */
uint32_t space_part(const struct core *core, uint32_t rows);
/* Bytes of its pages on the device that could be evicted now. */
uint64_t space_evictable_bytes(const struct core *core, uint32_t space, uint32_t device);
void space_stat(const struct core *core, uint32_t space, struct kvd_space_stat *out);

#endif
