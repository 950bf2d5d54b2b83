/* SPDX-License-Identifier: Apache-2.0 */
/* The place where a history happens: a core of random size, namespaces and formats. */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "tests/sim/sim.h"

void world_init(struct sim *sim, uint64_t seed);
void world_fini(struct sim *sim);

#endif
