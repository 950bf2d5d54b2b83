/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kvd_abi.h: every byte that kvd shares with another process.
 *
 * One message, two channels. A request is always `struct kvd_req` and a reply always
 * `struct kvd_rep`, 64 bytes each, with an optional payload. On the rings the payload lies in the
 * session's memfd at in_off / out_off; on the SEQPACKET socket it follows the 64 bytes in the same
 * packet (at most KVD_SOCK_PAYLOAD_MAX bytes). Rings carry the hot path; the socket carries HELLO,
 * file descriptors, FORMAT and the admin requests, and its hang-up is the end of the session.
 *
 * Every request has exactly one reply, possibly out of order; `tag` is the client's and is echoed.
 * Integers are little endian and of fixed width; structures are append-only; offsets, never
 * pointers. Everything a client writes is hostile: kvd copies, checks, uses.
 */
#ifndef KVD_ABI_H
#define KVD_ABI_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define KVD_ABI_MAGIC 0x3144564bu /* "KVD1" */
#define KVD_ABI_MAJOR 1
#define KVD_ABI_MINOR 2

/* Feature bits, HELLO both ways: a side may use only what both have named. */
#define KVD_FEATURE_HOST_SLABS 0x1ull /* slabs are memfds, passed by SCM_RIGHTS */
#define KVD_FEATURE_CUDA_IPC 0x2ull   /* slabs are cudaIpcMemHandles */
#define KVD_FEATURE_CUDA_VMM 0x4ull   /* slabs are the driver's descriptors, by SCM_RIGHTS */

/* --- limits, the same for everybody ------------------------------------------------------- */

#define KVD_REQUEST_TOKENS_MAX (1u << 20)
#define KVD_SOCK_PAYLOAD_MAX 61440u
#define KVD_CREDITS_MIN 32u
#define KVD_CREDITS_MAX 1024u
#define KVD_LEASES_MAX 4096u	  /* rows of one session's lease table, row 0 included */
#define KVD_PARTS_MAX 16u	  /* parts of one format */
#define KVD_DESCRIPTION_MAX 4096u /* bytes of a format's description, its NUL included */
#define KVD_NAME_MAX 64u	  /* bytes of a namespace or session name, its NUL included */
#define KVD_EXTRAS_PER_BLOCK 8u
#define KVD_SEAL_BLOCKS_MAX 4096u /* of one SEAL */
#define KVD_FDS_MAX 4u		  /* descriptors in one packet */
#define KVD_DEVICES_MAX 16u	  /* that one kvd has slabs on */
#define KVD_AREAS_MAX 16u	  /* files of the file tier */
#define KVD_TAIL_RUN_MIN 8u	  /* the shortest common run worth copying a tail for */

/* --- handles -------------------------------------------------------------------------------- */

#define KVD_PAGE_NONE 0xffffffffu

/* A page at one time of its life. The generation rises at each free; a stale handle is refused. */
struct kvd_handle {
	uint32_t page;
	uint32_t generation;
};

/* Lease ids are {row, generation} in one word: (uint64_t)generation << 32 | row. 0 is no lease. */
#define KVD_LEASE_ROW(lease) ((uint32_t)(lease))
#define KVD_LEASE_GENERATION(lease) ((uint32_t)((lease) >> 32))
#define KVD_LEASE_ID(row, generation) ((uint64_t)(generation) << 32 | (row))

/* --- requests ------------------------------------------------------------------------------- */

