/* SPDX-License-Identifier: Apache-2.0 */
/* What must be true after every step, and at the end of a history. */
#ifndef SIM_ORACLE_H
#define SIM_ORACLE_H

#include "tests/sim/sim.h"

void oracle_step(struct sim *sim);
/* Everybody is gone and everything was evicted: nothing may be left. */
/* Does somebody compute the lease's first block that is not readable? Else it is loaded. */
bool oracle_computed(const struct sim *sim, const struct sim_lease *lease);
void oracle_end(struct sim *sim);

#endif
