/* SPDX-License-Identifier: Apache-2.0 */
/*
 * follow.h: sharing what is still being computed. A building node has one builder, the lease that
 * answers for it; others whose path runs through it follow. Whoever seals the block first
 * publishes it.
 */
#ifndef KVD_CORE_FOLLOW_H
#define KVD_CORE_FOLLOW_H

#include "kvd/core/index.h"
#include "kvd/core/machine.h"

/* Finds the first unsealed node of the path anew, waits there if another builds it; tells. */
void follow_advance(struct core *core, uint32_t lease);
/* The node was sealed by `lease`; its builder was `builder`, or CORE_NONE. */
void follow_sealed(struct core *core, uint32_t node, uint32_t lease, uint32_t builder);
/*
 * The lease gives up all unsealed nodes of its path at depths above `depth`: what nobody else
 * needs leaves the index, the rest gets its oldest follower as its builder, by a CALL.
 */
void follow_give_up(struct core *core, uint32_t lease, uint32_t depth);
/* The lease leaves: it gives up all of them and waits for nothing. */
void follow_leave(struct core *core, uint32_t lease);
/* The lease becomes builder of all unsealed nodes of its path from block `first` on. */
void follow_take_over(struct core *core, uint32_t lease, uint32_t first);
/* The first block of the path whose node the lease builds; the path's length if there is none. */
uint32_t follow_first_built(const struct core *core, uint32_t lease);

#endif
