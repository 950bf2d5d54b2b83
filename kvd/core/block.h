/* SPDX-License-Identifier: Apache-2.0 */
/*
 * block.h: the pages of a lease, block by block: its own open ones, its private sealed ones, those
 * of the nodes of its path, and those that it reads of its parent.
 */
#ifndef KVD_CORE_BLOCK_H
#define KVD_CORE_BLOCK_H

#include "kvd/core/machine.h"

/* Takes an open page for each part of the block; they must be promised. */
void block_take(struct core *core, uint32_t lease, uint32_t block);
bool block_owned(const struct core *core, uint32_t lease, uint32_t block);
/* True if the block's open pages are just these, by part. */
bool block_matches(const struct core *core, uint32_t lease, uint32_t block,
		   const struct kvd_handle *handles);
/* The open pages of the block leave the lease, by part. False: it has none. */
bool block_pull(struct core *core, uint32_t lease, uint32_t block, uint32_t *out_pages);
/* Puts an open page that is in no list under the lease's tag. */
void block_tag(struct core *core, uint32_t lease, uint32_t block, uint32_t part, uint32_t page);
/* Seals pulled pages as private ones. */
void block_keep(struct core *core, uint32_t lease, uint32_t block, const uint32_t *pages);
/* Frees the open pages of the block, if it has any. */
void block_drop(struct core *core, uint32_t lease, uint32_t block);
/* True if the block has open pages whose handles the client does not have. */
bool block_hidden(const struct core *core, uint32_t lease, uint32_t block);
/* Handles of blocks [first, first + count), part by part; KVD_PAGE_NONE where not known. */
void block_handles(struct core *core, uint32_t lease, uint32_t first, uint32_t count,
		   struct kvd_handle *out);
/* Counts private blocks that follow the readable ones without a gap. */
void block_count_kept(struct core *core, uint32_t lease);

#endif
