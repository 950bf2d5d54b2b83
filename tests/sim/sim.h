/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one simulated history knows: the core under test, and beside it models of everybody who
 * talks to it. The models know only what a real client, a real shell and real memory would know;
 * what the core must have done follows from that, and is compared after every step.
 *
 *   processes own sessions; sessions form groups; groups own magazines; leases live in sessions;
 *   `memory` is what the pages would hold, token by token;
 *   areas are what the tiers would hold, transfers what is on its way, journals what survives.
 *
 * Indices into these arrays are the simulator's own; the core's numbers are kept beside them.
 */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include <kvd_abi.h>
#include <stdbool.h>
#include <stdint.h>

#include "kvd/core/core.h"
#include "tests/sim/random.h"

#define SIM_PAGES_MAX 64u
#define SIM_PARTS_MAX 2u
#define SIM_DEVICES_MAX 3u
#define SIM_PAGE_TOKENS_MAX 128u
#define SIM_TOKENS_MAX 384u /* of one sequence */
#define SIM_BLOCKS_MAX (SIM_TOKENS_MAX / 16u)
#define SIM_EXTRAS_MAX 2u
#define SIM_SPACES_MAX 3u
#define SIM_FORMATS_MAX 4u
#define SIM_PROCESSES_MAX 16u
#define SIM_SESSIONS_MAX 12u
#define SIM_NUMBERS_MAX 64u /* session numbers of the core */
#define SIM_GROUPS_MAX SIM_SESSIONS_MAX
#define SIM_LEASES_MAX 48u
#define SIM_ROWS_MAX 24u
#define SIM_MAGAZINE_MAX SIM_PAGES_MAX /* blocks of one format in one group */
#define SIM_PENDING_MAX 64u
#define SIM_IN_MAX 4096u
#define SIM_OUT_MAX 4096u
#define SIM_SLABS_MAX 64u
#define SIM_PINS_MAX 8u
#define SIM_TICKETS_MAX 8u
#define SIM_AREAS_MAX 3u  /* of one tier */
#define SIM_CELLS_MAX 96u /* of one area */
#define SIM_CELL_WORDS 64u
#define SIM_TRANSFERS_MAX 64u
#define SIM_RECORDS_MAX 160u /* of one area, as they are at one time */
#define SIM_JOURNAL_MAX 512u
#define SIM_TRACE_LINES 120u /* those of the last 40 steps or more */
#define SIM_TRACE_BYTES 160u
#define SIM_NONE (-1)

/* --- formats and sequences ------------------------------------------------------------------ */

struct sim_format {
	struct kvd_format_wire wire;
	uint32_t page_tokens;
	uint32_t parts;
	uint32_t id[SIM_SPACES_MAX]; /* the core's, by namespace; UINT32_MAX: not registered yet */
};

/*
 * A token sequence and the hash of each of its prefixes. The hash of a prefix is what a page
 * holds at that prefix's last token, so that right bytes mean right history.
 */
struct sim_sequence {
	uint32_t space;
	uint32_t format;
	uint32_t tokens[SIM_TOKENS_MAX];
	uint32_t hash[SIM_TOKENS_MAX];
	struct kvd_extra extras[SIM_EXTRAS_MAX];
	uint32_t extra_count;
};

/* --- leases --------------------------------------------------------------------------------- */

enum sim_block_state {
	SIM_BLOCK_UNKNOWN = 0, /* no handle: beyond the end, or somebody else computes it */
	SIM_BLOCK_READ,	       /* canonical, given as readable */
	SIM_BLOCK_OPEN,	       /* our own, bound by kvd, we write */
	SIM_BLOCK_BOUND,       /* our own, from the magazine, kvd does not know yet */
	SIM_BLOCK_SEALED,      /* our own, sealed: published or kept, never written again */
};

struct sim_block {
	struct kvd_handle page[SIM_PARTS_MAX];
	uint8_t state;
	bool published;	  /* SEAL said so */
	bool kept;	  /* SEAL said that it stays ours */
	uint16_t written; /* tokens in our own page */
};

