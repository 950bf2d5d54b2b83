/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One sequence's arithmetic: which tokens have pages, which rows come next, what to seal and to
 * keep. Holds no policy (sched.c) and computes nothing (step.c). All on the step loop's thread,
 * but for seq_new() and the atomic flags.
 *
 * Invariants: sealed_blocks * page_tokens <= done <= token_count; a RUNNING sequence has
 * done >= token_count - 1 exactly when its next row is its last.
 *
 * While a step is under way the next one is chosen: what it will have brought counts as there
 * (seq_done_soon(), seq_count_soon()), but for the drawn token itself. Only a step that was seen to
 * end moves `done`, and so what is sealed and kept.
 */
#include "engine/seq.h"
#include "base/assert.h"
#include "base/atomic.h"
#include "base/bits.h"
#include "engine/crash.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A shorter tail is never found again: kvd copies only runs of at least so many tokens. */
#define TAIL_TOKENS_MIN 8u
/* Promised beyond the tokens there are; further ones come from the magazine. */
#define DECODE_BLOCKS 1u
#define DECODE_BLOCKS_COLD 16u

struct seq *seq_new(const struct engine_submit_args *args, uint32_t context, uint64_t now_ns)
{
	struct seq *s = calloc(1, sizeof(*s));

	ASSERT(args->token_count > 0 && args->token_count < context);
	if (!s)
		return NULL;
	s->tokens = malloc(args->token_count * sizeof(*s->tokens));
	if (!s->tokens) {
		free(s);
		return NULL;
	}
	memcpy(s->tokens, args->tokens, args->token_count * sizeof(*s->tokens));
	list_init(&s->link);
	s->args = *args;
	s->args.tokens = NULL;
	/* Log probabilities of a prompt need its rows computed: what is cached has none. */
	s->args.use_cache = args->use_cache && !args->prompt_logprobs;
	s->token_room = args->token_count;
	s->token_count = args->token_count;
	s->prompt_count = args->token_count;
	uint32_t room = context - args->token_count;
	uint32_t more = args->max_tokens ? BITS_MIN(args->max_tokens, room) : room;
	s->token_max = args->token_count + more;
	s->submit_ns = now_ns;
	s->queued_ns = now_ns;
	return s;
}

void seq_free(struct seq *s)
{
	if (!s)
		return;
	ASSERT(!s->lease && s->flights == 0);
	free(s->tokens);
	free(s);
}

