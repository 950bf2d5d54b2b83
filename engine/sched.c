/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler's decisions about memory and order, between steps.
 *
 * Life of a sequence: QUEUED -> (ACQUIRE) ASKING -> (its lease came) FOLLOWING -> RUNNING -> ended.
 * FOLLOWING ends at once when nobody else computes what it needs. A sequence goes back to QUEUED,
 * with its tokens and its place by age, when it is preempted, revoked, refused by kvd for the
 * moment, or when kvd died: it is then a prompt like any other, and its stream goes on where it
 * stopped.
 *
 * Memory: kvd promises the prompt's pages and one more block with the lease; all further blocks
 * are bound from the magazine, which is filled ahead of need. When a TOPUP of one block is refused
 * for lack of memory while a sequence starves, the youngest sequence gives way; the oldest never
 * does unless it is alone, so that somebody always makes progress. Nobody is admitted while
 * somebody starves.
 *
 * A sequence that is in a step under way may end here, and its client is told so at once; but its
 * lease stays until that step has ended, since the device still writes to its pages. For the same
 * reason it gives way only then (`yields`), and is left out of the step after.
 *
 * Whoever waits for a builder waits while it shows progress: computing beside it would make both
 * slower. Whoever waits for a load does so for a small multiple of the time that computing would
 * take, whatever comes meanwhile; kvd expected it to take less than once. Then one sequence of this
 * engine takes over. The others ask first, and learn that they follow it now.
 *
 * All on the step loop's thread; nothing here blocks.
 */
#include "engine/sched.h"
#include "base/assert.h"
#include "base/atomic.h"
#include "base/bits.h"
#include "base/log.h"
#include "base/units.h"
#include "engine/crash.h"
#include "engine/stats.h"

#define RETRY_NS (20 * UNITS_NS_PER_MS)
#define POLL_NS (100 * UNITS_NS_PER_MS)
/* Open pages are asked for when so few tokens of room are left. */
#define AHEAD_TOKENS 8u
#define BARREN_MAX 8u
#define TOPUP_BLOCKS_MAX 1024u
/* A builder that computes shows nothing for a step; a busy host makes that longer. */
#define PATIENCE_STEPS 4u
/* A load may take so many times as long as computing what it brings, and never is less waited for
 * than a busy host needs to be about it. */
#define PATIENCE_LOAD 2u
#define PATIENCE_LOAD_NS_MIN (100 * UNITS_NS_PER_MS)

void sched_init(struct sched *d, const struct sched_config *config, struct kv *kv,
		struct forward *forward, const struct kernel_ops *ops, struct engine_stats *stats,
		struct tell *tell)
{
	*d = (struct sched){.config = *config,
			    .kv = kv,
			    .forward = forward,
			    .ops = ops,
			    .stats = stats,
			    .tell = tell,
			    .topup_max = TOPUP_BLOCKS_MAX,
			    .patience_ns = config->patience_ns,
			    .nap_ns = POLL_NS};
	list_init(&d->queue);
	list_init(&d->active);
	list_init(&d->ended);
}

/* --- lists ---------------------------------------------------------------------------------- */

static struct seq *seq_of(struct list_link *l)
{
	return CONTAINER_OF(l, struct seq, link);
}

static void insert_by_age(struct list_link *head, struct seq *s)
{
	struct list_link *at = head;

	while (at->prev != head && seq_of(at->prev)->id > s->id)
		at = at->prev;
	list_insert_before(at, &s->link);
}

static void unlink_seq(struct sched *d, struct seq *s)
{
	list_remove(&s->link);
	if (s->state == SEQ_QUEUED)
		d->queue_count--;
	else if (s->state != SEQ_ENDED)
		d->active_count--;
}

static void enqueue(struct sched *d, struct seq *s)
{
	s->state = SEQ_QUEUED;
	insert_by_age(&d->queue, s);
	d->queue_count++;
}

void sched_add(struct sched *d, struct seq *s)
{
	bool behind =
		d->active_count + d->queue_count >= d->config.sequences_max || d->starving > 0;

	/* It has to wait for others: time to bring back what lies in a slower tier. */
	if (behind && s->args.use_cache)
		kv_prefetch(d->kv, s->tokens, s->token_count);
	enqueue(d, s);
}

/* Its lease is gone already. */
static void requeue(struct sched *d, struct seq *s, uint64_t now_ns)
{
	unlink_seq(d, s);
	s->asking = false;
	s->interrupted = s->interrupted || s->start_ns != 0;
	seq_drop_lease(s, now_ns);
	enqueue(d, s);
}

