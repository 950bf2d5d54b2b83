/* SPDX-License-Identifier: Apache-2.0 */
/* One history: a pure function of its seed. */
#ifndef SIM_HISTORY_H
#define SIM_HISTORY_H

#include "tests/sim/sim.h"

/*
 * Runs `steps` steps and the end. A fault ends the process (report.h). Returns a digest of all
 * that the core said.
 */
uint64_t history_run(uint64_t seed, uint64_t steps, bool verbose, uint64_t *steps_done);

#endif
