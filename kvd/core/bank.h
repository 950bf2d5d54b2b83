/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bank.h: the pool of one device: how many bytes it has, which page records are its own, which
 * slabs come and go on it. Nothing in one bank is ever paid with what is in another.
 */
#ifndef KVD_CORE_BANK_H
#define KVD_CORE_BANK_H

#include "kvd/core/machine.h"

/* The limit that makes the configuration's pools impossible, or NULL. */
const char *bank_wrong(const struct core_config *config);
/* Fills the sizes of all banks; returns how many slabs they can have together. */
uint32_t bank_init(struct core *core);
/* Of bytes for the daemon as a whole the part that is the device's: as large as its pool is. */
uint64_t bank_part(const struct core *core, uint32_t device, uint64_t bytes);

/* A slab could not be made: the pool is what there is, for a while. */
void bank_lower(struct core *core, uint32_t device);
/* Pools that were lowered long enough are tried in full again. */
void bank_time(struct core *core);
uint64_t bank_deadline_ns(const struct core *core);

#endif
