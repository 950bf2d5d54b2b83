/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease.h: the life of a lease and its row in the session's table.
 *
 *   new -> live -> dying -> free        parent: released, but forks still read its pages
 *           |  \-> parent -> dying      ticket: between HANDOFF and CLAIM
 *           \----> ticket -> live, dying
 */
#ifndef KVD_CORE_LEASE_H
#define KVD_CORE_LEASE_H

#include "kvd/core/machine.h"

void lease_init(struct core *core);
/* Makes the record a lease that has nothing; youngest of all. */
void lease_reset(struct core *core, uint32_t lease, enum lease_life life, uint32_t session,
		 uint32_t format);
/* A lease that is not in its session's table yet. CORE_NONE: all records are in use. */
uint32_t lease_new(struct core *core, uint32_t session, uint32_t format);
/* Is there a record and a row for one more lease of the session? */
bool lease_room(const struct core *core, uint32_t session);
/* Gives it a row, and an id. 0, -ENOSPC. */
int lease_enter(struct core *core, uint32_t lease, uint32_t session);
/* Takes its row away; the id is stale from then on. */
void lease_leave(struct core *core, uint32_t lease);
uint64_t lease_id(const struct core *core, uint32_t lease);
/* The live lease of that id. 0, KVD_STALE. */
int lease_find(const struct core *core, uint32_t session, uint64_t id, uint32_t *out_lease);

/*
 * Undoes a lease that was not admitted, within the step and whatever its size: what it had pinned
 * is as it was, so nobody who waits is woken by it.
 */
void lease_abandon(struct core *core, uint32_t lease);
/*
 * Ends a lease that is not in a row any more: at once as far as the budget goes, the
 * rest in lease_settle(). With forks it stays as their parent.
 */
void lease_free(struct core *core, uint32_t lease);
/*
 * lease_leave(), the role of a builder given on, then lease_free(). Its open pages are free at once
 * unless its group says that somebody may still write them.
 */
void lease_end(struct core *core, uint32_t lease);
/* A rank of its group died: the lease is to be released; until then its pages stay. */
void lease_revoke(struct core *core, uint32_t lease);
/* Continues with leases that are ending. */
void lease_settle(struct core *core);

/* Blocks from 0 on that the lease can read without a gap. */
uint32_t lease_readable(const struct core *core, uint32_t lease);
/* Sends its row. */
void lease_show(struct core *core, uint32_t lease);

/* Everything that it holds is charged to another session; CORE_NONE: to nobody. */
void lease_recharge(struct core *core, uint32_t lease, uint32_t to);
/* Its tail is not needed any more. */
void lease_drop_tail(struct core *core, uint32_t lease);

#endif
