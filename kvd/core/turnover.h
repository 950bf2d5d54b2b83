/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turnover.h: the second half of a slab's life. Closed: takes no new pages, is evicted and waits
 * until the last pin is gone. Retiring: empty, waits until its importers have unmapped it, or
 * their grace is over. Destroying: the shell's.
 */
#ifndef KVD_CORE_TURNOVER_H
#define KVD_CORE_TURNOVER_H

#include "kvd/core/machine.h"

/* Pages of the shelf that idle slabs of others, and slabs on their way out, could become. */
uint64_t turnover_pages(const struct core *core, uint32_t space, uint32_t geometry);
/* Closes idle slabs until `pages` can be made; what is on its way counts. False: not enough. */
bool turnover_begin(struct core *core, uint32_t space, uint32_t geometry, uint64_t pages);
/* Closes the slab of another shelf that is least in use, for a request that waits. */
void turnover_close_least(struct core *core, uint32_t space, uint32_t geometry);
/* Nobody waits for the device any more: its slabs that are closed but in use are live again. */
void turnover_reopen(struct core *core, uint32_t device);

/* Evicts closed slabs, ends graces: what core_time() does. */
void turnover_time(struct core *core);
bool turnover_busy(const struct core *core);
uint64_t turnover_deadline_ns(const struct core *core);

/* The session maps the slab. 0, -ENOENT. */
int turnover_import(struct core *core, uint32_t session, uint32_t slab);
/* It does not any more. 0, KVD_STALE. */
int turnover_gone(struct core *core, uint32_t session, uint32_t slab);
/* A session ended: its imports are gone, or its process's until that is proven quiet. */
void turnover_session_end(struct core *core, uint32_t session, bool quiet);
void turnover_process_end(struct core *core, uint32_t process);
bool turnover_process_imports(const struct core *core, uint32_t process);

#endif
