/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that no honest client sends. */
#ifndef SIM_HOSTILE_H
#define SIM_HOSTILE_H

#include "tests/sim/sim.h"

/* One request that is wrong in one place, in the name of an honest session: it must be refused. */
void hostile_wrong(struct sim *sim, int session);
/* One request of garbage from a session of whose namespace nobody expects anything. */
void hostile_garbage(struct sim *sim, int session);

#endif