/* Gives the lease back, now or when its step has ended, and waits for another one. false: no room
 * to send, nothing happened. */
static bool give_way(struct sched *d, struct seq *s, uint64_t now_ns)
{
	if (s->flights > 0) {
		s->yields = true;
		s->starving = false;
		return true;
	}
	if (!seq_release(s, d->kv, d->config.page_tokens, true))
		return false;
	requeue(d, s, now_ns);
	return true;
}

/* --- endings -------------------------------------------------------------------------------- */

/* Frees an ended sequence as soon as no step needs its lease, and that is gone. */
static void bury(struct sched *d, struct seq *s)
{
	if (s->asking || s->flights > 0)
		return;
	if (s->lease && !seq_release(s, d->kv, d->config.page_tokens, true))
		return;
	unlink_seq(d, s);
	seq_free(s);
}

void sched_end(struct sched *d, struct seq *s, enum engine_finish finish, int status,
	       const char *error, uint64_t now_ns)
{
	struct engine_done done;

	tell_flush(d->tell, s);
	seq_describe(s, now_ns, &done);
	done.finish = finish;
	done.status = status;
	if (error)
		snprintf(done.error, sizeof(done.error), "%s", error);
	unlink_seq(d, s);
	s->state = SEQ_ENDED;
	list_push_back(&d->ended, &s->link);
	stats_done(d->stats, &done);
	if (d->config.ended)
		d->config.ended(d->config.ended_ctx);
	s->args.sink.done(s->args.sink.ctx, &done);
	if (s->asking)
		kv_cancel(d->kv, s->lease);
	bury(d, s);
}

static void refuse(struct sched *d, struct seq *s, int status, const char *error, uint64_t now_ns)
{
	log_info("sched", "request %llu refused: %s", (unsigned long long)s->id, error);
	sched_end(d, s, ENGINE_FINISH_ERROR, status, error, now_ns);
}

static void refuse_full(struct sched *d, struct seq *s, const struct kv_event *ev, uint64_t now_ns)
{
	char error[256];

	snprintf(error, sizeof(error),
		 "no KV memory: %llu pages needed, %llu free, %llu evictable; try again later, or "
		 "give kvd a larger --pool-bytes",
		 (unsigned long long)ev->needed_pages, (unsigned long long)ev->free_pages,
		 (unsigned long long)ev->evictable_pages);
	refuse(d, s, 503, error, now_ns);
}

static void refuse_errno(struct sched *d, struct seq *s, int r, uint64_t now_ns)
{
	char error[256];

	snprintf(error, sizeof(error), "kvd refused the request: %s", strerror(-r));
	refuse(d, s, 500, error, now_ns);
}

/* kvd's words, or those of the device that cannot reach kvd's pages. */
static void refuse_event(struct sched *d, struct seq *s, const struct kv_event *ev, uint64_t now_ns)
{
	char error[256];

	if (!ev->import) {
		refuse_errno(d, s, ev->result, now_ns);
		return;
	}
	snprintf(error, sizeof(error), "the KV pages cannot be reached: %s", ev->import);
	refuse(d, s, 500, error, now_ns);
}

/* A stream that has grown beyond what kvd gives ends as one that fills its context does. */
static void end_too_big(struct sched *d, struct seq *s, uint64_t now_ns)
{
	char error[256];

	if (seq_generated(s) > 0) {
		log_info("sched", "request %llu ends after %u tokens: kvd lends no more pages",
			 (unsigned long long)s->id, s->token_count);
		sched_end(d, s, ENGINE_FINISH_LENGTH, 0, NULL, now_ns);
		return;
	}
	snprintf(error, sizeof(error),
		 "%u tokens need more KV memory than kvd lets one engine have; send a shorter "
		 "prompt, or give kvd a larger --pool-bytes or --session-share",
		 s->token_count);
	refuse(d, s, 400, error, now_ns);
}

/* --- leases --------------------------------------------------------------------------------- */

static void lease_came(struct sched *d, struct seq *s, uint64_t now_ns)
{
	uint32_t decode_blocks;

	CRASH_POINT("after_lease");
	s->asking = false;
	s->state = SEQ_FOLLOWING;
	s->promised_blocks = seq_promise(s, d->config.page_tokens, &decode_blocks);
	s->progress_ns = now_ns;
}

