/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of the state machine. All of them live in arrays that core_new() allocates; links
 * are indices, CORE_NONE is no record. Each record says who may change it.
 *
 *   space -- format -- root node -- node -- node ...      the prefix index
 *              |                     |
 *           part --- shelf --- slab --- page               the memory: a shelf is the slabs of one
 *                                    |                     (space, geometry)
 *   group -- session -- lease -------+                     the users
 *                         |
 *                        haul -- transfer -- slot -- rest    what lies in tiers: rest is of a node
 *
 * A geometry lies on one device, and so do its slabs; what they cost is paid from that device's
 * bank. Sets of devices are words, a bit a device.
 */
#ifndef KVD_CORE_MACHINE_H
#define KVD_CORE_MACHINE_H

#include "kvd/core/core.h"
#include "kvd/core/mutant.h"
#include <base/assert.h>
#include <base/bits.h>

#define CORE_NONE 0xffffffffu
#define CORE_STATE_ROWS_MAX 24u
#define CORE_SECRET_BYTES 192u
#define CORE_DESCRIPTION_BYTES 128u
#define CORE_TAIL_CHILDREN 8u
#define CORE_ORDERS 16u		      /* of a shelf, at most; a policy uses some */
#define CORE_WAITERS_PER_SESSION 128u /* for each one, so that nobody can take those of others */
#define CORE_HAULS 64u		      /* loads and stores of chains, at once */
#define CORE_SLOT_CLASSES 64u	      /* sizes of slots in a tier */

/* Where a page record is linked; its state says less than that. */
enum page_list_id {
	PAGE_NOWHERE,	 /* sealed and pinned: only its node knows it */
	PAGE_UNMADE,	 /* no slab covers the record */
	PAGE_FREE,	 /* its slab's free list */
	PAGE_OWN,	 /* the open pages of a lease, by block and part; of a haul: filling */
	PAGE_KEPT,	 /* the sealed private pages of a lease */
	PAGE_MAGAZINE,	 /* the open pages of a group */
	PAGE_QUARANTINE, /* those that a broken process may still write */
	PAGE_EVICTABLE,	 /* one of the eviction orders of its shelf */
	PAGE_MOVING,	 /* filling: a transfer writes it */
};

struct page_list {
	uint32_t head;
	uint32_t tail;
	uint32_t count;
	uint32_t finger; /* of a list in order: where the last search ended; any page, or none */
};

/* pool.c: generation, slab, links. copy.c: node, next_part. lease.c: lease, block. */
struct page {
	uint32_t generation;
	uint32_t slab;
	uint32_t node;
	uint32_t next_part; /* of the node: the page of the next part */
	uint32_t lease;	    /* the tag */
	uint32_t block;	    /* of the lease's sequence */
	uint32_t owner;	    /* group of a page in a magazine or in quarantine; a transfer */
	uint32_t prev;
	uint32_t next;
	uint8_t state; /* enum kvd_page_state */
	uint8_t part;
	uint8_t list;  /* enum page_list_id */
	uint8_t shown; /* the client was told the handle; in check passes: named */
};

enum node_state {
	NODE_FREE,
	NODE_ROOT,
	NODE_BUILDING, /* by a lease, or a haul that loads it */
	NODE_SEALED,   /* has pages */
	NODE_COLD,     /* has none, but lies in a tier */
};

#define NODE_PARTIAL 0x1u
#define NODE_ANCHOR 0x2u /* a PIN request ends here */

/* One block of a prefix. Owned by node.c; the first line is what a hit touches. */
struct node {
	uint64_t hash[2];
	uint32_t parent;
	uint32_t tokens; /* arena.c */
	uint32_t extras; /* arena.c, CORE_NONE if there are none */
	uint32_t page;	 /* of part 0, the others by next_part; CORE_NONE while building */
	uint32_t pins;	 /* lease paths, tails and anchors that run through it */
	uint32_t depth;	 /* blocks from the root, itself counted; 0 is the root */
	uint32_t holder; /* the session that is charged for it while pinned */
	uint32_t holder_pins;
	uint16_t format;
	uint16_t valid_tokens;
	uint8_t state; /* enum node_state */
	uint8_t flags;
	uint8_t extra_count;
	uint8_t uses;	      /* evict.c: how often it was found, never more than its parent */
	uint32_t first_child; /* newest first, cold ones last */
	uint32_t last_child;
	uint32_t child_count;
	uint32_t next_sibling;
	uint32_t prev_sibling;
	uint32_t builder; /* lease, while building */
	uint32_t waiters; /* leases whose first unsealed node this is and who do not build it */
	uint32_t anchors; /* PINs of this node and of those below */
	uint32_t hits;
	uint32_t used_at; /* core.sealed when its last path ended */
	uint64_t last_used_ns;
};

