/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ticket.h: HANDOFF and CLAIM. A lease in a ticket belongs to no session; its writer has said with
 * HANDOFF that its pages are quiet. The ticket is 16 random bytes, good for one CLAIM by a session
 * of the same namespace, before it expires; then the lease is released.
 */
#ifndef KVD_CORE_TICKET_H
#define KVD_CORE_TICKET_H

#include "kvd/core/machine.h"

int ticket_handoff(struct core *core, struct call *call);
int ticket_claim(struct core *core, struct call *call);
void ticket_time(struct core *core);
uint64_t ticket_deadline_ns(const struct core *core);

#endif