static void acquire_ended(struct sched *d, struct seq *s, const struct kv_event *ev,
			  uint64_t now_ns)
{
	if (ev->result == KV_OK) {
		lease_came(d, s, now_ns);
		return;
	}
	s->lease = NULL;
	s->asking = false;
	if (ev->result == KV_FULL && !(s->interrupted && d->active_count > 1)) {
		refuse_full(d, s, ev, now_ns);
	} else if (ev->result == -E2BIG) {
		end_too_big(d, s, now_ns);
	} else if (ev->result == KV_DRAINING) {
		refuse(d, s, 503, "kvd is being drained and takes no new work; try again later",
		       now_ns);
	} else if (ev->result < 0 && ev->result != -ECANCELED) {
		refuse_event(d, s, ev, now_ns);
	} else {
		d->admit_after_ns = now_ns + RETRY_NS;
		requeue(d, s, now_ns);
	}
}

static void extend_ended(struct sched *d, struct seq *s, const struct kv_event *ev, uint64_t now_ns)
{
	uint32_t known = s->known_blocks;

	s->extending = false;
	if (ev->result == KV_OK) {
		s->barren = seq_known_blocks(s) > known ? 0 : s->barren + s->fetching;
		return;
	}
	if (ev->result == KV_GONE)
		return;
	if (ev->result < 0)
		refuse_event(d, s, ev, now_ns);
	else
		(void)give_way(d, s, now_ns);
}

static void lease_event(struct sched *d, const struct kv_event *ev, uint64_t now_ns)
{
	struct seq *s = ev->owner;

	if (s->state == SEQ_ENDED) {
		if (s->asking && ev->result != KV_OK)
			s->lease = NULL;
		s->asking = false;
		bury(d, s);
	} else if (s->state == SEQ_ASKING) {
		acquire_ended(d, s, ev, now_ns);
	} else if (s->extending) {
		/* Not so when it was preempted by an event of the same batch. */
		extend_ended(d, s, ev, now_ns);
	}
}

static void extend(struct sched *d, struct seq *s, enum kv_extend_kind kind)
{
	if (s->barren > BARREN_MAX)
		return;
	if (kv_extend(d->kv, s->lease, kind, d->config.extend_wait_ms) != KV_OK)
		return;
	s->extending = true;
	s->fetching = kind == KV_EXTEND_PAGES;
}

/* --- a new daemon ----------------------------------------------------------------------------- */

/* No step is under way. */
static void daemon_back(struct sched *d, uint64_t now_ns)
{
	LIST_FOR_EACH_SAFE (l, next, &d->active) {
		struct seq *s = seq_of(l);

		s->lease = NULL;
		requeue(d, s, now_ns);
	}
	LIST_FOR_EACH_SAFE (l, next, &d->ended) {
		seq_of(l)->lease = NULL;
		seq_of(l)->asking = false;
		bury(d, seq_of(l));
	}
	d->lost_ns = 0;
	d->topping = false;
	d->topup_max = TOPUP_BLOCKS_MAX;
	d->starving = 0;
	d->admit_after_ns = 0;
	d->topup_after_ns = 0;
}

/* --- the magazine --------------------------------------------------------------------------- */

static struct seq *youngest(struct sched *d)
{
	for (struct list_link *l = d->active.prev; l != &d->active; l = l->prev) {
		if (seq_of(l)->state != SEQ_ASKING && !seq_of(l)->yields)
			return seq_of(l);
	}
	return NULL;
}

/*
 * Takes back ACQUIREs that wait for memory: they would get what a preempted sequence gives up. They
 * come again when nobody starves. false: there were none.
 */
static bool withdraw(struct sched *d)
{
	bool any = false;

	LIST_FOR_EACH (l, &d->active) {
		if (seq_of(l)->state != SEQ_ASKING)
			continue;
		kv_cancel(d->kv, seq_of(l)->lease);
		any = true;
	}
	return any;
}

/*
 * The youngest give way. Where memory lacks, the others get theirs. Where only the magazine was at
 * its ceiling, those that gave way find all they had with their next lease, for a tail's copy and
 * a row. Half as many as starve, so that a crowd that reaches its blocks' ends at once needs few
 * turns.
 */
static void preempt(struct sched *d, uint64_t now_ns)
{
	for (uint32_t i = 0; i < (d->starving + 1) / 2; i++) {
		struct seq *s = youngest(d);

		if (!s || !give_way(d, s, now_ns))
			return;
		log_debug("sched", "request %llu gives its pages to older ones",
			  (unsigned long long)s->id);
		d->stats->preemptions++;
	}
}

