/* SPDX-License-Identifier: Apache-2.0 */
/* What outlives the daemon of each area of the file tier: a checkpoint, and what came after it. */
#ifndef SIM_JOURNAL_H
#define SIM_JOURNAL_H

#include "tests/sim/sim.h"

/* The core recorded something. */
void journal_record(struct sim *sim, const struct core_record *record);
/* Records become durable, checkpoints are begun, go on and end. */
void journal_step(struct sim *sim);
/* What the journals say is what the core says. */
void journal_check(struct sim *sim);
/*
 * The daemon dies: each journal is cut somewhere behind what was durable; what is left of it is its
 * checkpoint now.
 */
void journal_cut(struct sim *sim);
/* Another disk is there instead. */
void journal_lose_disk(struct sim *sim, uint32_t area);

#endif
