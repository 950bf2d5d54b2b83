/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.h: page records. Lists of them, and taking and freeing pages of a shelf. A free raises the
 * generation, so that every handle of the page's former life is stale.
 */
#ifndef KVD_CORE_POOL_H
#define KVD_CORE_POOL_H

#include "kvd/core/machine.h"
#include "kvd/core/state.h"

void pool_list_init(struct page_list *list);
void pool_list_append(struct core *core, struct page_list *list, uint32_t page,
		      enum page_list_id id);
/* Keeps the list in order of block, then part. Going through it in order costs a step a page. */
void pool_list_insert(struct core *core, struct page_list *list, uint32_t page,
		      enum page_list_id id);
/* The first page of the block in such a list, or CORE_NONE. */
uint32_t pool_list_find(const struct core *core, struct page_list *list, uint32_t block);
void pool_list_remove(struct core *core, struct page_list *list, uint32_t page);

/* A page of the fullest slab that has a free one; the shelf must have one. It is in no list. */
uint32_t pool_take(struct core *core, struct shelf *shelf, enum state_event event);
/* The page must be in no list and belong to no node. */
void pool_free(struct core *core, uint32_t page, enum state_event event);

/* A sealed page that no path runs through any more joins the eviction order, or leaves it. */
void pool_make_evictable(struct core *core, uint32_t page);
void pool_make_busy(struct core *core, uint32_t page);

/*
 * Looks a client's handle up: the page of this very life, in this space. 0, or KVD_STALE. The
 * caller checks state and owner.
 */
int pool_find(const struct core *core, struct kvd_handle handle, uint32_t space,
	      uint32_t *out_page);
struct kvd_handle pool_handle(const struct core *core, uint32_t page);

/* The shelf that the page's slab stands on. */
struct shelf *pool_shelf(const struct core *core, uint32_t page);

#endif
