/* SPDX-License-Identifier: Apache-2.0 */
/* move.h: is it faster to load what is cold, or to compute it? */
#ifndef KVD_CORE_MOVE_H
#define KVD_CORE_MOVE_H

#include "kvd/core/machine.h"

/*
 * Of the cold nodes of the chain that ends in `last` and has `first` blocks before them: how many
 * blocks the chain should have when the rest is computed: `first`, or more. *out_estimate_ns: what
 * loading those is expected to take; 0: nobody knows. Counts nothing.
 */
uint32_t move_plan(const struct core *core, uint32_t last, uint32_t first,
		   uint64_t *out_estimate_ns);
/* The plan is carried out for a request: counts it, and says it in a note. */
void move_count(struct core *core, uint32_t last, uint32_t first, uint32_t end,
		uint64_t estimate_ns);
/* The load ended, which was expected to take so long. */
void move_outcome(struct core *core, uint32_t last, uint64_t estimate_ns, uint64_t took_ns);

#endif