struct sim_lease {
	bool used;
	bool moving; /* in a ticket: belongs to no session */
	bool no_hit;
	bool released; /* parent of forks: only its tail is still looked at */
	uint64_t id;
	int session;
	int parent;		 /* of a fork */
	int pending;		 /* the one request about it that is in flight, or SIM_NONE */
	uint32_t known_tokens;	 /* that kvd knows */
	uint32_t granted_blocks; /* that have, or shall have, a page of kvd's */
	uint32_t hit_blocks;	 /* of the ACQUIRE */
	uint32_t cached_tokens;
	uint32_t build_from;
	uint32_t event_seq_seen;
	bool follows;
	struct kvd_handle tail[SIM_PARTS_MAX];
	uint32_t tail_block;
	uint32_t tail_tokens; /* > 0: the tail must be readable */
	bool tail_copied;
	struct sim_sequence seq;
	struct sim_block block[SIM_BLOCKS_MAX];
};

/* --- who talks ------------------------------------------------------------------------------ */

struct sim_magazine_block {
	struct kvd_handle page[SIM_PARTS_MAX];
};

struct sim_group {
	bool used;
	uint64_t id; /* 0: a rank died, nobody can join */
	uint32_t space;
	uint32_t sessions;
	uint32_t count[SIM_FORMATS_MAX];
	struct sim_magazine_block block[SIM_FORMATS_MAX][SIM_MAGAZINE_MAX];
};

struct sim_session {
	bool open;
	bool closing; /* the core still releases what it held */
	bool admin;
	bool deaf;     /* never answers that it has unmapped a slab */
	bool expelled; /* the core wants its end */
	bool evil;     /* sends garbage only; nothing it does is modelled */
	uint32_t number;
	uint32_t space;
	int process;
	int group;
	uint64_t imports;	 /* slabs it maps, by bit */
	uint64_t last_leases[4]; /* evil: ids seen in replies, to make garbage that nearly fits */
	struct kvd_handle last_pages[4];
	struct kvd_lease_row row[SIM_ROWS_MAX];
	struct kvd_session_row row0;
};

struct sim_process {
	bool used;
	bool silent; /* it has stopped writing: quiesced or ended */
	uint64_t id;
	uint64_t scribbles; /* pages that it may still write, by bit, though its session is over */
	uint64_t imports;   /* slabs that it still maps though its session is over */
	uint32_t sessions;
};

/* --- requests ------------------------------------------------------------------------------- */

struct sim_pending {
	bool used;
	bool faulty; /* its payload cannot be read */
	bool silent; /* a garbage request: whatever comes back is fine, once */
	bool waits;  /* it was not answered at once */
	struct kvd_req req;
	int session;
	int lease;
	int aux;	       /* ticket, pin, parent lease, or format: by op */
	uint32_t tokens_after; /* that kvd knows of the sequence when it accepts */
	uint32_t devices;      /* on which it may need memory, by bit */
	uint64_t due_ns;
	uint8_t in[SIM_IN_MAX];
};

struct sim_pin {
	bool used;
	uint32_t space;
	uint32_t format;
	uint32_t n;	 /* tokens that were named */
	uint32_t pinned; /* tokens that are held */
	uint32_t tokens[SIM_TOKENS_MAX];
};

struct sim_ticket {
	bool used;
	bool spent;
	uint8_t bytes[16];
	uint32_t space;
	int lease;
	uint64_t expires_ns;
};

/* --- memory --------------------------------------------------------------------------------- */

struct sim_slab {
	bool used;
	bool live;     /* made */
	bool retiring; /* the DESTROY is ordered */
	struct core_order make;
	uint64_t made_step;
	uint64_t due_ns; /* when the order that is under way ends */
};

struct sim_page {
	uint32_t token[SIM_PAGE_TOKENS_MAX];
	int writer;	     /* lease index, SIM_LEASES_MAX + group, or SIM_NONE */
	uint32_t generation; /* the last one seen */
	uint32_t granted;    /* the last one that was handed out as open */
};

/* --- tiers ---------------------------------------------------------------------------------- */

/* The smallest piece that is read or written: as long as a small page. */
struct sim_cell {
	uint32_t word[SIM_CELL_WORDS];
};

/* The first cell of a slot. */
struct sim_header {
	uint8_t key[16];
	uint8_t identity[16];
	uint64_t generation;
	uint64_t sum; /* of all that follows */
	uint64_t life;
};

struct sim_transfer {
	bool used;
	bool late; /* the core was told so */
	struct core_transfer order;
	uint64_t begun_ns;
	uint64_t due_ns;
	uint64_t sum; /* STORE of pages: what they held when it began */
};

