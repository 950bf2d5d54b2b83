/* SPDX-License-Identifier: Apache-2.0 */
/* The shell's transfers, and what lies in the tiers: slots fill late, badly, or rot. */
#ifndef SIM_TIERS_H
#define SIM_TIERS_H

#include "tests/sim/sim.h"

#define TIERS_CELL_BYTES 256u

/* The tiers of the configuration, empty. */
void tiers_init(struct sim *sim);
/* The core ordered a transfer. */
void tiers_transfer(struct sim *sim, const struct core_transfer *order);
/* Transfers whose time has come end, others are late. `all`: all end. */
void tiers_progress(struct sim *sim, bool all);
/* Each transfer ends, or is late and goes on. */
void tiers_settle(struct sim *sim);
/* Bytes rot, areas go down and come back. */
void tiers_weather(struct sim *sim);
/* All areas can be used. */
void tiers_mend(struct sim *sim);
/* Is a transfer under way for which somebody may wait? `late`: or any other. */
bool tiers_pending(const struct sim *sim, bool late);
/* No transfer has anything to do with the page; or none writes it. */
void tiers_require_apart(struct sim *sim, uint32_t page, bool written);
/* Another disk is there instead, and nothing on it. */
void tiers_lose_disk(struct sim *sim, uint32_t area);
/* The daemon dies, and with `power` the machine: what was under way is written in part, or not. */
void tiers_die(struct sim *sim, bool power);

#endif