enum kvd_op {
	KVD_OP_HELLO = 1,     /* socket, first message. in: kvd_hello. out: kvd_welcome + 4 fds */
	KVD_OP_FORMAT = 2,    /* socket. in: kvd_format_wire + description. rep: aux = format id */
	KVD_OP_ACQUIRE = 3,   /* in: u32 tokens[n], kvd_extra[m]. out: handles of blocks 0.. */
	KVD_OP_EXTEND = 4,    /* in: u32 tokens[n]. out: handles of blocks first.. (m wanted) */
	KVD_OP_SEAL = 5,      /* in: u32 tokens[n], kvd_handle[arg32]. blocks [first, first + m) */
	KVD_OP_FORK = 6,      /* rep: the child lease, the parent's live tail */
	KVD_OP_RELEASE = 7,   /* in: u32 tokens[n]. KVD_RELEASE_KEEP_TAIL: first, m, arg64 */
	KVD_OP_TOPUP = 8,     /* n blocks of format. out: handles, all parts of n blocks or none */
	KVD_OP_RETURN = 9,    /* in: kvd_handle[n], untagged open pages of this session's group */
	KVD_OP_HANDOFF = 10,  /* lease; arg32 = ttl_ms. out: 16 byte ticket; the lease moves away */
	KVD_OP_CLAIM = 11,    /* in: 16 byte ticket. rep and out as ACQUIRE */
	KVD_OP_PREFETCH = 12, /* as ACQUIRE, takes no lease */
	KVD_OP_PIN = 13,      /* in: u32 tokens[n] of format. rep: cached_tokens = tokens pinned */
	KVD_OP_UNPIN = 14,    /* in: u32 tokens[n] of format */
	KVD_OP_EVICT = 15,    /* admin socket. arg64 = pages at most; KVD_EVICT_* ; aux = evicted */
	KVD_OP_CANCEL = 16,   /* arg32 = tag of a waiting request; that one replies -ECANCELED */
	KVD_OP_STAT = 17,     /* out: kvd_space_stat of the session's own namespace */
	KVD_OP_WHY = 18,      /* in: u32 tokens[n] of format. out: kvd_why */
	KVD_OP_LIST = 19,  /* admin socket. arg32 = kvd_list_kind, arg64 = cursor (0: start). out:
			    * whole records; rep.aux = the next cursor, 0 at the end */
	KVD_OP_CHECK = 20, /* admin socket. walks every invariant; out: text if one is broken */
	KVD_OP_RATE = 21,  /* format, arg64 = measured prefill tokens per second */
	KVD_OP_SLAB = 22,  /* socket. arg32 = page. out: kvd_slab_wire + 1 fd */
	KVD_OP_SLAB_GONE = 23, /* arg32 = slab id: this session has unmapped it */
	KVD_OP_BYE = 24,       /* the session's last request: its memory is quiet, free at once */
	KVD_OP_DRAIN = 25,     /* admin socket. arg32 = 1: refuse new leases; 0: accept again */
	KVD_OP_VERIFY =
		26, /* admin socket. arg32 = kvd_tier_kind, arg64 = cursor (0: start). Reads
		     * some slots; out: kvd_verify; rep.aux = the next cursor, 0 at the end */
	KVD_OP_COUNT
};

struct kvd_req {
	uint16_t op;
	uint16_t flags; /* KVD_ACQUIRE_*, KVD_EXTEND_*, ... of that op; unknown bits refuse */
	uint32_t tag;	/* the client's; unique among its requests in flight */
	uint64_t lease;
	uint32_t format;
	uint32_t n;
	uint32_t first;
	uint32_t m;
	uint32_t in_off; /* bytes from the start of the in area, 4-byte aligned */
	uint32_t in_bytes;
	uint32_t out_off;     /* bytes from the start of the out area, 8-byte aligned */
	uint32_t out_bytes;   /* room that the client reserved there */
	uint32_t deadline_ms; /* relative; 0: do not wait */
	uint32_t arg32;
	uint64_t arg64;
};
static_assert(sizeof(struct kvd_req) == 64, "kvd_req");

/* ACQUIRE: n tokens, m extras, arg32 = decode_blocks promised beyond the prompt. */
#define KVD_ACQUIRE_NO_HIT 0x1 /* a cold run: look up nothing, publish nothing */

