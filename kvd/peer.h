/* SPDX-License-Identifier: Apache-2.0 */
/* One connection: its socket, its rings, its session in the core. */
#ifndef KVD_PEER_H
#define KVD_PEER_H

#include "base/list.h"
#include "kvd/loop.h"
#include "kvd/pidwatch.h"
#include <ipc/ring.h>
#include <ipc/shm.h>
#include <ipc/sock.h>
#include <kvd_abi.h>
#include <stdbool.h>
#include <stdint.h>

struct server;

/* in_off of a request that came by the socket: no ring request can have it, see serve.c. */
#define PEER_BY_SOCKET UINT32_MAX

struct peer {
	struct list_link link;
	struct server *server;
	struct loop_source socket;
	struct loop_source bell;  /* the client rings it when we sleep */
	struct sock_peer who;	  /* pidfd: -1 once `process` has it */
	struct pidwatch *process; /* from HELLO on */
	uint64_t features;	  /* that it named */
	int32_t session;	  /* -1: before HELLO */
	bool admin;		  /* no rings */
	bool ended;
	bool socket_busy;  /* a request by socket has no reply yet; the socket is not read */
	bool must_ring;	   /* something was published since the doorbell was last rung */
	bool held;	   /* held_req was taken out of the ring and waits for its turn */
	int broken;	   /* -errno: ends at the next safe moment, not within a core step */
	const char *cause; /* static, or `refusal` */
	char refusal[280];
	uint32_t leases_max;
	struct shm rings;
	struct shm leases;
	struct ring_side ring;
	int client_bells[2]; /* the client's ends of the bells, until they are sent; -1 */
	struct kvd_lease_row *rows;
	struct kvd_req held_req;
	uint64_t hello_deadline_ns;
	uint64_t unanswered_since_ns; /* 0: the client has seen all that was published */
	char name[KVD_NAME_MAX];      /* printable */
	struct sock_packet packet;    /* the last one that came */
};

/* Takes fd and who->pidfd over in any case. 0 or -errno. */
int peer_new(struct server *s, int fd, const struct sock_peer *who);
/* Marks it: it ends before the loop sleeps. From anywhere, also within a core step. */
void peer_break(struct peer *p, int error, const char *cause);
/* Ends it now. clean: it said BYE. Never within a core step. */
void peer_end(struct peer *p, bool clean);
void peer_end_all_of(struct server *s, const struct pidwatch *process);
/* Ends those that are marked, frees those that ended. At the end of a turn. */
void peer_reap(struct server *s);
/* Something was published for the client. */
void peer_published(struct peer *p);
/* Rings the doorbell if something was published and the client sleeps. */
void peer_ring_bell(struct peer *p);
void peer_close_client_bells(struct peer *p);
/* The client has left something unread for more than a second. */
bool peer_stalled(struct peer *p, uint64_t now_ns);

#endif
