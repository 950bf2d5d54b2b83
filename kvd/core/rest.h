/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rest.h: where a node's block lies beside the device: its slot in each tier, the order in which
 * slots are given up, the queue of what is to be stored.
 */
#ifndef KVD_CORE_REST_H
#define KVD_CORE_REST_H

#include "kvd/core/machine.h"

void rest_init(struct core *core);
/* A new node lies nowhere. */
void rest_clear(struct core *core, uint32_t node);

/* Does it lie in the tier; in any? */
bool rest_in(const struct core *core, uint32_t node, uint32_t tier);
bool rest_any(const struct core *core, uint32_t node);
/* Is there a file tier, and the policy wants it not there? */
bool rest_unstored(const struct core *core, uint32_t node);
/* The fastest tier in which it lies and that can be read; CORE_NONE: none. */
uint32_t rest_readable(const struct core *core, uint32_t node);
/* Does a transfer use one of its slots, one that is not late, so that it will be readable soon? */
bool rest_using(const struct core *core, uint32_t node);

/* The block lies in the slot now; `generation` is in its header. Says so in the journal. */
void rest_put(struct core *core, uint32_t node, uint32_t tier, uint32_t slot, uint64_t generation);
/* It does not any more. The slot is free, or will be when the transfer that uses it is done. */
void rest_drop(struct core *core, uint32_t node, uint32_t tier);
/* The same for one that could not be read: a node that lies nowhere else leaves the index. */
void rest_lose(struct core *core, uint32_t node, uint32_t tier);
/* The node leaves the index. */
void rest_forget(struct core *core, uint32_t node);

/* The node's last pin goes: it may be stored, its slots may be given up. */
void rest_idle(struct core *core, uint32_t node);
/* It is pinned, or leaves the index. */
void rest_busy(struct core *core, uint32_t node);
/* Into the tier's queue, at its end; out of it, if it is there; out of all queues. */
void rest_queue(struct core *core, uint32_t node, uint32_t tier);
void rest_unqueue(struct core *core, uint32_t node, uint32_t tier);
void rest_unqueue_all(struct core *core, uint32_t node);
/* Recovery has found the node, which has no pins: it goes before its parent. Nothing is recorded.
 */
void rest_found(struct core *core, uint32_t node, uint32_t tier, uint32_t slot,
		uint64_t generation);

/* A slot for the node, giving up others' if need be; CORE_NONE: not now. */
uint32_t rest_take_slot(struct core *core, uint32_t node, uint32_t tier);
/* Makes room in the index: a cold node that goes early leaves it. False: none does. */
bool rest_make_room(struct core *core);

/* Cold nodes of the space leave the index, `pages_max` pages of them at most. Returns how many. */
uint64_t rest_forget_cold(struct core *core, uint32_t space, uint64_t pages_max);

/* Fills the record of a node that lies in the file tier. */
void rest_record(const struct core *core, uint32_t node, struct core_record *out);

#endif