/*
 * EXTEND: hands out handles of blocks [first, first + m), appends n generated tokens, and says
 * what a CALL is about. Flags:
 */
#define KVD_EXTEND_TAKE 0x1 /* a follower's patience is over: become the builder */
#define KVD_EXTEND_CALL 0x2 /* answers a CALL; arg32 = event_seq that was seen */

/*
 * SEAL: the bytes of blocks [first, first + m) are complete and will not change. The n tokens
 * continue what kvd knows of the sequence. The arg32 handles are magazine pages, in order, for
 * those of the blocks to which kvd has bound no page.
 * rep.handle_count = how many of the m blocks, from `first`, are published (or already were).
 */

/*
 * RELEASE: all pages tagged with the lease are freed. With KEEP_TAIL the page of block `first`,
 * of which m tokens are valid, becomes a partial node; arg64 = its handle as
 * (uint64_t)generation << 32 | page when it is a magazine page, else 0.
 */
#define KVD_RELEASE_KEEP_TAIL 0x1

/*
 * FORK: lease = the parent, arg32 = decode_blocks of the child. m > 0: so many tokens of the
 * parent's unsealed block `first` are valid and become the child's tail; arg64 as in RELEASE.
 */

/* CLAIM: rep.aux says what was claimed. */
#define KVD_CLAIM_FORMAT(aux) ((uint32_t)(aux))
#define KVD_CLAIM_TOKENS(aux) ((uint32_t)((aux) >> 32))

#define KVD_EVICT_ALL_SPACES 0x1 /* else lease holds the namespace's number */
#define KVD_EVICT_TIERS 0x2	 /* out of the tiers, too; a block there counts as its pages */

/* --- replies -------------------------------------------------------------------------------- */

/* result: < 0 is -errno; 0 success; > 0 one of these. */
enum kvd_outcome {
	KVD_OK = 0,
	KVD_FULL = 1,	  /* no memory within the deadline: rep.full has the numbers */
	KVD_STALE = 2,	  /* a handle or lease of an earlier life */
	KVD_BUSY = 3,	  /* too many of this session's requests wait already */
	KVD_KEPT = 4,	  /* SEAL: some blocks stay private to the lease; nothing to do */
	KVD_MISS = 5,	  /* nothing there: WHY, CLAIM, PIN of an unknown prefix */
	KVD_GONE = 6,	  /* libkvd only: the daemon is gone */
	KVD_DRAINING = 7, /* kvd takes no new leases */
	KVD_OUTCOME_COUNT
};

/* rep.event of ACQUIRE, CLAIM, FORK and EXTEND: what the lease should do next. */
enum kvd_lease_event {
	KVD_EVENT_COMPUTE = 0, /* compute from token build_from on, pages are there */
	KVD_EVENT_FOLLOW = 1, /* wait until ready_tokens reaches build_from; others compute below */
	KVD_EVENT_LOAD = 2,   /* the same, but what comes next is brought back from a tier */
};

struct kvd_rep_lease {
	uint32_t cached_tokens; /* readable now, in whole blocks, from token 0 */
	uint32_t build_from;	/* first token that this lease computes itself (tail not counted) */
	uint32_t event_seq;
	uint16_t event;	      /* enum kvd_lease_event */
	uint16_t follows_own; /* 1: the builder that is followed is in the caller's session */
	uint32_t
		handle_count; /* entries in the payload: [block][part] from the first block asked */
	uint32_t tail_tokens; /* > 0: copy `tail` into the page of build_from's block, it then */
	struct kvd_handle tail; /* holds tokens [build_from, build_from + tail_tokens) already */
};

struct kvd_rep_full {
	uint64_t needed_pages;
	uint64_t free_pages;
	uint64_t evictable_pages;
};

