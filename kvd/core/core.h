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

/* Where blocks lie that are not, or not only, on a device. */
enum core_tier_kind { CORE_TIER_DRAM, CORE_TIER_FILE };
#define CORE_TIERS 2u

struct core;

/*
 * Which blocks are written to the file tier: those that the policy expects to be used while they
 * are there; only those that have been used again, which spares the disk; all.
 */
enum core_store { CORE_STORE_LIKELY, CORE_STORE_USED, CORE_STORE_ALL };

/* A tier is cut into areas (its files; one for DRAM), they into segments, they into slots. */
struct core_tier_config {
	uint32_t area_count;		       /* 0: there is no such tier */
	uint32_t area_segments[KVD_AREAS_MAX]; /* of each; all together below 2^18 */
	uint64_t segment_bytes;		       /* 0: 64 MiB; tests use less */
	uint32_t depth;			       /* transfers under way at once; 0: 64 */
};

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
	struct core_tier_config tiers[CORE_TIERS];
	enum core_store store; /* what is written to files */
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

/*
 * A slot holds one block: a header of page_align_bytes (4 KiB), the shell's, then the parts of the
 * block one after the other, each as long as its stride. The generation is another one each time
 * that something is stored: a slot whose header has another generation or key holds something else.
 */
struct core_slot {
	enum core_tier_kind tier;
	uint32_t area;
	uint64_t offset_bytes; /* in the area; a multiple of page_align_bytes */
	uint64_t bytes;	       /* header and parts */
	uint64_t generation;   /* never 0 */
};

enum core_transfer_kind {
	CORE_TRANSFER_STORE,  /* pages -> slot */
	CORE_TRANSFER_LOAD,   /* slot -> pages; checked against key, generation and checksum */
	CORE_TRANSFER_VERIFY, /* the slot is read and checked; there are no pages */
};

/* Each ends with core_transfer_done(); pages and slots are nobody else's to write until then. */
struct core_transfer {
	enum core_transfer_kind kind;
	uint32_t id; /* small; free again when it is done */
	struct core_slot slot;
	/* STORE: from_slot.generation != 0: the same block in another tier, to be read instead of
	 * the pages, and checked like a load. */
	struct core_slot from_slot;
	uint8_t key[16];      /* of the block: its hash in the index */
	uint8_t identity[16]; /* of the format */
	uint32_t part_count;
	uint32_t pages[KVD_PARTS_MAX];
	uint64_t part_bytes[KVD_PARTS_MAX]; /* strides */
};

/* What must be known of a block in the file tier to find it again after a restart. */
struct core_record {
	bool put; /* else the slot holds nothing any more: only `slot` is set */
	struct core_slot slot;
	uint32_t format;
	uint32_t depth; /* of the chain, from 1 */
	uint8_t key[16];
	uint8_t parent_key[16];	    /* of the format's root where depth is 1 */
	uint64_t parent_generation; /* of the parent's slot; 0 where depth is 1 */
	uint32_t token_count;
	uint32_t extra_count;
	uint32_t uses;
	const uint32_t *tokens;
	const uint32_t *extras; /* extra_count x {position in the block, digest[4]} */
};

/* For one log line each; text is printable. */
enum core_note_kind {
	CORE_NOTE_DEBUG, /* of single requests: too many for every day */
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
	/* Copies what it needs of *transfer. */
	void (*transfer)(void *ctx, const struct core_transfer *transfer);
	/* Of the file tier alone. In order; a later record of a slot replaces the earlier. */
	void (*record)(void *ctx, const struct core_record *record);
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
/*
 * A transfer ended: 0, or -errno. STORE, failed: the slot holds nothing. LOAD and VERIFY, failed:
 * what it held is lost; -EBADMSG: it was read and is not what it should be; -ETIMEDOUT and
 * -ECANCELED: it was not read, and stays. STORE, -EBADMSG: from_slot is not what it should be.
 */
void core_transfer_done(struct core *core, uint32_t id, int result, uint64_t now_ns);
/*
 * It takes too long: nobody waits for it any more. Pages and slot stay as they are until it is
 * done after all.
 */
void core_transfer_late(struct core *core, uint32_t id, uint64_t now_ns);
/* An area cannot be used now, or can again. What it holds is kept and is no hit meanwhile. */
void core_area_down(struct core *core, enum core_tier_kind tier, uint32_t area, bool down);
/* Deadlines, graces and one slice of each cursor. */
void core_time(struct core *core, uint64_t now_ns);
/* Work is left that core_time() should continue at once. */
bool core_busy(const struct core *core);
/* When core_time() must be called next for a deadline; UINT64_MAX: no need. */
uint64_t core_deadline_ns(const struct core *core);

/* --- what outlives the daemon ---------------------------------------------------------------- */

/*
 * At start, before the first session. A format as an earlier daemon knew it; devices that are not
 * there any more: -ENODEV. Its number, or -errno of FORMAT.
 */
int core_restore_format(struct core *core, const char *space, const struct kvd_format_wire *wire,
			const char *description);
/* The same in the other direction. `description` has KVD_DESCRIPTION_MAX bytes. */
void core_format_wire(const struct core *core, uint32_t format, char space[KVD_NAME_MAX],
		      struct kvd_format_wire *out, char *description);
/*
 * A block in the file tier; parents first. -ENOENT: its parent is not known; -EINVAL: it is not
 * what its key says, or cannot lie there; -EEXIST: known already, or the slot is taken; -ENOSPC.
 * Offer all records of formats that are there: generations of refused ones are not given again.
 */
int core_restore(struct core *core, const struct core_record *record);
/*
 * For a checkpoint: calls out() for blocks of the area as PUT records, from *cursor (0: the first)
 * on, looks at no more than `count` nodes. False: that was the last. Parents do not come first.
 */
bool core_records(const struct core *core, uint32_t area, uint32_t *cursor, uint32_t count,
		  void (*out)(void *ctx, const struct core_record *record), void *ctx);

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
