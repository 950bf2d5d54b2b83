/* SPDX-License-Identifier: Apache-2.0 */
/* What the clients' models make of the answers. */
#ifndef SIM_CLIENT_H
#define SIM_CLIENT_H

#include "tests/sim/sim.h"

void client_reply(struct sim *sim, const struct sim_pending *pending, const struct kvd_rep *rep,
		  const void *payload);

#endif
