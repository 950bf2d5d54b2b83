/* SPDX-License-Identifier: Apache-2.0 */
/*
 * topup.h: open pages that a session group holds ahead of need. They carry no tag until SEAL,
 * RELEASE or FORK names one as a block of a lease.
 */
#ifndef KVD_CORE_TOPUP_H
#define KVD_CORE_TOPUP_H

#include "kvd/core/machine.h"

int topup_run(struct core *core, struct call *call);
int topup_return(struct core *core, struct call *call);
/*
 * The page of a handle that the caller's group holds and that may serve as part `part` of the
 * format. 0, KVD_STALE.
 */
int topup_find(const struct core *core, uint32_t session, struct kvd_handle handle,
	       const struct format *format, uint32_t part, uint32_t *out_page);
/* The page becomes part `part` of a block of the lease. */
void topup_bind(struct core *core, uint32_t lease, uint32_t block, uint32_t part, uint32_t page);
/* The last session of the group has left: takes its magazine back, as far as the budget goes. */
void topup_end(struct core *core, uint32_t group);
/* Asks the space's sessions that have magazine pages there for them; no device: not any more. */
void topup_want_back(struct core *core, uint32_t space, uint32_t devices);

#endif
