/* SPDX-License-Identifier: Apache-2.0 */
/* The model of a lease: what a client knows of its sequence, and what follows for the core. */
#ifndef SIM_MODEL_H
#define SIM_MODEL_H

#include "tests/sim/sim.h"

/* A model that is not in use, cleared, or SIM_NONE. */
int model_new(struct sim *sim, int session);
/* The core admitted it: rep and handles of ACQUIRE, CLAIM or FORK. */
void model_adopt(struct sim *sim, int lease, const struct kvd_rep *rep,
		 const struct kvd_handle *handles);
/* Handles of blocks from `first` on came, `count` of them. */
void model_take_handles(struct sim *sim, int lease, uint32_t first, uint32_t count,
			const struct kvd_handle *handles);
/* The magazine page behind the block goes back to the magazine, what it held is lost. */
void model_unbind(struct sim *sim, struct sim_lease *lease, uint32_t block);
/* HANDOFF and CLAIM: own open pages of blocks that others have sealed are given up. */
void model_drop_useless(struct sim *sim, int lease);
/* The client will not touch the pages any more: bound pages go back to the magazine. */
void model_drop(struct sim *sim, int lease);
/* The client is gone, and may go on writing its open pages: returns them by bit. */
uint64_t model_lose(struct sim *sim, int lease);
/* The pages that the client has open, by bit. */
uint64_t model_open_pages(const struct sim *sim, const struct sim_lease *lease);
/* The row of the lease in its session's table. */
const struct kvd_lease_row *model_row(const struct sim *sim, const struct sim_lease *lease);
/* Blocks from 0 on that are known to be in the index. */
uint32_t model_published(const struct sim *sim, const struct sim_lease *lease);
/* The first own block that is not sealed, or SIM_BLOCKS_MAX. */
uint32_t model_first_open(const struct sim *sim, const struct sim_lease *lease);
/* Tokens that a lookup of the first n must find, because leases and pins hold them. */
uint32_t model_floor(const struct sim *sim, const struct sim_sequence *seq, uint32_t n, int except);

#endif
