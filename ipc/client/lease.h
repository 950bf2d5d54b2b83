/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One lease as this process sees it: which pages stand behind its blocks, and at what address.
 * Nothing here talks to the daemon, but for the slabs that it asks for.
 */
#ifndef IPC_CLIENT_LEASE_H
#define IPC_CLIENT_LEASE_H

#include "ipc/client/client.h"

#define LEASE_BLOCKS_MAX (1u << 17)

/* What a block's pages are to this lease. */
enum lease_block {
	LEASE_UNKNOWN, /* somebody else computes it */
	LEASE_SHARED,  /* read only */
	LEASE_OPEN,    /* own, bound by kvd */
	LEASE_BOUND,   /* own, from the magazine: kvd does not know yet */
	LEASE_SEALED,  /* was own: read only */
};

struct kvd_lease {
	struct list_link link; /* k->leases or k->leases_dead */
	struct kvd *k;
	struct format *format; /* NULL until a CLAIM is answered */
	void *user;
	uint64_t id;		 /* 0 until granted */
	bool granted;		 /* its KVD_EV_LEASE with result 0 was made */
	struct request *pending; /* the ACQUIRE, EXTEND, FORK or CLAIM in flight */
	uint32_t token_count;
	uint32_t cached_tokens;
	uint32_t build_from;
	uint32_t follows_own;
	uint32_t tail_tokens;
	uint32_t want_blocks; /* prompt and promised ones: EXTEND brings their pages */
	uint32_t seen_ready;  /* by the caller, of the row */
	uint32_t seen_state;

	uint32_t block_count;
	uint32_t block_max;
	uint8_t *blocks;	    /* enum lease_block */
	struct kvd_handle *handles; /* [block][part] */
	uint64_t *pages;	    /* [part][block_max] */
	uint64_t tails[KVD_PARTS_MAX];
};

struct kvd_lease *lease_new(struct kvd *k, struct format *format, void *user);
/* Closes its own pages and frees it; magazine pages that it still holds are lost to this process.
 */
void lease_free(struct kvd_lease *l);
/* Ends the lease where the caller may still hold the pointer: the next kvd_wait() frees it. */
void lease_bury(struct kvd_lease *l);
/* Tells kvd that a buried lease which it had granted is not wanted, and frees those it can. */
void lease_reap(struct kvd *k);

/* Makes room for `count` blocks. 0 or -ENOMEM. */
int lease_grow(struct kvd_lease *l, uint32_t count);
/* Puts pages behind block `b` (< block_max); one that is the lease's own already stays. 0 or
 * -errno. */
int lease_put(struct kvd_lease *l, uint32_t b, enum lease_block kind,
	      const struct kvd_handle *handles);
/* The block is complete: it is only read from now on. */
void lease_seal(struct kvd_lease *l, uint32_t b);
/* The first block of this lease that is still written, or block_count. */
uint32_t lease_live(const struct kvd_lease *l);
const struct kvd_handle *lease_handles(const struct kvd_lease *l, uint32_t b);

/* The lease's row: state NONE while it has none. */
struct kvd_lease_row lease_row(const struct kvd_lease *l);
/* The row says something that the caller has not seen. */
bool lease_changed(const struct kvd_lease *l);
void lease_mark_seen(struct kvd_lease *l);

#endif
