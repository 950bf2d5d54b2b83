/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One lease as this process sees it: which pages stand behind its blocks, and at what address.
 * Nothing here talks to the daemon, but for the slabs that it asks for.
 */
#ifndef IPC_CLIENT_HOLD_H
#define IPC_CLIENT_HOLD_H

#include "ipc/client/client.h"

#define HOLD_BLOCKS_MAX (1u << 17)

/* What a block's pages are to this lease. */
enum hold_block {
	HOLD_UNKNOWN, /* somebody else computes it */
	HOLD_SHARED,  /* read only */
	HOLD_OPEN,    /* own, bound by kvd */
	HOLD_BOUND,   /* own, from the magazine: kvd does not know yet */
	HOLD_SEALED,  /* was own: read only */
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
	uint32_t loads;
	uint32_t tail_tokens;
	uint32_t want_blocks; /* prompt and promised ones: EXTEND brings their pages */
	uint32_t seen_ready;  /* by the caller, of the row */
	uint32_t seen_state;

	uint32_t block_count;
	uint32_t block_max;
	uint8_t *blocks;	    /* enum hold_block */
	struct kvd_handle *handles; /* [block][part] */
	uint64_t *pages;	    /* [part][block_max] */
	uint64_t tails[KVD_PARTS_MAX];
};

struct kvd_lease *hold_new(struct kvd *k, struct format *format, void *user);
/* Closes its own pages and frees it; magazine pages that it still holds are lost to this process.
 */
void hold_free(struct kvd_lease *l);
/* Ends the lease where the caller may still hold the pointer: the next kvd_wait() frees it. */
void hold_bury(struct kvd_lease *l);
/* Tells kvd that a buried lease which it had granted is not wanted, and frees those it can. */
void hold_reap(struct kvd *k);

/* Makes room for `count` blocks. 0 or -ENOMEM. */
int hold_grow(struct kvd_lease *l, uint32_t count);
/* Puts pages behind block `b` (< block_max); one that is the lease's own already stays. 0 or
 * -errno. */
int hold_put(struct kvd_lease *l, uint32_t b, enum hold_block kind,
	     const struct kvd_handle *handles);
/* The block is complete: it is only read from now on. */
void hold_seal(struct kvd_lease *l, uint32_t b);
/* Some of its addresses lie in [from, from + bytes). */
bool hold_touches(const struct kvd_lease *l, uint64_t from, uint64_t bytes);
/* The first block of this lease that is still written, or block_count. */
uint32_t hold_live(const struct kvd_lease *l);
const struct kvd_handle *hold_handles(const struct kvd_lease *l, uint32_t b);

/* The lease's row: state NONE while it has none. */
struct kvd_lease_row hold_row(const struct kvd_lease *l);
/* The row says something that the caller has not seen. */
bool hold_changed(const struct kvd_lease *l);
void hold_mark_seen(struct kvd_lease *l);

#endif
