/* SPDX-License-Identifier: Apache-2.0 */
/*
 * haul.h: chains on their way between the device and the tiers. A haul has a lease of its own, of
 * which no client knows: by that it pins what it moves, builds what it loads, and is followed like
 * any other builder; when it fails, its followers inherit.
 */
#ifndef KVD_CORE_HAUL_H
#define KVD_CORE_HAUL_H

#include "kvd/core/machine.h"

/* Can another load begin? */
bool haul_room(const struct core *core);
/*
 * Loads the cold nodes of the chain that ends in `last`, those behind `first` blocks; for all of
 * them pages are promised to the lease `payer`, and are taken. Returns the haul's lease.
 */
uint32_t haul_load(struct core *core, uint32_t payer, uint32_t last, uint32_t first);

/* A block could not be loaded: it and all behind it are given up. */
void haul_failed(struct core *core, uint32_t haul, uint32_t block);
/* A block could not be stored. */
void haul_unstored(struct core *core, uint32_t haul);
/* One that it stores is late: nobody knows how long its chain will be pinned. */
void haul_late(struct core *core, uint32_t haul);
/* All loads whose chain runs through the node end before it. */
void haul_end_through(struct core *core, uint32_t node);

/* Begins what can begin, publishes what has come, ends what is done, as far as the budget goes. */
void haul_pump(struct core *core);
/* There is more of that to do now. */
bool haul_busy(const struct core *core);
uint64_t haul_deadline_ns(const struct core *core);

#endif
