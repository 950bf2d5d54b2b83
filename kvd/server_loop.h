/* SPDX-License-Identifier: Apache-2.0 */
/* The turns of the daemon's loop. */
#ifndef KVD_SERVER_LOOP_H
#define KVD_SERVER_LOOP_H

struct server;

/* Adds listening socket, signals and workers to the loop; writes the first status. 0 or -errno. */
int server_loop_init(struct server *s);
/* Until SIGTERM, SIGINT, or the end of the one peer of a private child. */
void server_loop_run(struct server *s);
/* At the stop: what was begun between the tiers ends, or its time is over. */
void server_loop_drain(struct server *s);

#endif
