/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two SPSC rings of a session and its payload areas (struct kvd_rings in kvd_abi.h), seen from
 * either side. Both ends keep private copies of their own indices and of all offsets: what the
 * peer writes there changes nothing. A peer's index that is impossible is -EPROTO: the session is
 * broken. One thread per end.
 */
#ifndef IPC_RING_H
#define IPC_RING_H

#include <ipc/shm.h>
#include <kvd_abi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ring_side {
	struct kvd_rings *shared;
	struct kvd_req *reqs;
	struct kvd_rep *reps;
	uint8_t *in;  /* payload to kvd */
	uint8_t *out; /* payload from kvd */
	uint32_t credits;
	uint32_t in_area_bytes;
	uint32_t out_area_bytes;
	uint32_t req_idx; /* this side's own position in the request ring */
	uint32_t rep_idx;
	int bell_to_kvd; /* this side's ends of the bells, owned by the caller */
	int bell_to_client;
};

/* Bytes of the memfd for these sizes. */
size_t ring_bytes(uint32_t credits, uint32_t in_area_bytes, uint32_t out_area_bytes);
/* kvd: writes the header and sets up its side. credits: a power of two. */
void ring_init_server(struct ring_side *r, void *map, uint32_t credits, uint32_t in_area_bytes,
		      uint32_t out_area_bytes);
/* The client: checks the header against what the welcome said. 0 or -EPROTO. */
int ring_init_client(struct ring_side *r, void *map, size_t bytes, const struct kvd_welcome *w);

/* kvd. 1: *out is a private copy of the next request; 0: none; -EPROTO. Consumes it. */
int ring_take_request(struct ring_side *r, struct kvd_req *out);
/* kvd. Copies payload into the out area (range already checked) and publishes. -EPROTO: no slot. */
int ring_put_reply(struct ring_side *r, const struct kvd_req *req, const struct kvd_rep *rep,
		   const void *payload);
/* kvd. Copies in_bytes at in_off, after checking the range. 0 or -EFAULT. */
int ring_copy_in(const struct ring_side *r, const struct kvd_req *req, void *out);
/* kvd. True if the request's in and out ranges lie in the areas and are aligned. */
bool ring_request_ok(const struct ring_side *r, const struct kvd_req *req);

/* The client. 0 or -EAGAIN (full). */
int ring_put_request(struct ring_side *r, const struct kvd_req *req);
/* The client. 1: *out is the next reply; 0: none; -EPROTO. */
int ring_take_reply(struct ring_side *r, struct kvd_rep *out);

/*
 * About to sleep on the bell: returns false if something arrived meanwhile (do not sleep).
 * ring_awake() must follow in either case. See the comment at struct kvd_rings.
 */
bool ring_sleep_server(struct ring_side *r);
void ring_awake_server(struct ring_side *r);
bool ring_sleep_client(struct ring_side *r);
void ring_awake_client(struct ring_side *r);
/* Rings the peer's bell if the peer said that it sleeps; after a put, and after row changes. */
void ring_bell_to_kvd(struct ring_side *r);
void ring_bell_to_client(struct ring_side *r);
/*
 * kvd. Makes one bell: the ringer writes to its end, the sleeper polls the other. Both ends are
 * open files of their own, so that neither side can make the other's read or write block (with an
 * eventfd a client could). 0 or -errno.
 */
int ring_bell_new(int *out_ringer, int *out_sleeper);
/* The ringer: true if the sleeper has not read away all that rang. */
bool ring_bell_unread(int fd);
/* The sleeper: reads away what rang. Never blocks if the descriptor is this side's own end. */
void ring_bell_clear(int fd);

#endif
