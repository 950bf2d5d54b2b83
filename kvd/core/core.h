/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core.h: the daemon's state machine. It owns nodes, pages, leases, quotas, eviction and the maps
 * of all places a page can be in, and it is pure: no system call, no clock, no thread, no random
 * number of its own, no allocation after core_new(). The same inputs give the same outputs, which
 * is what makes a simulator possible (tests/sim).
 *
 *   inputs   a session opens, sends a request, dies, is proven dead; an order completes; time
 * passes outputs  through struct core_ops, during the call: replies, lease table rows, orders to
 * the shell (make a slab, destroy it), notes for the log
 *
 * A call touches at most CORE_STEP_MAX pages or nodes; what is bigger continues in core_time(),
 * which the shell calls at once while core_busy().
 */
#ifndef KVD_CORE_CORE_H
#define KVD_CORE_CORE_H

#include <kvd_abi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CORE_STEP_MAX 4096u
#define CORE_RANDOM_BYTES 16u
#define CORE_POOL_BYTES_MAX (1ull << 56) /* of one device */

struct core;

struct core_config {
	uint32_t device_count;		      /* memories that slabs are made on: 1 or more */
	uint64_t pool_bytes[KVD_DEVICES_MAX]; /* of each: a pool of its own */
	uint32_t pages_max;	   /* page records; each device has a part as large as its pool */
	uint32_t nodes_max;	   /* index entries */
	uint64_t index_tokens_max; /* token ids kept in the index */
	uint32_t sessions_max;
	uint32_t leases_max; /* of all sessions */
	uint32_t formats_max;
	uint32_t geometries_max;
	uint32_t spaces_max;
	uint32_t request_tokens_max;
	uint64_t slab_bytes_min;   /* 0: max(64 MiB, pool / 256); less if the device's pool is */
	uint64_t slab_align_bytes; /* 0: 2 MiB; tests use less */
	uint64_t page_align_bytes; /* 0: 4 KiB; tests use less */
	/* Of each pool: */
	uint32_t session_share_permille; /* open + pinned of one session; 0: 500 */
	uint32_t magazine_permille;	 /* open untagged pages of one group; 0: 20 */
	uint64_t retire_grace_ns;	 /* how long SLAB_GONE is waited for; 0: 5 s */
	const char *policy;		 /* "lru", "s3fifo", "cost"; NULL: "lru" */
};

/* What the shell must do; each ends with core_complete(). */
enum core_order_kind {
	CORE_ORDER_SLAB_MAKE,	 /* allocate, prefault, register: then complete with 0 or -errno */
	CORE_ORDER_SLAB_DESTROY, /* nobody maps it (or forced: punch holes); complete when done */
};

struct core_order {
	enum core_order_kind kind;
	uint32_t slab;
	uint32_t space;
	uint32_t device;
	uint32_t first_page;
	uint32_t page_count;
	uint32_t forced; /* DESTROY: importers did not answer in time */
	uint64_t stride_bytes;
	uint64_t slab_bytes;
};

/* For one log line each; text is printable. */
enum core_note_kind {
	CORE_NOTE_INFO,
	CORE_NOTE_WARN,
};

struct core_ops {
	/*
	 * Copies the payload of a request, in_bytes of it, into out. Called within core_request()
	 * and again at each later attempt of a request that waits. -EFAULT: the session is broken.
	 */
	int (*payload)(void *ctx, uint32_t session, const struct kvd_req *req, void *out);
	/* Exactly one per request. rep->out_bytes of payload, never more than req->out_bytes. */
	void (*reply)(void *ctx, uint32_t session, const struct kvd_req *req,
		      const struct kvd_rep *rep, const void *payload);
	void (*lease_row)(void *ctx, uint32_t session, uint32_t row,
			  const struct kvd_lease_row *value);
	void (*session_row)(void *ctx, uint32_t session, const struct kvd_session_row *value);
	void (*order)(void *ctx, const struct core_order *order);
	/*
	 * The session keeps a slab mapped that is being destroyed by force: its page numbers will
	 * name other memory. The shell closes it, BROKEN, after this step and before the next;
	 * until then nothing is said to it.
	 */
	void (*expel)(void *ctx, uint32_t session);
	void (*note)(void *ctx, enum core_note_kind kind, const char *text);
};

/* Of all devices together. */
uint64_t core_pool_bytes(const struct core_config *config);
/* Bytes that core_new() will allocate. */
uint64_t core_bytes(const struct core_config *config);
/* Allocates everything. 0, -EINVAL (note says which limit), -ENOMEM. */
int core_new(const struct core_config *config, const struct core_ops *ops, void *ctx,
	     struct core **out);
void core_free(struct core *core);

