/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kvd.h: the client library of kvd, for an engine of anybody's.
 *
 * Words
 *   page        K and V of one block of page_tokens consecutive tokens, for one part of the
 *               format, as one contiguous span of device memory.
 *   block       page_tokens consecutive tokens of a sequence: one page per part.
 *   format      what makes the pages of two engines interchangeable.
 *   lease       the right to one sequence: its cached prefix is pinned, the pages for what must be
 *               computed are promised.
 *   magazine    open pages that this process holds ahead of need, for decoding.
 *   sealed      complete, immutable, shared by whoever has the same tokens.
 *
 * How to use it
 *   kvd_open -> kvd_format -> kvd_acquire -> (wait for KVD_EV_LEASE) -> copy the tail, if any ->
 *   compute tokens from build_from on into kvd_lease_pages() -> kvd_seal each finished block ->
 *   decode; when a block is full, kvd_bind a magazine page for the next -> kvd_release.
 *
 * Rules
 *   - Results are 0, -errno, or a positive enum kvd_outcome that the function names.
 *   - Calls that send a request return at once; the result is an event of kvd_wait(), which alone
 *     blocks. A daemon that dies ends every wait: each request in flight ends with an event whose
 *     result is KVD_GONE, then one KVD_EV_GONE.
 *   - One handle belongs to one thread at a time; only kvd_wake() may be called from any thread.
 *     The library starts no threads and masks no signals. A forked child gets -ECHILD.
 *   - -EAGAIN from a call that sends: no credit or payload room left; take events, try again.
 */
#ifndef KVD_H
#define KVD_H

#include <kvd_abi.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kvd;
struct kvd_lease;

/* --- connection ----------------------------------------------------------------------------- */

/*
 * How slabs of a kind become addresses. kvd_open() uses the library's own operations for memfd
 * slabs where `map_ops` is NULL; an engine with a GPU gives its device's. Called on the thread that
 * owns the handle.
 */
struct kvd_map_ops {
	/*
	 * Maps the slab. fd is the library's and is closed after the call (-1: kind without fd).
	 * out_write is where own open pages are written; out_read is where all others are read:
	 * they may be equal. 0 or -errno.
	 */
	int (*map)(void *ctx, const struct kvd_slab_wire *slab, int fd, uint64_t *out_read,
		   uint64_t *out_write);
	void (*unmap)(void *ctx, const struct kvd_slab_wire *slab, uint64_t read, uint64_t write);
	void *ctx;
	/*
	 * Fills an own open page with 0xff, a NaN in every format of a page, when it is leased:
	 * called in debug builds where KVD_POISON=1. May be NULL.
	 */
	void (*poison)(void *ctx, uint64_t write, uint64_t bytes);
	/* Why the last map() failed, in words. May be NULL. */
	const char *(*failure)(void *ctx);
};

struct kvd_options {
	const char *socket_path;   /* NULL: $KVD_SOCKET, /run/kvd/kvd.sock, $XDG_RUNTIME_DIR/kvd/,
				    * /tmp/kvd-UID/, in this order */
	int socket_fd;		   /* > 0: an already connected socket, owned by the library from
				    * then on, also on failure */
	const char *space;	   /* namespace; NULL: "default" */
	const void *secret;	   /* the namespace's access secret, or NULL */
	size_t secret_bytes;	   /* at most 64 */
	const char *name;	   /* shown by kvctl; NULL: the program's name */
	uint32_t credits;	   /* requests in flight; 0: 256 */
	uint32_t leases_max;	   /* 0: 1024 */
	uint32_t in_area_bytes;	   /* payload to kvd; 0: 8 MiB */
	uint32_t out_area_bytes;   /* payload from kvd; 0: 4 MiB */
	uint64_t timeout_ns;	   /* for connecting and for each synchronous call; 0: 5 s */
	uint32_t hello_flags;	   /* KVD_HELLO_* */
	const struct kvd_map_ops *map_ops;
};

/*
 * Connects and says HELLO. Blocks for at most timeout_ns. On success *out is the handle.
 * -ENOENT / -ECONNREFUSED: no daemon there. -EPROTO: another version. -EACCES: wrong secret or
 * uid. -EUSERS: too many sessions. kvd_last_error() has the words for a person.
 */
