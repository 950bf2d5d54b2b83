/* SPDX-License-Identifier: Apache-2.0 */
/* wait.h: requests that wait for memory: first come, first served within a namespace. */
#ifndef KVD_CORE_WAIT_H
#define KVD_CORE_WAIT_H

#include "kvd/core/machine.h"

void wait_init(struct core *core);
/* Queues the request of a call that could not be admitted. 0, KVD_BUSY. */
int wait_add(struct core *core, const struct call *call);
/* Replies -ECANCELED to the waiting request with that tag. 0, KVD_MISS. */
int wait_cancel(struct core *core, uint32_t session, uint32_t tag);
/* The session is over: its requests are forgotten. */
void wait_drop_session(struct core *core, uint32_t session);
/* Nobody is let in any more: waiting ACQUIREs are answered. */
void wait_drain(struct core *core);
/*
 * Ends requests whose deadline has passed, and tries all others if memory came free: as far as the
 * budget goes, the next call goes on.
 */
void wait_time(struct core *core);
bool wait_busy(const struct core *core);
uint64_t wait_deadline_ns(const struct core *core);

#endif