/* With what its pointers point to. */
struct sim_record {
	struct core_record record;
	bool stale; /* it was given back to a core, which did not want it */
	uint32_t tokens[SIM_CELL_WORDS];
	uint32_t extras[KVD_EXTRAS_PER_BLOCK * 5];
};

/* What survives of an area: a checkpoint and what was recorded since. */
struct sim_journal {
	uint32_t base_count;
	uint32_t count;
	uint32_t durable; /* of count: what a crash cannot take away */
	bool walking;	  /* the next checkpoint is being written: */
	uint32_t cursor;
	uint32_t from; /* of count, when it began */
	uint32_t next_count;
	struct sim_record base[SIM_RECORDS_MAX];
	struct sim_record next[SIM_RECORDS_MAX];
	struct sim_record entry[SIM_JOURNAL_MAX];
};

struct sim_area {
	bool there;
	bool down;
	uint32_t cells;
	uint32_t slowness; /* its transfers take so many times as long */
	struct sim_cell cell[SIM_CELLS_MAX];
	uint64_t lost[SIM_CELLS_MAX]; /* by first cell: the generation that could not be read */
};

/* What VERIFY found since it was asked. */
struct sim_verify {
	uint64_t blocks;
	uint64_t bytes;
	uint64_t bad;
	uint64_t failed;
};

/* --- one history ------------------------------------------------------------------------------ */

struct sim {
	struct core *core;
	struct core_config config;
	struct random random;
	struct random places; /* what lies on which device: of one device, nothing is asked */
	struct random depths; /* what happens in tiers: without any, nothing is asked */
	uint64_t seed;
	uint64_t now_ns;
	uint64_t step;
	bool verbose;
	bool draining;
	bool next_faulty; /* the payload of the next request cannot be read */
	uint32_t make_fails_percent;
	uint32_t hot_format;   /* most requests are about it */
	uint32_t hot_space;    /* most sessions are in it */
	uint32_t pace_percent; /* how often a lease that could compute does */
	bool with_evil;
	bool ending; /* the history closes: no new work */
	uint32_t format_count;
	uint32_t space_count;
	uint32_t next_tag;
	uint64_t next_process;
	struct sim_format format[SIM_FORMATS_MAX];
	struct sim_process process[SIM_PROCESSES_MAX];
	struct sim_session session[SIM_SESSIONS_MAX];
	int by_number[SIM_NUMBERS_MAX];
	int opening; /* the session whose number the core is about to tell, or SIM_NONE */
	struct sim_group group[SIM_GROUPS_MAX];
	struct sim_lease lease[SIM_LEASES_MAX];
	struct sim_pending pending[SIM_PENDING_MAX];
	uint64_t short_step[SIM_DEVICES_MAX]; /* when the last one ended that got no memory at once
					       */
	struct sim_pin pin[SIM_PINS_MAX];
	struct sim_ticket ticket[SIM_TICKETS_MAX];
	uint8_t spent_ticket[16];
	struct sim_sequence why_seq;  /* of the WHY that is asked now */
	struct sim_sequence lost_seq; /* of a lease whose process broke while it computed */
	uint32_t lost_tokens;	      /* up to the end of the block that it did not seal; or 0 */
	struct sim_slab slab[SIM_SLABS_MAX];
	struct sim_page page[SIM_PAGES_MAX];
	bool has_tiers;
	uint64_t life;		/* of the daemon, from 1 */
	uint64_t generation;	/* the highest that this life gave to a slot */
	uint64_t patience_ns;	/* a transfer that takes longer is late */
	uint32_t fails_percent; /* of the transfers */
	uint32_t hangs_percent;
	uint32_t rots_permille;
	struct core_space_args space_args[SIM_SPACES_MAX];
	struct sim_area area[CORE_TIERS][SIM_AREAS_MAX];
	struct sim_transfer transfer[SIM_TRANSFERS_MAX];
	struct sim_journal journal[SIM_AREAS_MAX];
	struct sim_verify verify;
	bool failed; /* a transfer, in this life */
	bool storm;  /* all that moves becomes late */
	bool moving; /* the core is told of the end of a transfer */
	char trace[SIM_TRACE_LINES][SIM_TRACE_BYTES];
	uint64_t trace_next;
	uint64_t digest; /* of all that the core said */
};

#endif
