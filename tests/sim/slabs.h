/* SPDX-License-Identifier: Apache-2.0 */
/* The shell's memory and the clients' maps: slabs are made and destroyed late, or not at all. */
#ifndef SIM_SLABS_H
#define SIM_SLABS_H

#include "tests/sim/sim.h"

/* The core ordered something. */
void slabs_order(struct sim *sim, const struct core_order *order);
/* Orders whose time has come end, well or badly. `all`: whatever their time. */
void slabs_progress(struct sim *sim, bool all);
/* An order is under way. */
bool slabs_pending(const struct sim *sim);
/* The session sees the page: it maps the slab if it does not yet. */
void slabs_import(struct sim *sim, int session, uint32_t page);
/* Clients that are told of a retiring slab unmap it, sooner or later. */
void slabs_answer(struct sim *sim, int session);
/* No model has anything to do with a page of the slab. */
void slabs_require_idle(struct sim *sim, uint32_t slab);
/* The slab whose range the page is in, or NULL. */
struct sim_slab *slabs_of(struct sim *sim, uint32_t page);

#endif