static void topup_refused(struct sched *d, uint64_t now_ns)
{
	if (d->topup_blocks > 1)
		d->topup_max = d->topup_blocks / 2;
	else if (d->starving == 0)
		d->topup_after_ns = now_ns + POLL_NS;
	else if (!withdraw(d))
		preempt(d, now_ns);
}

static void topup_ended(struct sched *d, const struct kv_event *ev, uint64_t now_ns)
{
	CRASH_POINT("after_topup");
	d->topping = false;
	if (ev->result == KV_OK)
		d->topup_max = BITS_MIN(2 * d->topup_max, TOPUP_BLOCKS_MAX);
	else if (ev->result == KV_FULL || ev->result == -E2BIG)
		topup_refused(d, now_ns);
	else
		d->topup_after_ns = now_ns + RETRY_NS;
}

/* Asks without waiting: whether to wait or to preempt is decided here. */
static void topup(struct sched *d, uint32_t wanted, uint64_t now_ns)
{
	uint32_t have = kv_magazine(d->kv);

	if (d->topping || d->lost_ns || wanted <= have || now_ns < d->topup_after_ns)
		return;
	CRASH_POINT("before_topup");
	d->topup_blocks = BITS_MIN(wanted - have, d->topup_max);
	if (kv_topup(d->kv, d->topup_blocks, 0) == KV_OK)
		d->topping = true;
}

/* --- one active sequence ---------------------------------------------------------------------- */

static void copy_tail(struct sched *d, struct seq *s, uint32_t block)
{
	uint32_t count;
	uint64_t source = kv_tail(s->lease);
	const uint64_t *pages = kv_pages(s->lease, &count);
	uint64_t bytes = kvd_layout_page_bytes(forward_layout(d->forward));

	ASSERT(source && block < count && pages[block]);
	d->ops->page_copy(forward_ctx(d->forward), pages[block], source, bytes);
	s->tail_bytes_copied += bytes;
	CRASH_POINT("after_tail_copy");
}

/* Everything below build_from is readable: fetch the handles, copy the tail, start. */
static void start(struct sched *d, struct seq *s, const struct kv_lease *lease, uint64_t now_ns)
{
	uint32_t pt = d->config.page_tokens;
	uint32_t needed = lease->build_from / pt + (lease->tail_tokens > 0);

	if (s->barren > BARREN_MAX) {
		refuse(d, s, 500, "kvd promised KV pages and did not hand them out", now_ns);
		return;
	}
	if (seq_known_blocks(s) < needed) {
		extend(d, s, KV_EXTEND_PAGES);
		return;
	}
	if (lease->tail_tokens > 0)
		copy_tail(d, s, lease->build_from / pt);
	seq_start(s, lease->build_from + lease->tail_tokens, pt, now_ns);
}

/* Until when it waits for whom it follows. */
static uint64_t patience_end_ns(const struct sched *d, const struct seq *s,
				const struct kv_lease *lease)
{
	uint64_t end_ns = s->progress_ns + d->patience_ns;

	if (!lease->loads || d->token_ns == 0)
		return end_ns;
	uint64_t tokens = lease->build_from - s->follow_from;
	uint64_t load_ns = BITS_MAX(PATIENCE_LOAD_NS_MIN, PATIENCE_LOAD * tokens * d->token_ns);

	return BITS_MIN(end_ns, s->follow_ns + load_ns);
}

/* A load that another sequence took over is no longer what is followed: that is asked first. */
static void lose_patience(struct sched *d, struct seq *s, const struct kv_lease *lease,
			  uint64_t now_ns)
{
	bool ask = lease->loads && s->asked_takes != d->takes + 1;

	extend(d, s, ask ? KV_EXTEND_ANSWER : KV_EXTEND_TAKE);
	if (!s->extending)
		return;
	if (ask) {
		s->asked_takes = d->takes + 1;
		return;
	}
	s->progress_ns = now_ns;
	d->takes += lease->loads;
}