int kvd_open(const struct kvd_options *options, struct kvd **out);

/* Says BYE and frees everything. Pages must be quiet: no kernel may still touch them. NULL is fine. */
void kvd_close(struct kvd *k);

/* The last failure of this thread in words, "" if none. Valid until the thread's next kvd_* call. */
const char *kvd_last_error(void);

const char *kvd_version(void);

/* The name of an outcome or -errno, as "full" or "ENOENT". Static. */
const char *kvd_strresult(int result);

/* Counts of this connection. Never blocks. */
struct kvd_info {
	uint64_t nonce;
	uint32_t session;
	uint32_t pid;		 /* the daemon's */
	uint64_t group;
	uint32_t magazine_pages;
	uint32_t want_back_pages; /* kvd asks for so many: kvd_return() */
	uint32_t draining;
	uint32_t retiring_slabs; /* > 0: call kvd_slabs_quiet() once no kernel runs */
	uint64_t requests;
	uint64_t waits;		 /* times that kvd_wait() slept */
};
void kvd_info(struct kvd *k, struct kvd_info *out);

/*
 * The memories on which this kvd makes slabs: kvd_part_wire.device is the index of one of them,
 * and an engine takes that whose uuid is its own device's. Stores at most max of them; returns how
 * many there are (a kvd that is too old to say has one, the host). Never blocks.
 */
uint32_t kvd_devices(const struct kvd *k, struct kvd_device *out, uint32_t max);

/* --- formats -------------------------------------------------------------------------------- */

struct kvd_format_args {
	uint8_t identity[16];	/* digest of everything that decides a KV bit */
	uint32_t page_tokens;	/* 16, 32, 64 or 128 */
	uint32_t part_count;
	struct kvd_part_wire parts[KVD_PARTS_MAX];
	const char *layout;	/* a name from kvd_layout.h */
	const char *description; /* for people; NULL: none */
};

/*
 * Registers the format, or finds it. Blocks for at most the handle's timeout.
 * -EINVAL: not a format. -ENOSPC: too many formats or geometries. -EEXIST: the same identity with
 * other sizes.
 */
int kvd_format(struct kvd *k, const struct kvd_format_args *args, uint32_t *out_format);

/* Tells kvd the measured prefill rate of the format. Sends, never waits. 0, -EAGAIN, KVD_GONE. */
int kvd_rate(struct kvd *k, uint32_t format, uint64_t tokens_per_s);

/* --- sequences ------------------------------------------------------------------------------ */

struct kvd_acquire_args {
	uint32_t format;
	const uint32_t *tokens;	/* copied before the call returns */
	uint32_t token_count;	/* 1 .. KVD_REQUEST_TOKENS_MAX */
	const struct kvd_extra *extras;
	uint32_t extra_count;
	uint32_t decode_blocks;	/* blocks promised beyond the prompt; 0 is allowed */
	uint32_t flags;		/* KVD_ACQUIRE_* */
	uint32_t deadline_ms;	/* how long it may wait for memory; 0: not at all */
	void *user;		/* kvd_lease_info.user */
};

/*
 * Asks for a lease on the sequence. *out is a lease at once, and useful after its KVD_EV_LEASE
 * with result 0; after any other result it is freed by the library when kvd_wait() is called
 * next. Results of the event: 0, KVD_FULL (see event.full), KVD_BUSY, KVD_DRAINING, KVD_GONE,
 * -EINVAL, -E2BIG (can never fit), -ECANCELED.
 * Returns 0, -EAGAIN, -EINVAL, -ENOMEM, KVD_GONE.
 */
int kvd_acquire(struct kvd *k, const struct kvd_acquire_args *args, struct kvd_lease **out);

/* Gives up a request for a lease that has not come yet. Its event follows, with -ECANCELED or not. */
int kvd_cancel(struct kvd *k, struct kvd_lease *lease);

/*
 * Says that the sequence will be acquired soon, so that kvd may bring blocks of it back from a
 * slower tier meanwhile. A hint: it holds nothing, promises nothing, and no event follows. Of args
 * the format, the tokens and the extras count. Returns 0 (sent), -EAGAIN, -EINVAL, KVD_GONE.
 */
