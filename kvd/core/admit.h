/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admit.h: all or nothing. Pages are promised to a lease before any is taken; what is promised can
 * be had: free + evictable >= promised, on every shelf, at any time.
 */
#ifndef KVD_CORE_ADMIT_H
#define KVD_CORE_ADMIT_H

#include "kvd/core/machine.h"
#include "kvd/core/state.h"

/* Could so many blocks of the format ever be held by one session? 0, -E2BIG. */
int admit_possible(const struct core *core, uint32_t format, uint64_t blocks);
/*
 * May the caller have `blocks` more now? 0; or KVD_FULL with the numbers in call->full, and
 * call->for_slab (a slab is being made for it) or call->own_limit (its own session or group is in
 * the way) set. Starts whatever brings memory sooner: slabs, turnover.
 */
int admit_check(struct core *core, struct call *call, uint32_t format, uint64_t blocks);
/*
 * Fills in the refusal of a request that its own group's limit on a device forbids; CORE_NONE: on
 * all of the format's.
 */
void admit_refuse(struct core *core, struct call *call, uint32_t format, uint64_t blocks,
		  uint32_t device);
/* Promises blocks that admit_check() has granted in this very step. */
void admit_promise(struct core *core, uint32_t lease, uint32_t blocks);
/* A promised block was taken. */
void admit_taken(struct core *core, uint32_t lease);
/* The lease needs no more of its promise. */
void admit_unpromise(struct core *core, uint32_t lease);
/* A page for a part of the format, evicting what must be: it was promised, or just checked. */
uint32_t admit_take_page(struct core *core, const struct format *format, uint32_t part,
			 enum state_event event);
/* Orders spare slabs for the format's shelves. */
void admit_spare(struct core *core, uint32_t format);

#endif