struct kvd_rep {
	uint16_t op;
	uint16_t reserved;
	uint32_t tag;
	int32_t result;
	uint32_t out_bytes; /* bytes of payload written at the request's out_off */
	uint64_t lease;
	uint64_t aux;
	union {
		struct kvd_rep_lease at;
		struct kvd_rep_full full;
		uint64_t words[4];
	};
};
static_assert(sizeof(struct kvd_rep) == 64, "kvd_rep");
static_assert(offsetof(struct kvd_rep, at) == 32, "kvd_rep.at");

/* --- payloads ------------------------------------------------------------------------------- */

/* Something that is not a token but makes a block what it is: an image behind a placeholder. */
struct kvd_extra {
	uint32_t token_pos;
	uint32_t reserved;
	uint8_t digest[16];
};
static_assert(sizeof(struct kvd_extra) == 24, "kvd_extra");

#define KVD_HELLO_ADMIN 0x1    /* no rings: LIST, CHECK, EVICT, DRAIN and WHY by socket only */
#define KVD_HELLO_QUIESCED 0x2 /* the same process was here before and its writes have ended */

struct kvd_hello {
	uint32_t magic;
	uint16_t major;
	uint16_t minor;
	uint64_t features;
	uint64_t adopt_nonce; /* reserved, 0 */
	uint64_t group;	      /* session group to join; 0: a group of its own */
	uint32_t flags;
	uint32_t credits; /* wanted; the welcome says what was given */
	uint32_t leases_max;
	uint32_t in_area_bytes;
	uint32_t out_area_bytes;
	uint32_t secret_bytes; /* 0..64 */
	uint8_t secret[64];
	char space[KVD_NAME_MAX]; /* namespace; "" is "default" */
	char name[KVD_NAME_MAX];  /* what kvctl shows for this session */
};
static_assert(sizeof(struct kvd_hello) == 248, "kvd_hello");

/* The descriptors beside a successful welcome, in this order. */
enum kvd_welcome_fd {
	KVD_FD_RINGS = 0,     /* memfd, read and write: struct kvd_rings */
	KVD_FD_LEASES = 1,    /* memfd, read only: struct kvd_lease_row[leases_max] */
	KVD_FD_TO_KVD = 2,    /* bell: the client writes 8 bytes to it when kvd sleeps */
	KVD_FD_TO_CLIENT = 3, /* bell: readable when kvd rang because the client sleeps */
};

/* Memory that kvd makes slabs on. A part names its device by `index`. */
struct kvd_device {
	uint32_t kind; /* enum kvd_slab_kind */
	uint32_t index;
	uint8_t uuid[16]; /* zero: the host */
	char name[KVD_NAME_MAX];
};
static_assert(sizeof(struct kvd_device) == 88, "kvd_device");

struct kvd_welcome {
	uint32_t magic;
	uint16_t major;
	uint16_t minor;
	uint64_t features;
	uint64_t nonce;		 /* one per daemon start, never 0 */
	uint64_t previous_nonce; /* reserved, 0 */
	uint64_t group;
	uint32_t session;
	uint32_t credits;
	uint32_t leases_max;
	uint32_t in_area_bytes;
	uint32_t out_area_bytes;
	uint32_t spin_us;  /* how long kvd itself spins; a hint for the client */
	char message[256]; /* when refused: why, and what to do */
	/* since minor 1 */
	uint32_t device_count;
	uint32_t reserved;
	struct kvd_device devices[KVD_DEVICES_MAX];
};
static_assert(offsetof(struct kvd_welcome, device_count) == 320, "kvd_welcome.device_count");
static_assert(sizeof(struct kvd_welcome) == 1736, "kvd_welcome");

/* What a welcome of minor 0 is, and what a client of that time asks for. */
#define KVD_WELCOME_BYTES_MIN offsetof(struct kvd_welcome, device_count)

