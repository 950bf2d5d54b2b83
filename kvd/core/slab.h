/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slab.h: memory comes and goes in slabs. They are made on demand; one that another shelf needs
 * more is closed, evicted whole, unmapped by everybody, destroyed (turnover.h), and its bytes are
 * made anew.
 *
 *   none -> making -> live -> closed -> retiring -> destroying -> none
 */
#ifndef KVD_CORE_SLAB_H
#define KVD_CORE_SLAB_H

#include "kvd/core/machine.h"

void slab_init(struct core *core);

/* Pages of the shelf that could be made from bytes that nobody has and no floor reserves. */
uint64_t slab_unmade_pages(const struct core *core, uint32_t space, uint32_t geometry);
/* Orders slabs until at least `pages` are being made, or no more can be. */
void slab_want(struct core *core, uint32_t space, uint32_t geometry, uint64_t pages);
/* Orders one slab ahead of need when the shelf runs low. */
void slab_spare(struct core *core, uint32_t space, uint32_t geometry);

void slab_made(struct core *core, uint32_t slab, int result);
void slab_destroyed(struct core *core, uint32_t slab);
/* Orders the end of a slab that is empty. */
void slab_destroy(struct core *core, uint32_t slab, bool forced);
int slab_find(const struct core *core, uint32_t space, uint32_t page, struct kvd_slab_wire *out);
/* Bytes of slabs that the space can never have more than on the device. */
uint64_t slab_limit_bytes(const struct core *core, uint32_t space, uint32_t device);

#endif
