/* SPDX-License-Identifier: Apache-2.0 */
/* The model of a lease: what a client knows of its sequence, and what follows for the core. */
#ifndef SIM_LEASE_H
#define SIM_LEASE_H

#include "tests/sim/sim.h"

/* A model that is not in use, cleared, or SIM_NONE. */
int lease_new(struct sim *sim, int session);
/* The core admitted it: rep and handles of ACQUIRE, CLAIM or FORK. */
void lease_adopt(struct sim *sim, int lease, const struct kvd_rep *rep,
		 const struct kvd_handle *handles);
/* Handles of blocks from `first` on came, `count` of them. */
void lease_take_handles(struct sim *sim, int lease, uint32_t first, uint32_t count,
			const struct kvd_handle *handles);
/* The magazine page behind the block goes back to the magazine, what it held is lost. */
void lease_unbind(struct sim *sim, struct sim_lease *lease, uint32_t block);
/* The client will not touch the pages any more: bound pages go back to the magazine. */
void lease_drop(struct sim *sim, int lease);
/* The client is gone, and may go on writing its open pages: returns them by bit. */
uint64_t lease_lose(struct sim *sim, int lease);
/* The row of the lease in its session's table. */
const struct kvd_lease_row *lease_row(const struct sim *sim, const struct sim_lease *lease);
/* Blocks from 0 on that are known to be in the index. */
uint32_t lease_published(const struct sim *sim, const struct sim_lease *lease);
/* The first own block that is not sealed, or SIM_BLOCKS_MAX. */
uint32_t lease_first_open(const struct sim *sim, const struct sim_lease *lease);
/* Tokens that a lookup of the first n must find, because leases and pins hold them. */
uint32_t lease_floor(const struct sim *sim, const struct sim_sequence *seq, uint32_t n, int except);

#endif