static void follow(struct sched *d, struct seq *s, const struct kv_lease *lease, uint64_t now_ns)
{
	if (lease->ready_tokens >= lease->build_from) {
		start(d, s, lease, now_ns);
		return;
	}
	if (s->follow_ns == 0) {
		s->follow_ns = now_ns;
		s->follow_from = lease->ready_tokens;
	}
	/* Who asked, and does not wait for a load, has found somebody who computes. */
	bool found = s->asked_takes > 0 && !lease->loads;

	if (found)
		s->asked_takes = 0;
	if (lease->ready_tokens > s->ready_seen || found) {
		s->ready_seen = lease->ready_tokens;
		s->progress_ns = now_ns;
	}
	/* A leader of our own needs no watching: it runs in this very loop, or lets go. */
	if (lease->follows_own)
		return;
	uint64_t end_ns = patience_end_ns(d, s, lease);

	if (now_ns >= end_ns)
		lose_patience(d, s, lease, now_ns);
	else
		d->nap_ns = BITS_MIN(d->nap_ns, end_ns - now_ns);
}

/* Sees to it that the next rows have pages. Returns blocks that the magazine should hold for it. */
static uint32_t feed(struct sched *d, struct seq *s, const struct kv_lease *lease)
{
	uint32_t pt = d->config.page_tokens;
	uint32_t known = seq_known_blocks(s);
	uint32_t done = seq_done_soon(s), count = seq_count_soon(s);
	uint64_t covered = (uint64_t)known * pt;
	uint64_t soon = BITS_MIN((uint64_t)count, done + 2ull * d->config.chunk_tokens);

	s->starving = false;
	/* An EXTEND that brings nothing says that there is no further promise. */
	if (s->barren > 0 && lease->block_count == known)
		s->promised_blocks = BITS_MIN(s->promised_blocks, known);
	if (known < s->promised_blocks || lease->block_count > known) {
		if (covered < BITS_MAX(soon, done + 1ull))
			extend(d, s, KV_EXTEND_PAGES);
		return 0;
	}
	if (covered <= done && done < count && count < s->token_max) {
		s->starving = kv_bind(d->kv, s->lease) != KV_OK;
		CRASH_POINT("after_bind");
		return s->starving ? 1 : 0;
	}
	return s->token_max - 1 > covered && covered <= done + AHEAD_TOKENS ? 1 : 0;
}

static uint32_t tend(struct sched *d, struct seq *s, uint64_t now_ns)
{
	struct kv_lease lease;

	kv_lease(s->lease, &lease);
	if (s->yields || lease.call == KV_LEASE_REVOKED) {
		(void)give_way(d, s, now_ns);
		return 0;
	}
	if (s->extending)
		return 0;
	if (lease.call == KV_LEASE_CALLS) {
		extend(d, s, KV_EXTEND_ANSWER);
		return 0;
	}
	if (s->state == SEQ_RUNNING)
		return feed(d, s, &lease);
	follow(d, s, &lease, now_ns);
	return 0;
}

static void tend_all(struct sched *d, uint64_t now_ns)
{
	uint32_t wanted = 0, blocks = 0;

	d->starving = 0;
	d->nap_ns = POLL_NS;
	LIST_FOR_EACH_SAFE (l, next, &d->active) {
		struct seq *s = seq_of(l);

		if (s->state == SEQ_ASKING)
			continue;
		blocks += s->known_blocks;
		wanted += tend(d, s, now_ns);
	}
	LIST_FOR_EACH (l, &d->active)
		d->starving += seq_of(l)->starving;
	d->stats->leased_blocks = blocks;
	topup(d, wanted, now_ns);
}

/* --- admission -------------------------------------------------------------------------------- */

static int ask(struct sched *d, struct seq *s)
{
	struct kv_acquire a = {.tokens = s->tokens,
			       .token_count = s->token_count,
			       .deadline_ms = d->config.acquire_wait_ms,
			       .cold = !s->args.use_cache,
			       .owner = s};

	(void)seq_promise(s, d->config.page_tokens, &a.decode_blocks);
	CRASH_POINT("before_acquire");
	int r = kv_acquire(d->kv, &a, &s->lease);

	CRASH_POINT("after_acquire");
	return r;
}

static void admit(struct sched *d, uint64_t now_ns)
{
	while (!list_empty(&d->queue) && d->active_count < d->config.sequences_max &&
	       d->starving == 0 && now_ns >= d->admit_after_ns) {
		struct seq *s = seq_of(d->queue.next);
		int r = seq_reserve(s);

		if (r == 0)
			r = ask(d, s);
		if (r == KV_AGAIN || r == KV_GONE)
			return;
		if (r == -E2BIG) {
			end_too_big(d, s, now_ns);
		} else if (r != KV_OK) {
			refuse_errno(d, s, r, now_ns);
		} else {
			unlink_seq(d, s);
			s->state = SEQ_ASKING;
			s->asking = true;
			insert_by_age(&d->active, s);
			d->active_count++;
		}
	}
}

