/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy.h: which pages hold a node. A part has at most one on the device, and the copy is the page
 * record's own link to its node. Copies in tiers are slots: see rest.h.
 */
#ifndef KVD_CORE_COPY_H
#define KVD_CORE_COPY_H

#include "kvd/core/machine.h"
#include "kvd/core/state.h"

/* Gives the node its pages, one a part, open and in no list; `event` seals them. */
void copy_attach(struct core *core, uint32_t node, const uint32_t *pages, enum state_event event);
/* The node's pages leave the eviction order and are free. */
void copy_free(struct core *core, struct node *node, enum state_event event);
void copy_make_evictable(struct core *core, const struct node *node);
void copy_make_busy(struct core *core, const struct node *node);
/* Handles of all parts; KVD_PAGE_NONE while the node has none. */
void copy_handles(const struct core *core, const struct node *node, uint32_t part_count,
		  struct kvd_handle *out);

/* An open page in no list, that ranks of the group may still write. */
void copy_quarantine(struct core *core, uint32_t page, uint32_t group);
/* Frees quarantined pages of a group that is quiet, as far as the budget goes. */
void copy_release_quarantine(struct core *core, uint32_t group);

#endif
