/* SPDX-License-Identifier: Apache-2.0 */
/* The shell's memory and the clients' maps: slabs are made and destroyed late, or not at all. */
#ifndef SIM_ORDERS_H
#define SIM_ORDERS_H

#include "tests/sim/sim.h"

/* The core ordered something. */
void orders_order(struct sim *sim, const struct core_order *order);
/* Orders whose time has come end, well or badly. `all`: whatever their time. */
void orders_progress(struct sim *sim, bool all);
/* An order is under way. */
bool orders_pending(const struct sim *sim);
/* The session sees the page: it maps the slab if it does not yet. */
void orders_import(struct sim *sim, int session, uint32_t page);
/* Clients that are told of a retiring slab unmap it, sooner or later. */
void orders_answer(struct sim *sim, int session);
/* No model has anything to do with a page of the slab. */
void orders_require_idle(struct sim *sim, uint32_t slab);
/* The slab whose range the page is in, or NULL. */
struct sim_slab *orders_of(struct sim *sim, uint32_t page);

#endif
