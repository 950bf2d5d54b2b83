/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.h: who is behind sessions. A record lives while a session, a writer's bit of a group or
 * an import of a slab refers to it.
 */
#ifndef KVD_CORE_PROCESS_H
#define KVD_CORE_PROCESS_H

#include "kvd/core/machine.h"

/* The record of a process, for one more session. CORE_NONE: too many, or too many of the user. */
uint32_t process_get(struct core *core, uint64_t id, uint32_t uid);
void process_put(struct core *core, uint32_t process);
/* The process writes no more to what its broken sessions had open; `dead`: it never will. */
void process_quiet(struct core *core, uint64_t id, bool dead);
/* Drops the record if nothing refers to it any more. */
void process_settle(struct core *core, uint32_t process);

#endif
