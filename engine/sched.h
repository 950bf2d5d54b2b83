/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who runs: waiting requests get leases, leased sequences get pages, and those that cannot go on
 * give way. Times are given in, so that tests own the clock.
 */
#ifndef ENGINE_SCHED_H
#define ENGINE_SCHED_H

#include <engine/forward.h>
#include <engine/kv.h>
#include <engine/seq.h>
#include <engine/tell.h>

struct sched_config {
	uint32_t page_tokens;
	uint32_t chunk_tokens;
	uint32_t sequences_max;
	uint64_t kvd_wait_ns;	  /* how long work waits for a dead daemon */
	uint32_t acquire_wait_ms; /* how long an ACQUIRE may wait for memory */
	uint32_t extend_wait_ms;  /* how long an EXTEND that needs memory may */
	uint64_t patience_ns;	  /* how long a follower sees no progress before it takes over */
	/* Called when a request has ended, before its client is told; may be NULL. */
	void (*ended)(void *ctx);
	void *ended_ctx;
};

struct sched {
	struct sched_config config;
	struct kv *kv;
	struct forward *forward;
	const struct kernel_ops *ops;
	struct engine_stats *stats;
	struct tell *tell; /* what clients still have to hear; the step's */

	struct list_link queue;	 /* QUEUED, oldest first */
	struct list_link active; /* ASKING, FOLLOWING, RUNNING, oldest first */
	struct list_link ended;	 /* ENDED */
	uint32_t queue_count;
	uint32_t active_count;

	uint32_t starving;	 /* sequences whose next row has no page */
	bool topping;		 /* a TOPUP is on the way, */
	uint32_t topup_blocks;	 /* of so many blocks */
	uint32_t topup_max;	 /* what a refusal has taught */
	uint64_t topup_after_ns; /* not before */
	uint64_t admit_after_ns;
	uint64_t lost_ns;     /* since when kvd is gone; 0: it is there */
	uint64_t patience_ns; /* the config's, or several of the steps that are taken here */
	uint64_t token_ns;    /* to compute one of a prompt; 0: not measured yet */
	uint64_t nap_ns;      /* until the next patience ends, as of the last tick */
	uint64_t takes;	      /* how often a load was no longer waited for */
};

void sched_init(struct sched *d, const struct sched_config *config, struct kv *kv,
		struct forward *forward, const struct kernel_ops *ops, struct engine_stats *stats,
		struct tell *tell);
/* Ends all requests, as cancelled or with the failure's words, and gives all leases back. */
void sched_fini(struct sched *d, const char *failure, uint64_t now_ns);

/* Takes the sequence over. */
void sched_add(struct sched *d, struct seq *s);
void sched_event(struct sched *d, const struct kv_event *ev, uint64_t now_ns);
/* What may be decided while a step runs, because no sequence that is in it is looked at:
 * admissions, and the ends of those that wait. */
void sched_prepare(struct sched *d, uint64_t now_ns);
/* Everything that is due: that, and cancels, expiries, pages. Between steps. */
void sched_tick(struct sched *d, uint64_t now_ns);
/* How long a full step of so many prompt tokens takes here, and so about as long where others
 * build. */
void sched_note_step(struct sched *d, uint32_t full_step_tokens, uint64_t full_step_ns);
/* How long the loop may sleep when no row can be computed; UINT64_MAX: until something comes. */
uint64_t sched_timeout_ns(const struct sched *d);

/* Tells the client that its request ended; the sequence is gone for the caller. */
void sched_end(struct sched *d, struct seq *s, enum engine_finish finish, int status,
	       const char *error, uint64_t now_ns);

#endif
