/* SPDX-License-Identifier: Apache-2.0 */
/* A process that has, or had, sessions: watched by its pidfd, whose word alone proves its death. */
#ifndef KVD_PIDWATCH_H
#define KVD_PIDWATCH_H

#include "base/list.h"
#include "kvd/loop.h"
#include "kvd/work.h"
#include <ipc/sock.h>
#include <stdbool.h>
#include <stdint.h>

struct server;

struct pidwatch {
	struct list_link link;
	struct server *server;
	struct loop_source source;
	uint64_t identity;
	uint32_t pid;
	uint32_t uid;
	uint32_t sessions; /* open now */
	bool owes;	   /* a session of it broke: pages wait for its death */

	/* Dead, but its devices may not know it yet. */
	struct work_job job; /* asks them */
	bool asking;	     /* the job is at a worker */
	bool proven;	     /* they have let go of it, or cannot tell: the grace runs */
	int answer;	     /* of the job */
	uint64_t next_ns;    /* when to ask again, or when the grace is over */
};

/* The process of this peer; takes peer->pidfd over in any case. 0, -EUSERS: too many are watched.
 */
int pidwatch_join(struct server *s, struct sock_peer *peer, struct pidwatch **out);
/* A session of it has ended; clean: it had said BYE. */
void pidwatch_leave(struct pidwatch *p, bool clean);
/* Continues with those that died and whose devices have to let go of them. */
void pidwatch_time(struct server *s);
/* When pidwatch_time() must be called next; UINT64_MAX: no need. */
uint64_t pidwatch_deadline_ns(const struct server *s);
/* At the end, after the workers: all of them. */
void pidwatch_free_all(struct server *s);
/* Frees those that died or left in this turn. */
void pidwatch_reap(struct server *s);

#endif