enum slab_state { SLAB_NONE, SLAB_MAKING, SLAB_LIVE, SLAB_CLOSED, SLAB_RETIRING, SLAB_DESTROYING };

/* Owned by slab.c, the counts by pool.c. */
struct slab {
	uint32_t space;
	uint32_t geometry;
	uint32_t first_page;
	uint32_t page_count;
	uint32_t free_head;
	uint32_t free_count;
	uint32_t busy_count; /* pages neither free nor evictable */
	uint32_t next;	     /* of the shelf */
	uint32_t cursor;     /* closed: pages below it are free */
	uint32_t state;	     /* enum slab_state */
	uint64_t last_used_ns;
	uint64_t retire_ns; /* when the grace of the importers ends */
};

/* The pool of one device. Owned by bank.c, the slabs' counts by slab.c and turnover.c. */
struct bank {
	uint64_t bytes; /* falls when the device has no more, for a while */
	uint64_t retry_ns;
	uint64_t slab_bytes; /* of all slabs, destroyed ones not counted */
	uint64_t slab_bytes_min;
	uint32_t first_page; /* the page records of its slabs */
	uint32_t end_page;
	uint32_t making_count; /* slabs that the shell is making */
	uint32_t closed_count; /* slabs that are being emptied */
	uint32_t waiter_count; /* requests that wait and want pages here, too */
	uint32_t turner;       /* the waiter that slabs are turned over for, or CORE_NONE */
	uint32_t turner_space;
	uint32_t turner_geometry;
	uint64_t turner_bytes; /* that it needs of what comes free */
};

/* Slabs of one (space, geometry). Owned by pool.c; promised by admit.c. */
struct shelf {
	uint32_t slabs;
	uint32_t current;   /* the slab that pages are taken from now */
	uint32_t free;	    /* pages of live slabs */
	uint32_t evictable; /* sealed pages of live slabs that no path runs through */
	uint32_t promised;  /* to leases that did not take them yet */
	uint32_t making;    /* pages of slabs that are being made */
	struct page_list order[CORE_ORDERS]; /* evict.c: the evictable ones */
	uint64_t reuse_sum;		     /* evict.c: the age at which pages are used again */
};

struct geometry {
	uint64_t stride_bytes;
	uint64_t slab_bytes;
	uint32_t page_count; /* of a slab */
	uint32_t device;
	uint32_t space; /* whose format was the first; all may use it */
};

struct format {
	uint8_t identity[16];
	uint32_t space;
	uint32_t page_tokens;
	uint32_t part_count;
	uint64_t block_bytes;			/* strides of all parts */
	uint64_t device_bytes[KVD_DEVICES_MAX]; /* of those on each device */
	uint32_t devices;			/* set */
	uint64_t rate_tokens_per_s;
	uint32_t geometry[KVD_PARTS_MAX];
	struct kvd_part_wire parts[KVD_PARTS_MAX];
	char layout[32];
	char description[CORE_DESCRIPTION_BYTES];
};

/* What a namespace has of one device's pool. */
struct space_part {
	uint64_t floor_bytes; /* UINT64_MAX: by the number of namespaces */
	uint64_t ceiling_bytes;
	uint64_t slab_bytes; /* made or being made for it */
	uint64_t used_bytes; /* pages that are not free, each once */
	uint64_t promised_bytes;
	uint64_t anchored_bytes;
	uint32_t waiting;	 /* requests that wait for memory */
	uint32_t waiting_to_run; /* of them, of sequences that run already */
};

