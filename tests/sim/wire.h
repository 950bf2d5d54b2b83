/* SPDX-License-Identifier: Apache-2.0 */
/* The shell's part: requests go to the core, what it says comes back to the models. */
#ifndef SIM_WIRE_H
#define SIM_WIRE_H

#include "tests/sim/sim.h"

#define WIRE_SILENT (-2) /* for `lease`: the answer concerns no model */
#define WIRE_MUST_FAIL 1 /* for `aux`, then: and must not be 0 */

/*
 * Sends req with in_bytes of payload on behalf of the session; `lease` is the model it is about
 * and `aux` what else the answer needs, or SIM_NONE. False: the core found the session broken, and
 * it is closed now.
 */
bool wire_send(struct sim *sim, int session, struct kvd_req req, const void *in, int lease,
	       int aux);
/* The request with this tag, or NULL. */
struct sim_pending *wire_pending(struct sim *sim, uint32_t tag);
/* Since that step, did anybody wait for memory on the device, or was refused it? */
bool wire_short_since(const struct sim *sim, uint32_t device, uint64_t step);
/* Forgets what a closed session waited for. */
void wire_forget(struct sim *sim, int session);
extern const struct core_ops wire_ops;

#endif
