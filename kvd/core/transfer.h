/* SPDX-License-Identifier: Apache-2.0 */
/* transfer.h: one block on its way between the device and a tier, by order to the shell. */
#ifndef KVD_CORE_TRANSFER_H
#define KVD_CORE_TRANSFER_H

#include "kvd/core/machine.h"

void transfer_init(struct core *core);
/*
 * Each begins one transfer. 0; -EAGAIN: not now, as many are under way as may be, or the slot is
 * being used.
 */
/* The haul's block, whose pages are in its list. -ENODATA: no tier can give it soon. */
int transfer_load(struct core *core, uint32_t haul, uint32_t block);
/* -ENOSPC: the tier has no slot for it soon. */
int transfer_store(struct core *core, uint32_t haul, uint32_t node, uint32_t tier);
int transfer_verify(struct core *core, uint32_t node, uint32_t tier);

/* All records are held by transfers that are late: nothing can begin until one of them is done. */
bool transfer_stuck(const struct core *core);
/* The haul has no interest any more in the loads of blocks from `block` on. */
void transfer_give_up(struct core *core, uint32_t haul, uint32_t block);
void transfer_done(struct core *core, uint32_t id, int result);
void transfer_late(struct core *core, uint32_t id);

#endif