/* --- namespaces ----------------------------------------------------------------------------- */

/*
 * Floor and ceiling are bytes of the daemon as a whole. Each device's pool keeps and allows a part
 * of them that is as large as it is itself: floor x its pool / the sum of all pools.
 */
struct core_space_args {
	const char *name;
	uint8_t secret[64];
	uint32_t secret_bytes;
	uint8_t key_seed[16];	/* keys the hash; random, made by the shell */
	uint64_t floor_bytes;	/* UINT64_MAX: pools / spaces / 2 */
	uint64_t ceiling_bytes; /* 0: the pools */
};
/* The number of the space, or -EEXIST, -ENOSPC, -EINVAL. */
int core_space_add(struct core *core, const struct core_space_args *args);
/* The number of the space if name and secret fit: -ENOENT, -EACCES. Compares in constant time. */
int core_space_find(const struct core *core, const char *name, const uint8_t *secret,
		    uint32_t secret_bytes);

/* --- sessions ------------------------------------------------------------------------------- */

struct core_session_args {
	uint32_t space;
	uint32_t pid;
	uint32_t uid;
	uint32_t leases_max;  /* rows of its table, row 0 included */
	uint32_t waiting_max; /* requests that may wait at once; the next is BUSY */
	uint64_t process; /* names the process for all time (pidfd inode, or pid and start time) */
	uint64_t group;	  /* session group to join, 0: new */
	bool admin;
	bool quiesced; /* HELLO from the same process: its quarantined pages are free */
	const char *name;
};
/* The number of the session, or -EUSERS, -ENOENT (group). */
int core_session_open(struct core *core, const struct core_session_args *args, uint64_t now_ns);
uint64_t core_session_group(const struct core *core, uint32_t session);
/* Calls session_row() again: for a shell that makes the table after the session. */
void core_session_show(struct core *core, uint32_t session);

enum core_session_end {
	CORE_END_BYE,	 /* memory is quiet: open pages are free at once */
	CORE_END_BROKEN, /* hung up, or broke the protocol: open pages go to quarantine */
};
/*
 * Ends a session. Waiting requests get no reply. Its number is free again when the cursor that
 * releases its leases is done; core_session_busy() tells. A BROKEN session's open pages stay in
 * quarantine until core_process_dead().
 */
void core_session_close(struct core *core, uint32_t session, enum core_session_end how,
			uint64_t now_ns);
/* What only the shell sees, for LIST and the status: the client leaves something unread. */
void core_session_stalled(struct core *core, uint32_t session, bool stalled);
bool core_session_busy(const struct core *core, uint32_t session);
/* The process is proven dead: nothing of it can write any more. */
void core_process_dead(struct core *core, uint64_t process, uint64_t now_ns);
/* The session got the slab's descriptor: it is an importer until SLAB_GONE or proven death. */
int core_slab_imported(struct core *core, uint32_t session, uint32_t slab);
/* The slab that holds `page`, for a SLAB request by `session`: 0, or -ENOENT (unknown, or of
 * another namespace). */
int core_slab_find(const struct core *core, uint32_t session, uint32_t page,
		   struct kvd_slab_wire *out);

/* --- the machine ---------------------------------------------------------------------------- */

/*
 * One request; `req` is a private copy. Replies now or later, exactly once, but for HELLO, SLAB and
 * BYE, which the shell answers itself. Returns 0, or -EPROTO / -EFAULT: the session is broken and
 * must be closed by the caller (no reply was sent).
 */
int core_request(struct core *core, uint32_t session, const struct kvd_req *req,
		 const uint8_t random[CORE_RANDOM_BYTES], uint64_t now_ns);
/* An order ended. */
void core_complete(struct core *core, enum core_order_kind kind, uint32_t slab, int result,
		   uint64_t now_ns);
/* Deadlines, graces and one slice of each cursor. */
void core_time(struct core *core, uint64_t now_ns);
/* Work is left that core_time() should continue at once. */
bool core_busy(const struct core *core);
/* When core_time() must be called next for a deadline; UINT64_MAX: no need. */
uint64_t core_deadline_ns(const struct core *core);

/* --- looking -----------------------------------------------------------------------------------
 */

/*
 * Walks every invariant over everything: page conservation, reference counts, quotas, promises,
 * chains whole, no page record in two states or two lists. 0, or -EUCLEAN with words in
 * error[size]. For tests, CHECK, and debug builds; as long as the pool is large.
 */
int core_check(const struct core *core, char *error, size_t size);

/* Fills all but the process fields of the status. */
void core_status(const struct core *core, struct kvd_status *out);
/* The shell counts too: protocol errors, loop turns. */
void core_count(struct core *core, enum kvd_counter counter, uint64_t add);

#endif
