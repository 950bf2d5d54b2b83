/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests in flight. One record a credit; a record is in use from the request to the delivery of
 * its event, which bounds both the rings and the queue of events.
 */
#ifndef IPC_CLIENT_REQUEST_H
#define IPC_CLIENT_REQUEST_H

#include "ipc/client/client.h"

/* Blocks in one request: what its tokens fill at the smallest page. */
#define REQUEST_BLOCKS_MAX (KVD_REQUEST_TOKENS_MAX / 16)

enum request_class {
	REQUEST_PLAIN, /* leaves CLIENT_CREDITS_KEPT */
	REQUEST_KEPT,  /* may use those */
	REQUEST_LAST,  /* BYE: may use the very last */
};

enum request_end {
	REQUEST_QUIET, /* nobody waits: the record is free when the reply came */
	REQUEST_EVENT, /* becomes an event of kvd_wait() */
	REQUEST_SYNC,  /* request_wait() waits for it */
};

struct request {
	struct list_link link; /* of the free ones, or of the events */
	bool sent;	       /* in flight: a reply is due */
	bool done;	       /* of SYNC */
	enum request_end end;
	uint32_t serial;
	struct kvd_req req;
	struct kvd_rep rep;
	struct area_range in;
	struct area_range out;
	struct kvd_lease *lease; /* NULL: none, or released meanwhile */
	struct format *format;
	struct kvd_event event;
	void *sync_out; /* where a SYNC one's payload goes */
	uint32_t sync_bytes;
};

int request_init(struct kvd *k);
void request_fini(struct kvd *k);

/* A record for `op`, or NULL: out of credits (replies that came were taken first). */
struct request *request_new(struct kvd *k, uint16_t op, enum request_class class,
			    enum request_end end);
/* Reserves payload to kvd, NULL: no room. Zero bytes need no call. */
void *request_in(struct kvd *k, struct request *rq, uint32_t bytes, enum request_class class);
/* Reserves payload from kvd: `bytes`, or less but at least bytes_min. False: no room. */
bool request_out(struct kvd *k, struct request *rq, uint32_t bytes, uint32_t bytes_min);
/* Frees a record that was not sent, or whose event was delivered. */
void request_free(struct kvd *k, struct request *rq);
/* Sends rq->req, with a new tag and the reserved ranges. */
void request_send(struct kvd *k, struct request *rq);
/* From within its own reply: sends a new rq->req without payload to kvd, the room for the answer
 * stays. */
void request_again(struct kvd *k, struct request *rq);

/* Takes all replies that came. */
void request_pump(struct kvd *k);
/* The connection is gone: every request in flight ends with KVD_GONE. */
void request_fail_all(struct kvd *k);
/* Forgets the lease in all requests that name it. */
void request_forget_lease(struct kvd *k, const struct kvd_lease *lease);
/* Waits for a SYNC request, stores its reply and frees it. 0, -ETIMEDOUT, KVD_GONE, -errno. */
int request_wait(struct kvd *k, struct request *rq, struct kvd_rep *out_rep);

#endif
