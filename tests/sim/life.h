/* SPDX-License-Identifier: Apache-2.0 */
/* Processes and sessions: they come, say goodbye, break, and are proven dead. */
#ifndef SIM_LIFE_H
#define SIM_LIFE_H

#include "tests/sim/sim.h"

/* A new session, of a new process or of one that lives on; SIM_NONE: refused, or no room. */
int life_open(struct sim *sim);
/* The admin session and one that sends nothing but garbage. */
int life_open_admin(struct sim *sim);
int life_open_evil(struct sim *sim);
/* A clean end: the client has stopped, everything is free at once. */
void life_bye(struct sim *sim, int session);
/* Hung up, or broke the protocol: the process may still write what it had open. */
void life_break(struct sim *sim, int session);
/* Ends the sessions that the core has expelled. After each core_time(). */
void life_expel(struct sim *sim);
/* The process is proven dead, with or without a hang-up before. */
void life_prove(struct sim *sim, int process);
/* Sessions whose release the core has ended are forgotten. */
void life_collect(struct sim *sim);
/* Tickets whose time is over stand for nothing any more. */
void life_expire_tickets(struct sim *sim);

#endif