struct space {
	char name[KVD_NAME_MAX];
	uint8_t access[64];
	uint32_t access_bytes;
	uint8_t secret[CORE_SECRET_BYTES]; /* of the hash, made from the key seed */
	struct space_part on[KVD_DEVICES_MAX];
	uint64_t ceiling_bytes; /* as it was given, for all devices */
	uint64_t used_pages;
	uint64_t nodes;
	uint64_t prompt_tokens;
	uint64_t cached_tokens;
	uint64_t evicted_pages;
	uint64_t refused_requests;
	uint32_t leases; /* also those that move in a ticket or end slice by slice */
	uint32_t sessions;
	uint32_t blocked; /* wait.c: devices of those that this round could not admit */
};

/* The ranks that write one set of leases. Owned by group.c, the magazine by topup.c. */
struct group {
	uint64_t id; /* 0: free */
	uint32_t space;
	uint32_t uid; /* of who made it */
	uint32_t sessions;
	uint32_t users; /* leases that end and may bring pages into the quarantine */
	bool ended;	/* a rank died */
	bool quiesced;	/* the last writer said that it has stopped; else it was proven dead */
	struct page_list magazine;
	uint64_t magazine_bytes[KVD_DEVICES_MAX];
	struct page_list quarantine;
};

struct process {
	uint64_t id; /* 0: free */
	uint32_t uid;
	uint32_t sessions;
	bool dead;
};

struct row {
	uint32_t generation;
	uint32_t lease;
	uint32_t next_free;
};

struct session {
	bool open;
	bool closing; /* its leases are being released */
	bool admin;
	bool stalled; /* says the shell */
	uint32_t space;
	uint32_t group;
	uint32_t process;
	uint32_t pid;
	uint32_t uid;
	uint32_t leases_max;
	uint32_t waiting_max;
	uint32_t waiting;
	uint32_t rows_used; /* rows that were ever given in this life of the session */
	uint32_t free_row;
	uint32_t leases; /* list */
	uint32_t lease_count;
	uint64_t held_bytes[KVD_DEVICES_MAX]; /* open pages, pinned nodes that it is charged for */
	uint32_t open_pages;
	uint32_t private_pages;
	uint32_t pinned_pages;
	uint32_t ending; /* leases of it that a cursor still releases */
	struct kvd_session_row row;
	uint64_t since_ns;
	uint64_t last_request_ns;
	uint64_t requests;
	uint64_t prompt_tokens;
	uint64_t cached_tokens;
	uint64_t sealed_blocks;
	char name[KVD_NAME_MAX];
};

enum lease_life {
	LEASE_FREE,
	LEASE_NEW, /* of an ACQUIRE that is not admitted yet */
	LEASE_LIVE,
	LEASE_PARENT, /* released, kept until its last fork is */
	LEASE_TICKET, /* between HANDOFF and CLAIM */
	LEASE_DYING,  /* released by a cursor */
	LEASE_HAUL,   /* the daemon's own: it holds the chain that a haul moves */
};

/*
 * The right to one sequence. Its blocks are, from 0: those of the path (root .. last), of which
 * `ready` are sealed; behind it those that have no node, `kept` of them sealed and private.
 */
struct lease {
	uint32_t life; /* enum lease_life */
	uint32_t session;
	uint32_t row;
	uint32_t format;
	uint64_t seq;  /* age: the oldest is the heir */
	uint32_t last; /* deepest node of the path */
	uint32_t edge; /* follow.c: the shallowest unsealed node of the path; CORE_NONE: none */
	uint32_t ready;
	uint32_t blocks;      /* that have, or are to have, a page */
	uint32_t kept;	      /* private sealed blocks that follow the path without a gap */
	uint32_t build_from;  /* block */
	uint32_t token_count; /* known to kvd */
	uint32_t open_tokens; /* arena.c: those behind the path, less than a block or just one */
	uint32_t open_count;
	uint32_t open_extras; /* arena.c */
	uint32_t open_extra_count;
	uint32_t promised_blocks;
	struct page_list own;
	struct page_list private_pages;
	uint32_t tail; /* pinned node */
	uint32_t tail_block;
	uint32_t parent; /* FORK: whose private blocks below `shared` it reads */
	uint32_t shared;
	uint32_t forks;
	uint32_t waits_at; /* node in whose waiters list it is */
	uint32_t wait_next;
	uint32_t wait_prev;
	uint32_t next; /* of the session, of the free list, or of the dying */
	uint32_t prev;
	uint32_t event_seq;
	uint32_t row_state; /* enum kvd_lease_state */
	bool no_hit;
	bool private_only; /* what comes is not published: a block before it is private */
	uint32_t group; /* ending: whose quarantine takes its open pages; CORE_NONE: they are quiet
			 */
	uint8_t ticket[16];
	uint64_t ticket_ns; /* when it expires */
};

