/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unsealed.h: the tokens of a lease behind its path, and the blocks that they become. At most one
 * block of them is kept; a lease that lets more come without sealing publishes nothing any more.
 */
#ifndef KVD_CORE_UNSEALED_H
#define KVD_CORE_UNSEALED_H

#include "kvd/core/index.h"
#include "kvd/core/machine.h"

/* 0, or -E2BIG: a sequence cannot be that long. */
int unsealed_room(const struct core *core, uint32_t lease, uint32_t token_count);
/* Appends generated tokens. */
void unsealed_append(struct core *core, uint32_t lease, const uint32_t *tokens, uint32_t count);
/* Appends tokens up to the end of the open block at most; returns how many. */
uint32_t unsealed_fill(struct core *core, uint32_t lease, const uint32_t *tokens, uint32_t count);
/* Key of the open block with its first `valid` tokens. False: it is private, or not that long. */
bool unsealed_key(const struct core *core, uint32_t lease, uint32_t valid, struct index_key *out);
/* The open block has become a node, or never will. */
void unsealed_next(struct core *core, uint32_t lease);
/* The child of a FORK starts with the first `count` tokens of the parent's open block. False: no
 * room. */
bool unsealed_copy(struct core *core, uint32_t from, uint32_t to, uint32_t count);

#endif
