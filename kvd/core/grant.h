/* SPDX-License-Identifier: Apache-2.0 */
/* grant.h: what a lease is told in the replies to ACQUIRE, EXTEND, FORK and CLAIM. */
#ifndef KVD_CORE_GRANT_H
#define KVD_CORE_GRANT_H

#include "kvd/core/machine.h"

/*
 * Fills the reply: where the lease stands, and handles of blocks [first, first + count) as far as
 * the client reserved room. `tail`: handles of a tail by part, or NULL.
 */
void grant_fill(struct core *core, struct call *call, uint32_t lease, uint32_t first,
		uint32_t count, const struct kvd_handle *tail, uint32_t tail_tokens);

#endif