struct kvd_part_wire {
	uint64_t page_bytes;
	uint32_t align;	 /* power of two, <= 4096 */
	uint32_t group;	 /* layer group */
	uint32_t shard;	 /* tensor parallel shard */
	uint32_t window; /* tokens; 0: full attention */
	uint32_t device; /* where its pages shall lie; not part of the identity */
	uint32_t reserved;
};
static_assert(sizeof(struct kvd_part_wire) == 32, "kvd_part_wire");

struct kvd_format_wire {
	uint8_t identity[16];
	uint32_t page_tokens; /* 16, 32, 64 or 128 */
	uint32_t part_count;
	char layout[32];
	struct kvd_part_wire parts[KVD_PARTS_MAX];
	uint32_t description_bytes; /* follow this struct, NUL included; may be 0 */
	uint32_t reserved;
};
static_assert(sizeof(struct kvd_format_wire) == 576, "kvd_format_wire");

enum kvd_slab_kind { KVD_SLAB_HOST = 0, KVD_SLAB_CUDA_IPC = 1, KVD_SLAB_CUDA_VMM = 2 };

struct kvd_slab_wire {
	uint32_t slab;
	uint32_t kind;
	uint32_t first_page;
	uint32_t page_count;
	uint64_t stride_bytes; /* page i lies at base + (i - first_page) * stride */
	uint64_t base_offset;
	uint64_t slab_bytes;
	uint32_t device;
	uint32_t numa_node;
	uint8_t device_uuid[16];
	uint8_t ipc_handle[64];
};
static_assert(sizeof(struct kvd_slab_wire) == 128, "kvd_slab_wire");

enum kvd_why_cause {
	KVD_WHY_HIT = 0, /* nothing is missing */
	KVD_WHY_NEVER_SEEN = 1,
	KVD_WHY_EVICTED = 2,
	KVD_WHY_BUILDING = 3,	  /* being computed right now */
	KVD_WHY_OTHER_FORMAT = 4, /* same tokens, another format: see `text` */
	KVD_WHY_QUARANTINED = 5,
	KVD_WHY_SHORT = 6,   /* fewer tokens than one block */
	KVD_WHY_IN_TIER = 7, /* not on the device, but it can be loaded */
};

struct kvd_why {
	uint32_t cause;
	uint32_t hit_tokens;
	uint32_t first_missing_block;
	uint32_t common_run_tokens; /* of the missing block, that a sibling shares */
	char text[240];
};
static_assert(sizeof(struct kvd_why) == 256, "kvd_why");

enum kvd_list_kind {
	KVD_LIST_SESSIONS = 1, /* kvd_session_stat */
	KVD_LIST_PREFIXES = 2, /* kvd_prefix_stat, one per chain from a root to a leaf */
	KVD_LIST_SLABS = 3,    /* kvd_slab_stat */
	KVD_LIST_FORMATS = 4,  /* kvd_format_stat */
	KVD_LIST_SPACES = 5,   /* kvd_space_stat */
};

enum kvd_tier_kind { KVD_TIER_DRAM = 1, KVD_TIER_FILE = 2 };

struct kvd_verify {
	uint64_t blocks; /* that this request read */
	uint64_t bytes;
	uint64_t bad;	 /* of them: not what they should be, and gone now */
	uint64_t failed; /* of them: could not be read, and gone now */
	uint64_t total;	 /* blocks that the tier holds */
};
static_assert(sizeof(struct kvd_verify) == 40, "kvd_verify");

/* --- rings ---------------------------------------------------------------------------------- */

/*
 * The session's memfd: this header, credits request slots, credits reply slots, the in area, the
 * out area; offsets in the header. Indices only grow; slot = index & (credits - 1); credits is a
 * power of two. Each line has one writer. kvd keeps private copies of its own indices and of every
 * offset, and reads only what the client must write.
 *
 * Sleeping: the consumer stores 1 into its `sleeps`, fences, looks once more, then waits on its
 * bell. The producer publishes its index (release), fences, and rings if `sleeps` is 1.
 */
