/* SPDX-License-Identifier: Apache-2.0 */
/*
 * group.h: session groups: the ranks that write one set of leases. A lone session is a group of
 * one. The death of one rank ends the group. What its ranks may still write when they are gone is
 * the group's quarantine: it lasts until each process that broke is dead or has said that it has
 * stopped, and no rank is left.
 */
#ifndef KVD_CORE_GROUP_H
#define KVD_CORE_GROUP_H

#include "kvd/core/machine.h"

/* The user's group of that id, 0: a new one. 0; -ENOENT: there is none to join here; -EUSERS. */
int group_join(struct core *core, uint64_t id, uint32_t space, uint32_t uid, uint32_t *out_group);
/* A rank broke, and `process` may still write. The leases of the others are revoked. */
void group_break(struct core *core, uint32_t group, uint32_t process);
/* A rank has left. */
void group_leave(struct core *core, uint32_t group);
/* True if pages of the group that are open now cannot be given to others at once. */
bool group_unsafe(const struct core *core, uint32_t group);
/* A lease that ends slice by slice refers to the group's quarantine. */
void group_get(struct core *core, uint32_t group);
void group_put(struct core *core, uint32_t group);

bool group_written_by(const struct core *core, uint32_t process);
void group_process_quiet(struct core *core, uint32_t process, bool quiesced);
/* Frees quarantined pages of groups that are quiet, as far as the budget goes. */
void group_settle(struct core *core);
bool group_busy(const struct core *core);

#endif
