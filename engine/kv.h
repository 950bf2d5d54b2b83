/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine's view of kvd: one connection that comes back when the daemon does, leases for
 * sequences, and open pages held ahead for decoding. All but kv_wake() belong to the step loop's
 * thread; kv_wait() alone blocks. Tests put another implementation behind this header.
 *
 * While the daemon is gone (KV_LOST) pages stay mapped and leases readable: who has all pages of
 * its next row goes on. Calls that would send return KV_GONE. Then KV_EV_BACK arrives: from that
 * moment all leases are dead pointers (their memory is unmapped), and each sequence must acquire
 * anew.
 */
#ifndef ENGINE_KV_H
#define ENGINE_KV_H

#include <engine/engine.h>
#include <kvd_layout.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kv;
struct kvd_lease;

/* Positive results; negative ones are -errno. */
enum kv_result {
	KV_OK = 0,
	KV_FULL,     /* no memory (in time) */
	KV_AGAIN,    /* no room to send right now: try again after kv_wait() */
	KV_BUSY,     /* too many of our requests wait in kvd */
	KV_DRAINING, /* kvd takes no new leases */
	KV_GONE,     /* the daemon is gone */
};

struct kv_config {
	const struct engine_config *engine; /* where kvd is, and how to find it */
	uint8_t identity[16];
	struct kvd_layout layout;
	const char *layout_name;
	const char *description;
};

enum kv_event_kind {
	KV_EV_LEASE, /* an acquire or an extend of `owner` ended */
	KV_EV_TOPUP,
	KV_EV_LOST, /* the daemon is gone */
	KV_EV_BACK, /* another daemon answers; all leases are dead. Comes alone */
};

struct kv_event {
	enum kv_event_kind kind;
	int result;
	void *owner;	       /* of LEASE */
	const char *import;    /* not NULL: why pages cannot be reached; until the next kv_wait() */
	uint64_t needed_pages; /* of KV_FULL */
	uint64_t free_pages;
	uint64_t evictable_pages;
};

struct kv_acquire {
	const uint32_t *tokens;
	uint32_t token_count;
	uint32_t decode_blocks;
	uint32_t deadline_ms;
	bool cold; /* look nothing up, publish nothing */
	void *owner;
};

enum kv_lease_call {
	KV_LEASE_QUIET,
	KV_LEASE_CALLS,	  /* kv_extend(KV_EXTEND_ANSWER) */
	KV_LEASE_REVOKED, /* release it */
};

struct kv_lease {
	uint32_t token_count; /* that kvd knows */
	uint32_t build_from;  /* first token that we compute */
	uint32_t ready_tokens;
	uint32_t block_count;
	uint32_t tail_tokens;
	enum kv_lease_call call;
	bool follows_own; /* what it waits for is computed by a sequence of this engine, */
	bool loads;	  /* or brought back from a tier; as of the last answer about its role */
};

enum kv_extend_kind { KV_EXTEND_PAGES, KV_EXTEND_ANSWER, KV_EXTEND_TAKE };

struct kv_counts {
	bool ready;
	bool private_daemon;
	uint64_t reconnects;
	uint32_t magazine_blocks;
};

/*
 * Where a daemon is required: whether it answers and lets us in. Asked before a model is loaded for
 * nothing. 0 or -errno with a sentence in error[size].
 */
int kv_find(const struct engine_config *config, char *error, size_t size);
/* Connects and registers the format. 0 or -errno with a sentence in error[size]. */
int kv_open(const struct kv_config *config, struct kv **out, char *error, size_t size);
/* BYE. No kernel may run. Ends a private daemon. Accepts NULL. */
void kv_close(struct kv *kv);

/* Up to `max` events (at least 2), waiting at most timeout_ns; also returns early after kv_wake()
 * or when a lease changed. */
uint32_t kv_wait(struct kv *kv, uint64_t timeout_ns, struct kv_event *events, uint32_t max);
void kv_wake(struct kv *kv); /* any thread */
void kv_counts(struct kv *kv, struct kv_counts *out);

/*
 * KV_OK: *out exists and its KV_EV_LEASE follows; when that has a result other than 0, the lease
 * is gone. KV_AGAIN, KV_GONE, -errno.
 */
int kv_acquire(struct kv *kv, const struct kv_acquire *a, struct kvd_lease **out);
/* A sequence waits for its turn: kvd may fetch what it has of it meanwhile. Best effort. */
void kv_prefetch(struct kv *kv, const uint32_t *tokens, uint32_t token_count);
/* Gives up an acquire; its event follows all the same. */
void kv_cancel(struct kv *kv, struct kvd_lease *lease);
void kv_lease(struct kvd_lease *lease, struct kv_lease *out);
/* Addresses of blocks 0 .. *out_count - 1, 0 where unknown; valid until the next kv_* call on
 * this lease. */
const uint64_t *kv_pages(struct kvd_lease *lease, uint32_t *out_count);
/* The page to copy as described by tail_tokens, or 0. */
uint64_t kv_tail(struct kvd_lease *lease);
/* A KV_EV_LEASE follows. KV_OK, KV_AGAIN, KV_GONE, -errno. */
int kv_extend(struct kv *kv, struct kvd_lease *lease, enum kv_extend_kind kind,
	      uint32_t deadline_ms);
/* One more block from the magazine. KV_OK or KV_FULL. */
int kv_bind(struct kv *kv, struct kvd_lease *lease);
/* tokens continue the sequence after kv_lease.token_count. KV_OK, KV_AGAIN, KV_GONE, -errno. */
int kv_seal(struct kv *kv, struct kvd_lease *lease, uint32_t first_block, uint32_t block_count,
	    const uint32_t *tokens, uint32_t token_count);
/* tail_tokens > 0: keep that much of the block where the sequence ends. KV_OK, KV_AGAIN, KV_GONE
 * (the lease ended all the same). */
int kv_release(struct kv *kv, struct kvd_lease *lease, uint32_t tail_tokens, const uint32_t *tokens,
	       uint32_t token_count);

/* Asks for open blocks; a KV_EV_TOPUP follows. KV_OK, KV_AGAIN, KV_GONE. */
int kv_topup(struct kv *kv, uint32_t block_count, uint32_t deadline_ms);
uint32_t kv_magazine(struct kv *kv);
/* Gives the whole magazine back, if there is one. */
void kv_return_all(struct kv *kv);
/* Measured prefill speed, for kvd's decisions. Best effort; a daemon that comes back is told, too. */
void kv_rate(struct kv *kv, uint64_t tokens_per_s);

#endif