struct kvd_rings {
	uint32_t magic;
	uint16_t major;
	uint16_t minor;
	uint32_t credits;
	uint32_t in_area_bytes;
	uint32_t out_area_bytes;
	uint32_t req_off;
	uint32_t rep_off;
	uint32_t reserved0;
	uint64_t in_off;
	uint64_t out_off;
	uint8_t pad0[16];
	/* written by the client */
	uint32_t req_head; /* next request slot to fill */
	uint32_t rep_tail; /* next reply slot to read */
	uint32_t client_sleeps;
	uint8_t pad1[52];
	/* written by kvd */
	uint32_t req_tail;
	uint32_t rep_head;
	uint32_t kvd_sleeps;
	uint32_t closed; /* errno of the reason why kvd ended this session, 0 while open */
	uint8_t pad2[48];
};
static_assert(sizeof(struct kvd_rings) == 192, "kvd_rings");
static_assert(offsetof(struct kvd_rings, req_head) == 64, "kvd_rings.req_head");
static_assert(offsetof(struct kvd_rings, req_tail) == 128, "kvd_rings.req_tail");

/* --- lease table ---------------------------------------------------------------------------- */

enum kvd_lease_state {
	KVD_LEASE_NONE = 0,
	KVD_LEASE_OK = 1,
	KVD_LEASE_CALL = 2,
	KVD_LEASE_REVOKED = 3
};

/* Row i > 0 belongs to the lease with KVD_LEASE_ROW == i. kvd writes, the client only reads. */
struct kvd_lease_row {
	uint32_t generation;
	uint32_t event_seq;
	uint32_t state;
	uint32_t ready_tokens; /* release store; only grows: tokens below are readable */
	uint8_t reserved[48];
};
static_assert(sizeof(struct kvd_lease_row) == 64, "kvd_lease_row");

/* Row 0. */
struct kvd_session_row {
	uint32_t want_back_pages; /* RETURN that many magazine pages, please */
	uint32_t retiring_slab;	  /* slab id + 1: unmap it, then SLAB_GONE; 0: none */
	uint32_t draining;
	uint8_t reserved[52];
};
static_assert(sizeof(struct kvd_session_row) == 64, "kvd_session_row");

/* --- what LIST returns and the status file holds ---------------------------------------------- */

enum kvd_page_state {
	KVD_PAGE_FREE = 0,
	KVD_PAGE_OPEN = 1,
	KVD_PAGE_SEALED = 2,
	KVD_PAGE_FILLING = 3,
	KVD_PAGE_QUARANTINE = 4,
	KVD_PAGE_STATES
};

struct kvd_session_stat {
	uint32_t session;
	uint32_t space;
	uint32_t pid;
	uint32_t uid;
	uint64_t since_ns; /* CLOCK_MONOTONIC of HELLO */
	uint64_t last_request_ns;
	uint64_t requests;
	uint64_t prompt_tokens; /* asked for in ACQUIREs */
	uint64_t cached_tokens; /* of those, found */
	uint64_t sealed_blocks;
	uint32_t leases;
	uint32_t open_pages;
	uint32_t pinned_pages; /* sealed pages that it is charged for: a page that several
				* sessions hold is charged to one of them */
	uint32_t waiting_requests;
	uint32_t magazine_pages;
	uint32_t stalled; /* 1: has work in its ring or doorbell unanswered for > 1 s */
	uint64_t group;
	char name[KVD_NAME_MAX];
};
static_assert(sizeof(struct kvd_session_stat) == 160, "kvd_session_stat");

struct kvd_space_stat {
	uint32_t space;
	uint32_t sessions;
	uint64_t nodes;
	uint64_t pages; /* that belong to it, each once */
	uint64_t bytes;
	uint64_t floor_bytes;
	uint64_t ceiling_bytes;
	uint64_t prompt_tokens;
	uint64_t cached_tokens;
	uint64_t evicted_pages;
	uint64_t refused_requests;
	char name[KVD_NAME_MAX];
};
static_assert(sizeof(struct kvd_space_stat) == 144, "kvd_space_stat");