/* Where else the block of a node lies, by tier. Owned by rest.c, `transfer` by transfer.c. */
struct rest {
	uint32_t slot[CORE_TIERS]; /* CORE_NONE: not there */
	uint64_t generation[CORE_TIERS];
	uint32_t transfer[CORE_TIERS]; /* that uses or makes the slot, or CORE_NONE */
	uint32_t prev[CORE_TIERS];     /* in the tier's order: nodes that lie there, without pins */
	uint32_t next[CORE_TIERS];
	uint32_t queue_prev[CORE_TIERS]; /* in the tier's queue: nodes that are to be stored */
	uint32_t queue_next[CORE_TIERS];
	bool listed[CORE_TIERS];
	bool queued[CORE_TIERS];
};

/* A list of nodes, linked by a pair of fields of their rest. */
struct rest_list {
	uint32_t head;
	uint32_t tail;
	uint32_t count;
};

/* A piece of an area that has slots of one size, as long as there is one in use. */
struct segment {
	uint32_t class; /* CORE_NONE: free */
	uint32_t slot_count;
	uint32_t used;
	uint32_t hint; /* bitmap word where a free slot may be */
	uint32_t prev; /* among those with free slots: of its class and area, or of free ones */
	uint32_t next;
};

/* Bytes over the time in which there was something to move. */
struct rate {
	uint64_t since_ns; /* 0: nothing is moving */
	uint64_t bytes;
	uint64_t bytes_per_s; /* of late; 0: never measured */
	uint64_t peak_bytes_per_s;
	uint64_t measured_ns;
	uint64_t hoped_bytes_per_s; /* of what is moving, if that is more than was measured; or 0 */
	uint32_t letdowns;	    /* hopes in a row that were in vain */
	uint32_t moving;
};

struct area {
	uint32_t first_segment;
	uint32_t end_segment;
	uint32_t free_segments; /* list */
	uint32_t free_count;
	bool down;
	struct rate load;
	struct rate store;
	uint32_t moving;
	uint64_t blocks;
	uint64_t used_bytes;
	uint64_t hit_blocks;
	uint64_t loads;
	uint64_t stores;
	uint64_t loaded_bytes;
	uint64_t stored_bytes;
	uint64_t bad_blocks;
	uint64_t dropped_blocks;
};

/* Slots of one size: segments of each area that have free ones. */
struct slot_class {
	uint64_t slot_bytes;
	uint32_t partial[KVD_AREAS_MAX];
};

/* Owned by tier.c, the lists by rest.c, what moves by transfer.c. */
struct tier {
	uint64_t segment_bytes;
	uint32_t depth;
	uint32_t segment_count;
	uint32_t bitmap_words; /* of one segment */
	uint32_t area_count;
	uint32_t next_area; /* pages are spread over areas in turn */
	uint32_t class_count;
	uint32_t loading; /* transfers that somebody waits for */
	uint32_t storing;
	uint64_t stalled_ns; /* until then no slot is looked for: there was none */
	bool crowded;	     /* no store begins before another haul has ended: they pin too much */
	struct area areas[KVD_AREAS_MAX];
	struct slot_class classes[CORE_SLOT_CLASSES];
	struct segment *segments;
	uint64_t *bitmaps;
	struct rest_list order; /* what goes first stands first */
	struct rest_list queue;
};

#define CORE_HAUL_BLOCKS MUTANT_SHORT(32u, 3u) /* that are stored with one pin of their chain */

enum haul_kind { HAUL_NONE, HAUL_LOAD, HAUL_STORE };

/*
 * Blocks of one chain on their way, in order from the root. Its lease, of the same number behind
 * those of sessions, pins the chain; loading, it is the builder of the nodes.
 */