int kvd_prefetch(struct kvd *k, const struct kvd_acquire_args *args);

struct kvd_lease_info {
	void *user;
	uint64_t id;
	uint32_t format;
	uint32_t token_count;	/* that kvd knows: prompt and sealed or extended tokens */
	uint32_t cached_tokens;	/* whole blocks found at the ACQUIRE, and readable at once */
	uint32_t build_from;	/* first token that this lease computes; more than ready_tokens while
				 * other leases compute blocks below it */
	uint32_t ready_tokens;	/* first token not readable yet by this lease; read from shared memory */
	uint32_t state;		/* enum kvd_lease_state; CALL: send kvd_extend(.., KVD_EXTEND_CALL) */
	uint32_t follows_own;	/* 1: the lease that is followed is of this very session */
	uint32_t block_count;	/* blocks whose pages are in the address table */
	uint32_t tail_tokens;	/* > 0: see kvd_lease_tail() */
	uint32_t loads;		/* 1: what it waits for is brought back from a tier, as of the
				 * ACQUIRE or of the last kvd_extend() with flags */
};
void kvd_lease_info(struct kvd_lease *lease, struct kvd_lease_info *out);

/*
 * The addresses of part `part` of blocks 0 .. *out_count - 1; 0 where the page is not known yet
 * (a block that somebody else computes: kvd_extend() brings it once ready_tokens passed it).
 * Own open pages are writable there, all others must only be read. The array is the library's and
 * may move at any other call on this lease.
 */
const uint64_t *kvd_lease_pages(struct kvd_lease *lease, uint32_t part, uint32_t *out_count);

/*
 * The source of the tail copy of part `part`, or 0. Before computing, copy the whole page to the
 * page of build_from's block; tokens [build_from, build_from + tail_tokens) are then done. The
 * source stays pinned until that block is sealed or the lease is released.
 */
uint64_t kvd_lease_tail(struct kvd_lease *lease, uint32_t part);

/*
 * EXTEND: brings pages that became known, answers a CALL (flags KVD_EXTEND_CALL) or takes over
 * (KVD_EXTEND_TAKE). May wait for memory for at most deadline_ms. One KVD_EV_LEASE follows.
 */
int kvd_extend(struct kvd *k, struct kvd_lease *lease, uint32_t flags, uint32_t deadline_ms);

/*
 * Puts a magazine page (all parts) behind the lease's last block: where the next block is written.
 * No message. 0; KVD_FULL: the magazine is empty, kvd_topup() first.
 */
int kvd_bind(struct kvd *k, struct kvd_lease *lease);

/*
 * Says that blocks [first_block, first_block + block_count) are complete, on the device too.
 * `tokens` continue the sequence beyond info.token_count, at least to the end of the last block;
 * prompt tokens are not repeated. One KVD_EV_SEAL follows (result 0 or KVD_KEPT), which the caller
 * may ignore. 0, -EAGAIN, -EINVAL, -E2BIG (more than KVD_SEAL_BLOCKS_MAX), KVD_GONE.
 */
int kvd_seal(struct kvd *k, struct kvd_lease *lease, uint32_t first_block, uint32_t block_count,
	     const uint32_t *tokens, uint32_t token_count);

/*
 * A second lease on the same sequence, up to the first block that is not sealed: sealed blocks are
 * shared, the first `tail_tokens` of that block are given as a tail to copy, as far as kvd knows
 * their tokens (info.token_count says how far the child goes). *out as kvd_acquire().
 */
int kvd_fork(struct kvd *k, struct kvd_lease *lease, uint32_t tail_tokens,
	     uint32_t decode_blocks, void *user, struct kvd_lease **out);

/*
 * Ends the lease; the pointer is dead when the call returns 0. With tail_tokens > 0 the last
 * block, of which so many tokens are valid, is kept as a partial node; `tokens` continue the
 * sequence as in kvd_seal(). Pages of the lease that were not sealed are freed; magazine pages
 * bound to it go back to the magazine. 0, -EAGAIN (nothing happened), KVD_GONE (freed all the same).
 */
int kvd_release(struct kvd *k, struct kvd_lease *lease, uint32_t tail_tokens,
		const uint32_t *tokens, uint32_t token_count);