struct kvd_prefix_stat {
	uint8_t key[16]; /* hash of the leaf */
	uint32_t space;
	uint32_t format;
	uint32_t blocks; /* from the root */
	uint32_t tokens;
	uint64_t bytes;
	uint32_t pins;	      /* leases that hold the leaf now */
	uint32_t shared_pins; /* leases that hold the chain's first node now */
	uint32_t flags;	      /* 1 partial, 2 building, 4 pinned by PIN, 8 in a tier only */
	uint32_t hits;	      /* of the leaf */
	uint64_t last_used_ns;
};
static_assert(sizeof(struct kvd_prefix_stat) == 64, "kvd_prefix_stat");

struct kvd_slab_stat {
	uint32_t slab;
	uint32_t space;
	uint32_t first_page;
	uint32_t page_count;
	uint64_t stride_bytes;
	uint64_t slab_bytes;
	uint32_t device;
	uint32_t state; /* 0 making, 1 live, 2 retiring */
	uint32_t pages_by_state[KVD_PAGE_STATES];
	uint32_t reserved;
};
static_assert(sizeof(struct kvd_slab_stat) == 64, "kvd_slab_stat");

struct kvd_format_stat {
	uint8_t identity[16];
	uint32_t format;
	uint32_t space;
	uint32_t page_tokens;
	uint32_t part_count;
	uint64_t block_bytes;
	uint64_t prefill_tokens_per_s;
	char layout[32];
	char description[128];
};
static_assert(sizeof(struct kvd_format_stat) == 208, "kvd_format_stat");

/* One device's pool, in the status file. */
struct kvd_device_stat {
	uint32_t device;	   /* kvd_device.index */
	uint32_t waiting_requests; /* that want pages there, of it alone or of others, too */
	uint64_t pool_bytes;
	uint64_t slab_bytes; /* of it, made into slabs */
	uint64_t used_bytes; /* pages that are not free */
	uint64_t promised_pages;
	uint64_t evictable_pages;
};
static_assert(sizeof(struct kvd_device_stat) == 48, "kvd_device_stat");

enum kvd_area_state { KVD_AREA_OK = 0, KVD_AREA_DEGRADED = 1 };

/* One area of a tier: a file, or the DRAM. In the status file. */
struct kvd_area_stat {
	uint32_t tier; /* enum kvd_tier_kind */
	uint32_t area;
	uint32_t state; /* enum kvd_area_state */
	uint32_t queue; /* transfers under way and waiting */
	uint64_t bytes;
	uint64_t used_bytes; /* slots that hold a block */
	uint64_t blocks;
	uint64_t hit_blocks; /* loaded because a request wanted them */
	uint64_t loads;
	uint64_t stores;
	uint64_t loaded_bytes;
	uint64_t stored_bytes;
	uint64_t errors;
	uint64_t bad_blocks;	   /* checksum, key or generation were not as they should be */
	uint64_t dropped_blocks;   /* made room for others */
	uint64_t load_bytes_per_s; /* of late, while it was loading */
	uint64_t store_bytes_per_s;
	uint64_t load_peak_bytes_per_s;
	uint64_t store_peak_bytes_per_s;
	char engine[16]; /* of its I/O: "io_uring", "threads"; "memory" */
	char path[104];	 /* its end, if it is longer */
};
static_assert(sizeof(struct kvd_area_stat) == 256, "kvd_area_stat");

