/* SPDX-License-Identifier: Apache-2.0 */
/*
 * acquire.h: ACQUIRE.
 *
 * The full blocks of the prompt, from the root on, are: matched (sealed: pinned), then followed
 * (being built by others), then own (building nodes of this lease). Own blocks, the last partial
 * one and decode_blocks get pages at once, or the request has changed nothing.
 *   cached_tokens  the matched blocks
 *   build_from     the first token behind matched and followed blocks; n when they are all of them
 *   handles        of blocks 0 .. ceil(n / page_tokens) + decode_blocks - 1; {KVD_PAGE_NONE, 0}
 *                  where the block is followed
 *   tail           only if nothing is followed
 */
#ifndef KVD_CORE_ACQUIRE_H
#define KVD_CORE_ACQUIRE_H

#include "kvd/core/machine.h"

int acquire_run(struct core *core, struct call *call);
/* There are no tiers to fetch from: says what is cached. */
int acquire_prefetch(struct core *core, struct call *call);

#endif
