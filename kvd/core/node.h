/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node.h: the prefix tree. A lease pins all nodes from the root to the deepest of its path, so a
 * node is pinned at least as often as any of its children, and a node without pins has none below.
 */
#ifndef KVD_CORE_NODE_H
#define KVD_CORE_NODE_H

#include "kvd/core/index.h"
#include "kvd/core/machine.h"
#include "kvd/core/state.h"

void node_init(struct core *core);
/* Makes the root of a format. */
void node_root(struct core *core, uint32_t format);

/*
 * A building node below `parent`, newest of its children. flags: NODE_PARTIAL nodes are not in the
 * hash table. When the index is full, something unused of the space makes room. CORE_NONE: there
 * is no such thing.
 */
uint32_t node_new(struct core *core, uint32_t parent, const struct index_key *key, uint8_t flags);
/* Takes a node without children, pins and pages out of the index, and out of all tiers. */
void node_drop(struct core *core, uint32_t node);
/* A node of recovery: it has a slot and no pages. CORE_NONE: the index is full. */
uint32_t node_found(struct core *core, uint32_t parent, const struct index_key *key, uint8_t uses);

/* session: who is charged; CORE_NONE: nobody. */
void node_pin(struct core *core, uint32_t node, uint32_t session);
void node_unpin(struct core *core, uint32_t node, uint32_t session);
/* The charge for one pin moves: HANDOFF and CLAIM. */
void node_recharge(struct core *core, uint32_t node, uint32_t from, uint32_t to);

/* The node gets its pages, part by part, all of them open and in no list. */
void node_publish(struct core *core, uint32_t node, const uint32_t *pages, enum state_event event);
/*
 * Evicts a sealed node without pins and without children that have pages; its own are free. It is
 * cold if a tier has it, else it leaves the index, and what is below it too.
 */
void node_evict(struct core *core, uint32_t node);
/*
 * Evicts the node and all below it that have pages, leaves first. Returns the number of pages that
 * came free.
 */
uint32_t node_evict_below(struct core *core, uint32_t node);
/* A cold node and all below it, which are cold too, leave the index. */
void node_drop_cold(struct core *core, uint32_t node);
/* A building node that nobody pins: nobody builds it any more. It is cold, or leaves the index. */
void node_abandon(struct core *core, uint32_t node, bool quarantined);
/* A cold node that is pinned: it is built again, or loaded, by that lease. */
void node_revive(struct core *core, uint32_t node, uint32_t builder);

/* The ancestor (or the node itself) at that depth. */
uint32_t node_at_depth(const struct core *core, uint32_t node, uint32_t depth);

#endif