struct haul {
	uint32_t kind;	/* enum haul_kind */
	uint32_t tier;	/* STORE: where to */
	uint32_t next;	/* LOAD: block whose transfer begins next; STORE: place in nodes */
	uint32_t end;	/* and behind the last */
	uint32_t count; /* STORE: of nodes; end is less when one of them could not be stored */
	uint32_t moving;
	bool advanced; /* LOAD: blocks may be there to be published */
	bool for_request;
	uint64_t pinned; /* STORE: pages that nobody else pinned when it began */
	uint64_t started_ns;
	uint64_t estimate_ns;
	uint32_t nodes[CORE_HAUL_BLOCKS]; /* STORE: from the root on */
};

struct transfer {
	uint32_t kind; /* enum core_transfer_kind */
	bool busy;
	bool late;	/* nobody waits for it any more */
	uint32_t haul;	/* its lease; CORE_NONE: VERIFY, or given up */
	uint32_t block; /* LOAD: of the haul's chain */
	uint32_t node;	/* CORE_NONE: it has gone */
	uint32_t tier;
	uint32_t slot;
	bool slot_dropped;  /* nobody's any more: free when this is done */
	uint32_t from_tier; /* STORE: the tier that is read, or CORE_NONE */
	uint32_t from_slot;
	bool from_dropped;
	uint32_t part_count;
	uint32_t pages[KVD_PARTS_MAX]; /* LOAD: that it fills */
	uint64_t bytes;
	uint64_t generation; /* STORE: of the slot, then */
	uint32_t next_free;
};

/* The VERIFY that is under way. */
struct verify {
	bool busy;
	bool has_session; /* false: who asked has gone */
	uint32_t session;
	struct kvd_req req;
	uint32_t moving;
	uint32_t cursor;
	struct kvd_verify done;
};

/* A request that waits for memory. */
struct waiter {
	struct kvd_req req;
	uint8_t random[CORE_RANDOM_BYTES];
	uint32_t session;
	uint32_t next;
	uint32_t prev;
	uint32_t devices;  /* that it wants pages on */
	uint32_t for_slab; /* devices where slabs are made for it: the deadline does not count */
	bool own_limit;	   /* it waits for its own session or group, and is in nobody's way */
	uint64_t deadline_ns;
};

/* The request that is being answered, and what it needs; lives for one call. */
struct call {
	const struct kvd_req *req;
	const uint8_t *random;
	uint32_t session;
	bool again; /* an attempt of a waiting request: */
	uint32_t waiter;
	uint32_t devices;  /* that its pages would be on */
	uint32_t short_on; /* the one that it was refused for */
	uint32_t for_slab; /* set of those on which slabs are made for it */
	bool turns_over;   /* slabs of others are on their way to it */
	bool own_limit;
	struct kvd_rep rep;
	const void *payload; /* of the reply, rep.out_bytes of it */
	struct kvd_rep_full full;
};

struct core {
	struct core_config cfg;
	struct core_ops ops;
	void *ctx;
	uint64_t now_ns;
	struct bank banks[KVD_DEVICES_MAX];
	uint32_t slabs_max;
	uint32_t processes_max;
	uint32_t groups_max;
	uint32_t waiters_max;
	uint32_t rows_max; /* of one session */
	bool draining;
	uint32_t retry;	 /* devices whose memory came free: requests that wait for it try again */
	uint32_t budget; /* pages and nodes that this call may still touch */
	uint64_t lease_seq;
	uint64_t group_seq;
	uint64_t counters[KVD_C_COUNT];
	uint64_t state_hits[CORE_STATE_ROWS_MAX];
	uint64_t pages_by_state[KVD_PAGE_STATES];
	uint64_t bytes_by_state[KVD_PAGE_STATES];

