/* SPDX-License-Identifier: Apache-2.0 */
/* What the pages hold, who may write them, and who still does though it must not be trusted. */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include "tests/sim/sim.h"

/* The writer that stands for the magazine of a group. */
#define MEMORY_WRITER_GROUP(group) ((int)SIM_LEASES_MAX + (group))

/* A page is handed to `writer` as its own: nobody may hold, read or scribble it. */
void memory_grant(struct sim *sim, struct kvd_handle page, uint32_t space, uint32_t format,
		  uint32_t part, int writer);
/* A page is shown to be read: it must lie in a slab of the namespace that fits the format. */
void memory_show(struct sim *sim, struct kvd_handle page, uint32_t space, uint32_t format,
		 uint32_t part);
/* Nobody holds, reads or may still write the page. */
void memory_require_idle(struct sim *sim, uint32_t page);
/* Nobody may write the page: it is stored. */
void memory_require_unwritten(struct sim *sim, uint32_t page);
/* Bytes of the device's pages that somebody holds: they are neither free nor evictable. */
uint64_t memory_held_bytes(struct sim *sim, uint32_t device);
/* The page has no writer any more. */
void memory_drop(struct sim *sim, struct kvd_handle page);
/* Writes tokens up to `end` (within the block) into the lease's own page of the block. */
void memory_write(struct sim *sim, struct sim_lease *lease, uint32_t block, uint32_t end);
/* Copies the lease's tail into its own page of the block. */
void memory_copy_tail(struct sim *sim, struct sim_lease *lease, uint32_t block);
/* Everything that every lease may read now must be there. */
void memory_check(struct sim *sim);
void memory_check_lease(struct sim *sim, const struct sim_lease *lease);
/* Those who lost their right to write, and may not know it, write. */
void memory_scribble(struct sim *sim);
/* Fresh memory behind the pages of a slab. */
void memory_renew(struct sim *sim, const struct core_order *slab);

#endif