/* Monotonic counters, in the status file and as metrics; append only, order is ABI. */
enum kvd_counter {
	KVD_C_ACQUIRES,
	KVD_C_PROMPT_TOKENS,
	KVD_C_CACHED_TOKENS,
	KVD_C_FOLLOWED_TOKENS,
	KVD_C_TAIL_TOKENS,
	KVD_C_SEALED_BLOCKS,
	KVD_C_KEPT_BLOCKS,
	KVD_C_EVICTED_PAGES,
	KVD_C_REFUSED_FULL,
	KVD_C_WAITED,
	KVD_C_STALE,
	KVD_C_TAKES,
	KVD_C_CALLS,
	KVD_C_SESSION_DEATHS,
	KVD_C_QUARANTINED_PAGES,
	KVD_C_SLABS_MADE,
	KVD_C_SLABS_RETIRED,
	KVD_C_PROTOCOL_ERRORS,
	KVD_C_KV_BYTES_COPIED, /* by kvd, to share a prefix: stays 0 on one device */
	KVD_C_LOOP_TURNS,
	/* since minor 2 */
	KVD_C_DEMOTED_PAGES,	 /* evicted from the device, and still in a tier */
	KVD_C_LOADED_TOKENS,	 /* brought back from a tier for a request */
	KVD_C_PREFETCHED_TOKENS, /* by PREFETCH */
	KVD_C_RECOMPUTED_TOKENS, /* were in a tier, and computing them was estimated to be faster */
	KVD_C_LOST_TOKENS,	 /* should have been in a tier, and could not be read */
	KVD_C_LOADS_CHOSEN,	 /* requests for which loading was chosen */
	KVD_C_COMPUTES_CHOSEN,	 /* requests for which computing was chosen */
	KVD_C_LOAD_ESTIMATE_NS,	 /* of those for which loading was chosen: what was expected */
	KVD_C_LOAD_ACTUAL_NS,	 /* and what it took */
	KVD_C_UNSTORED_BLOCKS, /* not written to the file tier: the policy expects no use of them */
	KVD_C_COUNT
};

#define KVD_STATUS_MAGIC 0x5444564bu /* "KVDT" */
#define KVD_STATUS_SESSIONS 64
#define KVD_STATUS_SPACES 64

/*
 * The status file: written by kvd alone, about every 100 ms; readers retry while `seq` is odd or
 * has changed. A reader that finds the pid dead knows that the daemon died.
 */
struct kvd_status {
	uint32_t magic;
	uint16_t major;
	uint16_t minor;
	uint32_t seq;
	uint32_t pid;
	uint64_t pid_start_ticks; /* field 22 of /proc/pid/stat: the pid was not reused */
	uint64_t nonce;
	uint64_t start_ns;
	uint64_t updated_ns;
	char version[32];
	char device_memory[32];
	uint64_t pool_bytes;
	uint64_t slab_bytes; /* of it, made into slabs */
	uint64_t pages_by_state[KVD_PAGE_STATES];
	uint64_t bytes_by_state[KVD_PAGE_STATES];
	uint64_t promised_pages;
	uint64_t evictable_pages;
	uint64_t nodes;
	uint64_t nodes_max;
	uint64_t index_tokens;
	uint64_t index_tokens_max;
	uint64_t leases;
	uint64_t waiting_requests;
	uint64_t draining;
	uint64_t loop_p50_ns;
	uint64_t loop_p99_ns;
	uint64_t counters[48];
	uint32_t session_count;
	uint32_t space_count;
	struct kvd_session_stat sessions[KVD_STATUS_SESSIONS];
	struct kvd_space_stat spaces[KVD_STATUS_SPACES];
	/* since minor 1; the figures above are those of all devices together */
	uint32_t device_count;
	uint32_t reserved;
	struct kvd_device_stat devices[KVD_DEVICES_MAX];
	/* since minor 2 */
	uint32_t area_count;
	uint32_t reserved2;
	struct kvd_area_stat areas[KVD_AREAS_MAX + 1];
};
/* What a status of minor 0 is. */
#define KVD_STATUS_BYTES_MIN offsetof(struct kvd_status, device_count)
static_assert(KVD_C_COUNT <= 48, "counters");

#endif