	struct page *pages;
	struct slab *slabs;
	uint64_t *importers;	  /* slabs_max x importer words, a bit a session */
	uint64_t *dead_importers; /* slabs_max x words, a bit a process */
	struct shelf *shelves;	  /* spaces_max x geometries_max */
	struct geometry *geometries;
	uint32_t geometry_count;
	struct format *formats;
	uint32_t format_count;
	struct space *spaces;
	uint32_t space_count;
	struct group *groups;
	uint64_t *group_writers;   /* groups_max x words, a bit a process */
	uint32_t abandoned_groups; /* without ranks, and with a magazine still */
	struct process *processes;
	struct session *sessions;
	struct row *rows;     /* sessions_max x rows_max */
	struct lease *leases; /* those of hauls last */
	uint32_t lease_slots;
	uint32_t lease_free;
	uint32_t lease_count;
	uint32_t ticket_count; /* leases between HANDOFF and CLAIM */
	uint64_t ticket_ns;    /* not after the first of them expires */
	uint32_t dying_head;   /* leases that a cursor releases, oldest first */
	uint32_t dying_tail;
	struct waiter *waiters;
	uint32_t waiter_free;
	uint32_t waiter_head;
	uint32_t waiter_tail;
	uint32_t waiter_count;
	uint32_t wait_round;   /* wait.c: the class that a round tries, 0: there is no round */
	uint32_t wait_woken;   /* the devices that the round is about */
	uint32_t wait_next;    /* the waiter that the round tries next */
	uint32_t turn_claimed; /* devices for a waiter that must be the turner of all of its own */
	struct node *nodes;    /* the first formats_max are the roots */
	uint32_t node_slots;
	uint32_t node_free;
	uint32_t node_count;
	struct index_slot *index;
	uint32_t index_mask;
	uint64_t *ghosts;     /* hashes of what left the index, for WHY */
	uint32_t *ghost_uses; /* evict.c: what it knew of each of them */
	uint32_t ghost_mask;
	uint32_t *arena;
	struct arena_chunk *chunks;
	uint32_t chunk_count;
	uint32_t chunk_free;
	uint32_t chunk_partial[4]; /* by size class */
	uint64_t arena_tokens;
	uint32_t sealed; /* blocks, ever: the clock of the policy; it may wrap */
	const struct evict_policy *policy;
	struct tier tiers[CORE_TIERS];
	bool has_tiers;
	struct rest *rests; /* by node; none without tiers */
	struct haul *hauls;
	uint32_t haul_count; /* that are not HAUL_NONE */
	uint32_t store_hauls;
	uint64_t store_pinned; /* the sum of theirs */
	uint32_t haul_turn;    /* whose transfers come first */
	struct transfer *transfers;
	uint32_t transfers_max;
	uint32_t transfer_free;
	uint64_t generation; /* of the slot that was written last */
	bool unpinning;	     /* by a haul: nothing is used by it */
	struct verify verify;

	uint8_t *in; /* payload of the request at hand */
	uint64_t in_max;
	struct kvd_handle *handles; /* payload of the reply at hand */
	uint32_t handles_max;
	uint32_t *check_counts; /* check.c: one a node */
};

static inline struct shelf *machine_shelf(const struct core *core, uint32_t space,
					  uint32_t geometry)
{
	return &core->shelves[(size_t)space * core->cfg.geometries_max + geometry];
}

/* The shelf of one part of a format. */
static inline struct shelf *machine_part_shelf(const struct core *core, const struct format *format,
					       uint32_t part)
{
	return machine_shelf(core, format->space, format->geometry[part]);
}

static inline uint32_t machine_slab_device(const struct core *core, const struct slab *slab)
{
	return core->geometries[slab->geometry].device;
}

/* The device that the page lies on. */
static inline uint32_t machine_device(const struct core *core, uint32_t page)
{
	return machine_slab_device(core, &core->slabs[core->pages[page].slab]);
}

/* Memory of the device came free, or a limit there: who waits for it tries again. */
static inline void machine_wake(struct core *core, uint32_t device)
{
	core->retry |= 1u << (MUTANT(WAKE_ELSEWHERE) && device > 0 ? device - 1 : device);
}

/* Is it one of the daemon's own? */
static inline bool machine_is_haul(const struct core *core, uint32_t lease)
{
	return lease >= core->cfg.leases_max && lease < core->lease_slots;
}

static inline struct haul *machine_haul(const struct core *core, uint32_t lease)
{
	return &core->hauls[lease - core->cfg.leases_max];
}

static inline uint64_t machine_stride(const struct core *core, uint32_t page)
{
	return core->geometries[core->slabs[core->pages[page].slab].geometry].stride_bytes;
}

#endif