/* --- magazine ------------------------------------------------------------------------------- */

/* Asks for n blocks of open pages. KVD_EV_TOPUP follows: 0, KVD_FULL, KVD_BUSY, KVD_GONE. */
int kvd_topup(struct kvd *k, uint32_t format, uint32_t block_count, uint32_t deadline_ms);

/* Gives n blocks (UINT32_MAX: all) of the format's magazine back. 0, -EAGAIN, KVD_GONE. */
int kvd_return(struct kvd *k, uint32_t format, uint32_t block_count);

/* Blocks of the format in the magazine now. */
uint32_t kvd_magazine(struct kvd *k, uint32_t format);

/* --- moving a sequence, pins, questions ------------------------------------------------------- */

#define KVD_TICKET_BYTES 16

/* Makes a ticket; the lease goes with it. Blocks for at most the handle's timeout. 0, KVD_STALE. */
int kvd_handoff(struct kvd *k, struct kvd_lease *lease, uint32_t ttl_ms,
		uint8_t out_ticket[KVD_TICKET_BYTES]);

/* Takes what a ticket stands for. *out as kvd_acquire(); KVD_MISS: unknown, used or expired. */
int kvd_claim(struct kvd *k, const uint8_t ticket[KVD_TICKET_BYTES], void *user,
	      struct kvd_lease **out);

/* Pins the cached prefix of the tokens against eviction, or unpins it. Blocks. 0, KVD_MISS, KVD_FULL. */
int kvd_pin(struct kvd *k, uint32_t format, const uint32_t *tokens, uint32_t token_count,
	    uint32_t *out_tokens);
int kvd_unpin(struct kvd *k, uint32_t format, const uint32_t *tokens, uint32_t token_count);

/* Explains what a lookup of the tokens would find. Blocks. */
int kvd_why(struct kvd *k, uint32_t format, const uint32_t *tokens, uint32_t token_count,
	    struct kvd_why *out);

/* The figures of this session's namespace. Blocks. */
int kvd_stat(struct kvd *k, struct kvd_space_stat *out);

/* --- events --------------------------------------------------------------------------------- */

enum kvd_event_kind {
	KVD_EV_LEASE = 1, /* an acquire, extend, fork or claim ended */
	KVD_EV_SEAL = 2,
	KVD_EV_TOPUP = 3,
	KVD_EV_GONE = 4,  /* the daemon is gone: kvd_close() this handle, open another */
};

struct kvd_event {
	uint32_t kind;
	int32_t result;
	struct kvd_lease *lease; /* of LEASE and SEAL; NULL when released meanwhile */
	uint32_t format;	 /* of TOPUP */
	uint32_t reserved;
	struct kvd_rep_full full; /* of KVD_FULL */
};

/*
 * Takes up to `max` events, waiting for at most timeout_ns for the first (0: not at all,
 * UINT64_MAX: for ever). Returns their number, 0 on timeout or after kvd_wake(), or -errno:
 * -EPIPE once KVD_EV_GONE was delivered.
 * Also returns 0 early when a lease's ready_tokens or state changed.
 */
int kvd_wait(struct kvd *k, uint64_t timeout_ns, struct kvd_event *events, uint32_t max);

/* Ends the present or next kvd_wait() early. From any thread, and from signal handlers. */
void kvd_wake(struct kvd *k);

/* No kernel of this process runs: unmap what kvd wants to retire, and tell it. 0 or KVD_GONE. */
int kvd_slabs_quiet(struct kvd *k);

/* --- one request of any kind, synchronously ----------------------------------------------------- */

/*
 * Sends req over the socket (payload req->in_bytes) and waits for its reply; for admin tools.
 * out_size bytes of payload at most are stored. Blocks for at most the handle's timeout.
 * 0 when a reply came (rep->result is the outcome), -ETIMEDOUT, KVD_GONE, -errno.
 */
int kvd_call(struct kvd *k, const struct kvd_req *req, const void *in, struct kvd_rep *rep,
	     void *out, size_t out_size);

/* The socket path that kvd_open() would use for `socket_path` (may be NULL), into out[size]. */
int kvd_socket_path(const char *socket_path, char *out, size_t size);

#ifdef __cplusplus
}
#endif

#endif
