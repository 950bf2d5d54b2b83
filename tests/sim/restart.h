/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon dies, and another one finds what it left. */
#ifndef SIM_RESTART_H
#define SIM_RESTART_H

#include "tests/sim/sim.h"

void restart_now(struct sim *sim);

#endif