/* --- what is due --------------------------------------------------------------------------------
 */

static void end_cancelled(struct sched *d, struct list_link *head, uint64_t now_ns)
{
	LIST_FOR_EACH_SAFE (l, next, head) {
		struct seq *s = seq_of(l);

		/* Partner: the store in engine_cancel(). */
		if (!atomic_load_acquire(&s->cancelled))
			continue;
		sched_end(d, s,
			  atomic_load_relaxed(&s->satisfied) ? ENGINE_FINISH_STOP
							     : ENGINE_FINISH_CANCELLED,
			  0, NULL, now_ns);
	}
}

static bool waited_enough(const struct sched *d, uint64_t since_ns, uint64_t now_ns)
{
	return now_ns - BITS_MAX(since_ns, d->lost_ns) >= d->config.kvd_wait_ns;
}

/* kvd is gone: those that cannot go on without it wait for so long and no longer. */
static void expire(struct sched *d, uint64_t now_ns)
{
	static const char error[] = "kvd is gone and has not come back in time; start it, and try "
				    "again";

	LIST_FOR_EACH_SAFE (l, next, &d->queue) {
		if (waited_enough(d, seq_of(l)->queued_ns, now_ns))
			refuse(d, seq_of(l), 503, error, now_ns);
	}
	LIST_FOR_EACH_SAFE (l, next, &d->active) {
		struct seq *s = seq_of(l);
		bool stuck = s->flights == 0 && (s->state != SEQ_RUNNING || s->starving ||
						 seq_rows_ready(s, d->config.page_tokens) == 0);

		if (stuck && waited_enough(d, d->lost_ns, now_ns))
			refuse(d, s, 503, error, now_ns);
	}
}

void sched_event(struct sched *d, const struct kv_event *ev, uint64_t now_ns)
{
	switch (ev->kind) {
	case KV_EV_LEASE:
		lease_event(d, ev, now_ns);
		break;
	case KV_EV_TOPUP:
		topup_ended(d, ev, now_ns);
		break;
	case KV_EV_LOST:
		d->lost_ns = now_ns;
		d->topping = false;
		break;
	case KV_EV_BACK:
		daemon_back(d, now_ns);
		break;
	}
}

void sched_prepare(struct sched *d, uint64_t now_ns)
{
	end_cancelled(d, &d->queue, now_ns);
	LIST_FOR_EACH_SAFE (l, next, &d->ended)
		bury(d, seq_of(l));
	if (!d->lost_ns)
		admit(d, now_ns);
}

void sched_tick(struct sched *d, uint64_t now_ns)
{
	end_cancelled(d, &d->active, now_ns);
	tend_all(d, now_ns);
	sched_prepare(d, now_ns);
	if (d->lost_ns)
		expire(d, now_ns);
	if (d->active_count == 0)
		kv_return_all(d->kv);
}

void sched_note_step(struct sched *d, uint32_t full_step_tokens, uint64_t full_step_ns)
{
	d->token_ns = BITS_MAX((uint64_t)1, full_step_ns / full_step_tokens);
	d->patience_ns = BITS_MAX(d->config.patience_ns, PATIENCE_STEPS * full_step_ns);
}

uint64_t sched_timeout_ns(const struct sched *d)
{
	if (d->lost_ns || !list_empty(&d->ended))
		return RETRY_NS;
	if (d->active_count == 0 && d->queue_count == 0)
		return UINT64_MAX;
	/* Replies and lease changes end the sleep; this is for patience and for retries. */
	return d->starving || d->admit_after_ns ? RETRY_NS : d->nap_ns;
}

void sched_fini(struct sched *d, const char *failure, uint64_t now_ns)
{
	enum engine_finish finish = failure ? ENGINE_FINISH_ERROR : ENGINE_FINISH_CANCELLED;
	int status = failure ? 500 : 0;

	LIST_FOR_EACH_SAFE (l, next, &d->queue)
		sched_end(d, seq_of(l), finish, status, failure, now_ns);
	LIST_FOR_EACH_SAFE (l, next, &d->active)
		sched_end(d, seq_of(l), finish, status, failure, now_ns);
	/* What could not be sent ends with the connection. */
	LIST_FOR_EACH_SAFE (l, next, &d->ended) {
		seq_of(l)->lease = NULL;
		seq_of(l)->asking = false;
		bury(d, seq_of(l));
	}
}