int seq_reserve(struct seq *s)
{
	if (s->token_room >= s->token_max)
		return 0;
	uint32_t *grown = realloc(s->tokens, s->token_max * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	s->tokens = grown;
	s->token_room = s->token_max;
	return 0;
}

void seq_drop_lease(struct seq *s, uint64_t now_ns)
{
	ASSERT(s->flights == 0);
	s->lease = NULL;
	s->yields = false;
	s->done = 0;
	s->started = 0;
	s->barren = 0;
	s->known_blocks = 0;
	s->promised_blocks = 0;
	s->sealed_blocks = 0;
	s->ready_seen = 0;
	s->follow_ns = 0;
	s->asked_takes = 0;
	s->extending = false;
	s->starving = false;
	s->age_steps = 0;
	s->queued_ns = now_ns;
}

uint32_t seq_generated(const struct seq *s)
{
	return s->token_count - s->prompt_count;
}

uint32_t seq_done_soon(const struct seq *s)
{
	return s->done + s->ahead_rows;
}

uint32_t seq_count_soon(const struct seq *s)
{
	return s->token_count + s->ahead_draws;
}

void seq_depart(struct seq *s, uint32_t rows, bool draws, uint32_t draw)
{
	s->flights++;
	s->ahead_rows = rows;
	s->ahead_draws = draws;
	s->ahead_draw = draw;
}

void seq_land(struct seq *s)
{
	ASSERT(s->flights > 0);
	if (--s->flights > 0)
		return; /* what is ahead is the other's */
	s->ahead_rows = 0;
	s->ahead_draws = false;
}

uint32_t seq_rows_wanted(const struct seq *s)
{
	uint32_t done = seq_done_soon(s), count = seq_count_soon(s);

	return done < count ? count - done : 1;
}

uint32_t seq_known_blocks(struct seq *s)
{
	uint32_t count;
	const uint64_t *pages = kv_pages(s->lease, &count);

	while (s->known_blocks < count && pages[s->known_blocks])
		s->known_blocks++;
	return s->known_blocks;
}

uint32_t seq_rows_ready(struct seq *s, uint32_t page_tokens)
{
	uint64_t covered = (uint64_t)seq_known_blocks(s) * page_tokens;
	uint32_t done = seq_done_soon(s), count = seq_count_soon(s);

	if (s->ahead_draws && count >= s->token_max)
		return 0;
	if (done >= count)
		return covered >= count;
	return covered > done ? (uint32_t)BITS_MIN(covered, count) - done : 0;
}

uint32_t seq_promise(const struct seq *s, uint32_t page_tokens, uint32_t *out_decode_blocks)
{
	uint32_t now = (uint32_t)bits_div_ceil(s->token_count, page_tokens);
	/* The last token that is generated is never computed. */
	uint32_t end = (uint32_t)bits_div_ceil(s->token_max - 1, page_tokens);

	/* What publishes nothing would find nothing again, could it not go on. */
	uint32_t most = s->args.use_cache ? DECODE_BLOCKS : DECODE_BLOCKS_COLD;

	*out_decode_blocks = end > now ? BITS_MIN(end - now, most) : 0;
	return now + *out_decode_blocks;
}

void seq_start(struct seq *s, uint32_t from, uint32_t page_tokens, uint64_t now_ns)
{
	s->done = BITS_MIN(from, s->token_count);
	s->started = s->done;
	s->sealed_blocks = s->done / page_tokens;
	s->state = SEQ_RUNNING;
	if (s->start_ns)
		return;
	s->start_ns = now_ns;
	s->cached_tokens = s->done;
}

void seq_seal(struct seq *s, struct kv *kv, uint32_t page_tokens)
{
	uint32_t complete = s->done / page_tokens;
	struct kv_lease lease;

	if (!s->args.use_cache || complete <= s->sealed_blocks)
		return;
	kv_lease(s->lease, &lease);
	uint32_t end = complete * page_tokens;
	uint32_t more = end > lease.token_count ? end - lease.token_count : 0;

	CRASH_POINT("before_seal");
	if (kv_seal(kv, s->lease, s->sealed_blocks, complete - s->sealed_blocks,
		    s->tokens + lease.token_count, more) == KV_OK)
		s->sealed_blocks = complete;
	CRASH_POINT("after_seal");
}

bool seq_release(struct seq *s, struct kv *kv, uint32_t page_tokens, bool keep_tail)
{
	uint32_t tail = s->done % page_tokens;
	struct kv_lease lease;
	uint32_t more = 0;

	kv_lease(s->lease, &lease);
	/* A tail needs all before it sealed, holds something new, and ends where kvd's tokens end.
	 */
	if (!keep_tail || !s->args.use_cache || tail < TAIL_TOKENS_MIN || s->done <= s->started ||
	    s->done < lease.token_count || s->sealed_blocks < s->done / page_tokens)
		tail = 0;
	if (tail)
		more = s->done - lease.token_count;
	CRASH_POINT("before_release");
	int r = kv_release(kv, s->lease, tail, s->tokens + lease.token_count, more);

	if (r == KV_AGAIN)
		return false;
	CRASH_POINT("after_release");
	s->lease = NULL;
	return true;
}

void seq_describe(const struct seq *s, uint64_t now_ns, struct engine_done *out)
{
	memset(out, 0, sizeof(*out));
	out->prompt_tokens = s->prompt_count;
	out->completion_tokens = seq_generated(s);
	out->lookup_tokens = s->start_ns && s->args.use_cache ? s->prompt_count : 0;
	out->cached_tokens = s->cached_tokens;
	out->tail_bytes_copied = s->tail_bytes_copied;
	out->queue_ns = (s->start_ns ? s->start_ns : now_ns) - s->submit_ns;
	if (s->first_token_ns) {
		out->prefill_ns = s->first_token_ns - s->start_ns;
		out->ttft_ns = s->first_token_ns - s->submit_ns;
	}
	out->total_ns = now_ns - s->submit_ns;
}
