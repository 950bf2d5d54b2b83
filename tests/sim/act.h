/* SPDX-License-Identifier: Apache-2.0 */
/* What honest clients do next. */
#ifndef SIM_ACT_H
#define SIM_ACT_H

#include "tests/sim/sim.h"

/* act_lease.c: one move of one lease. */
void act_lease_step(struct sim *sim, int lease);
void act_lease_release(struct sim *sim, int lease);

/* act_session.c: one move of a session that is not about a lease it has. */
void act_session_acquire(struct sim *sim, int session);
void act_session_step(struct sim *sim, int session);
void act_session_return(struct sim *sim, int session, uint32_t format);
void act_session_unpin(struct sim *sim, int session, int pin);

/* act_admin.c: what an operator asks. */
void act_admin_step(struct sim *sim, int session);
void act_admin_verify(struct sim *sim, int session);
void act_admin_drain(struct sim *sim, int session, bool on);
void act_admin_evict(struct sim *sim, int session, uint64_t pages);

#endif
