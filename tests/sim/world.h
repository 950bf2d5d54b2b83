/* SPDX-License-Identifier: Apache-2.0 */
/* The place where a history happens: a core of random size, namespaces and formats. */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "tests/sim/sim.h"

void world_init(struct sim *sim, uint64_t seed);
void world_fini(struct sim *sim);
/* A core of the world's configuration with its namespaces, and its end. */
void world_make_core(struct sim *sim);
void world_end_core(struct sim *sim);

#endif
