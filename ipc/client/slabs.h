/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From pages to addresses. Each slab is mapped twice: what one reads of others, and where one
 * writes one's own open pages. In guard mode the second is closed but for those.
 */
#ifndef IPC_CLIENT_SLABS_H
#define IPC_CLIENT_SLABS_H

#include "ipc/client/client.h"

/* The library's own map operations, for memfd slabs; ctx is the handle. */
void slabs_init(struct kvd *k, const struct kvd_map_ops *ops);
/* Unmaps everything. In a forked child (`mapped` false) the maps are not there. */
void slabs_fini(struct kvd *k, bool mapped);
/* Makes sure that the page has an address; asks the daemon if need be. 0 or -errno. */
int slabs_find(struct kvd *k, uint32_t page);
/* Where others' pages are read. 0 or -errno. */
int slabs_read(struct kvd *k, uint32_t page, uint64_t *out_address);
/* Opens an own page for writing, and poisons it if that is wanted. 0 or -errno. */
int slabs_open(struct kvd *k, uint32_t page, uint64_t *out_address);
/* The page is not written any more. Unknown pages are fine. */
void slabs_shut(struct kvd *k, uint32_t page);

#endif
