/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One sequence: its tokens, how many of them have K and V in pages, and its lease. The same record
 * serves a fresh prompt, a preempted sequence and one that lost its daemon: tokens [0, done) are
 * in pages, and whatever follows is computed next; the row of the last token is sampled.
 */
#ifndef ENGINE_SEQ_H
#define ENGINE_SEQ_H

#include <base/list.h>
#include <engine/engine.h>
#include <engine/kv.h>

enum seq_state {
	SEQ_QUEUED,    /* has no lease */
	SEQ_ASKING,    /* its ACQUIRE is on the way */
	SEQ_FOLLOWING, /* leased; waits for others' tokens or for handles before it can start */
	SEQ_RUNNING,   /* leased; computes */
	SEQ_ENDED,     /* its client has been told; only the lease must still go */
};

struct seq {
	struct list_link link;
	enum seq_state state;
	uint64_t id;			/* order of arrival: lower is older */
	struct engine_submit_args args; /* args.tokens is not valid here */

	uint32_t *tokens;
	uint32_t token_room;
	uint32_t token_count; /* prompt and generated */
	uint32_t token_max;   /* where max_tokens or the context end it */
	uint32_t prompt_count;
	uint32_t echoed; /* prompt tokens whose log probabilities were delivered */

	/* Of the steps under way. While there are any, the lease stays. */
	uint32_t flights;    /* steps that it is in */
	uint32_t ahead_rows; /* the latest of them: tokens that it brings into pages, */
	bool ahead_draws;    /* whether it draws the next token, */
	uint32_t ahead_draw; /* and as which draw of its step */
	bool yields;	     /* gives way as soon as it is in none */

	struct kvd_lease *lease;
	uint32_t done;		  /* tokens whose K and V are in the pages */
	uint32_t started;	  /* `done` at the lease's start: found, not computed */
	uint32_t known_blocks;	  /* leading blocks whose page addresses are known */
	uint32_t promised_blocks; /* kvd promised pages so far; beyond: the magazine */
	uint32_t sealed_blocks;
	uint32_t ready_seen; /* ready_tokens at progress_ns */
	uint64_t progress_ns;
	uint64_t follow_ns;   /* since when it follows; 0: not yet */
	uint32_t follow_from; /* ready_tokens then */
	uint64_t asked_takes; /* sched.takes + 1 when it last asked whom it follows */
	uint32_t barren;      /* EXTENDs in a row that brought nothing */
	bool extending;	      /* an EXTEND is on the way */
	bool fetching;	      /* it asks for pages */
	bool starving;	      /* its next row has no page, and the magazine is empty */
	bool interrupted;     /* was preempted or lost its daemon; it streams already */
	bool over;	      /* has its last token, which its client will be told soon */
	uint32_t age_steps;   /* steps since its prompt could run */

	bool asking;	/* an ACQUIRE is on the way, also when ENDED */
	bool cancelled; /* atomic: any thread sets it */
	bool satisfied; /* atomic: cancelled because its client has all it wants */
	uint64_t submit_ns;
	uint64_t queued_ns; /* since when it waits for a lease */
	uint64_t start_ns;  /* first computed row */
	uint64_t first_token_ns;
	uint64_t last_token_ns;
	uint32_t cached_tokens;
	uint64_t tail_bytes_copied;
};

/* Copies args->tokens. NULL: no memory. */
struct seq *seq_new(const struct engine_submit_args *args, uint32_t context, uint64_t now_ns);
/* The lease must be gone, and all steps that it was in. Accepts NULL. */
void seq_free(struct seq *s);

/* Makes room for all tokens that may come: called before it runs. 0 or -ENOMEM. */
int seq_reserve(struct seq *s);
/* Forgets the lease and what depended on it; tokens and sampler state stay. */
void seq_drop_lease(struct seq *s, uint64_t now_ns);

uint32_t seq_generated(const struct seq *s);
/* `done` and `token_count` as they are when the step under way has ended; the last token may not be
 * known yet. */
uint32_t seq_done_soon(const struct seq *s);
uint32_t seq_count_soon(const struct seq *s);
/* Leading blocks whose addresses are known now. */
uint32_t seq_known_blocks(struct seq *s);
/* Rows that it wants computed in the next step: at least 1, even when all its tokens are in pages
 * (query only). */
uint32_t seq_rows_wanted(const struct seq *s);
/* Of those, the rows whose pages are known; none if the step under way draws its last token. Looks
 * at the lease's addresses. */
uint32_t seq_rows_ready(struct seq *s, uint32_t page_tokens);
/* It is in one more step: what that brings. */
void seq_depart(struct seq *s, uint32_t rows, bool draws, uint32_t draw);
/* A step that it was in has ended; what that brought is noted by the caller. */
void seq_land(struct seq *s);
/* Blocks that the lease promises for the tokens there are now. */
uint32_t seq_promise(const struct seq *s, uint32_t page_tokens, uint32_t *out_decode_blocks);
/* Which token starts, given what the lease found: sets done and sealed_blocks. */
void seq_start(struct seq *s, uint32_t from, uint32_t page_tokens, uint64_t now_ns);
/* Sends a SEAL for complete blocks that were not sealed yet. */
void seq_seal(struct seq *s, struct kv *kv, uint32_t page_tokens);
/* Sends the RELEASE, keeping a tail worth finding again. false: try again later. */
bool seq_release(struct seq *s, struct kv *kv, uint32_t page_tokens, bool keep_tail);
/* What done() reports, but for finish, status and error. */
void seq_describe(const struct seq *s, uint64_t now_ns, struct engine_done *out);

#endif
