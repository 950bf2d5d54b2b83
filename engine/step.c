/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Continuous batching. Each step carries one row of every sequence that generates, then chunks of
 * prompts under the budget of rows: cached tokens are no rows and cost nothing. Sequences join and
 * leave at any step.
 *
 * Among prompts the one with the fewest rows to go comes first, which is the longest cached prefix
 * first; every step of age counts as a chunk less, so that a long prompt is overtaken only by those
 * that come while it could have been computed alone. Chunks end at page boundaries where they can:
 * such a page is sealed, and shared, at once.
 *
 * The order of a step: choose, compute and sample, seal what is complete, note the tokens; clients
 * are told of them when the next step has been started. What the batch looks like changes no bit of
 * any sequence (kernels.h), so all of this is policy only.
 *
 * On an asynchronous device the next step is chosen and submitted while one computes, so that the
 * device never waits for the host. A row whose token that step draws takes it on the device
 * (KERNEL_TOKEN_DRAWN). That the token ends its sequence is learnt too late: then the row was
 * computed for nothing, and all that came of it is dropped (wasted()). It has written one token
 * into pages of the sequence's own lease, behind all that is sealed or kept; the lease goes when
 * the row's step has ended (sched.c). What ends by its length is known before, and wastes nothing.
 *
 * Before a step whose logits the host must read no other may have been submitted: step_overlap().
 */
#include "engine/step.h"
#include "base/assert.h"
#include "base/bits.h"
#include "base/units.h"
#include "engine/crash.h"
#include "engine/sample.h"
#include "engine/stats.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Rows of one prompt and step whose log probabilities can be asked for. */
#define ECHO_ROWS 32u
/* Prompt rows in a step that make its duration a measure of prefill speed. */
#define RATE_ROWS_MIN 64u
#define FIRST_TOKEN_PAUSE_NS (100 * UNITS_NS_PER_US)
#define STEP_FLIGHTS 2u
#define RATE_PERIOD_NS (5 * UNITS_NS_PER_S)

/* A row whose logits are wanted. */
struct sampled {
	struct seq *s;
	uint32_t position; /* of the token that the row predicts */
};

/* One step, from the choice of its rows to their results. */
struct flight {
	uint32_t rows;
	uint32_t seq_count;
	uint32_t sampled_count;
	uint32_t prompt_rows;
	bool echoing; /* one prompt's log probabilities a step */
	bool viewed;  /* the host reads logits */
	uint64_t from_ns;

	uint32_t *tokens;		     /* [batch_tokens] */
	struct kernel_seq *seqs;	     /* [sequences_max] */
	struct seq **owner;		     /* [sequences_max]: whose rows */
	uint32_t *sampled_rows;		     /* [sampled_max] */
	struct sampled *sampled;	     /* [sampled_max] */
	struct kernel_sample_params *params; /* [sampled_max] */
	uint32_t *drawn;		     /* [sampled_max] */
	float *logprobs;		     /* [sampled_max] */
};

struct step {
	struct step_limits limits;
	uint32_t sampled_max;
	struct flight flights[STEP_FLIGHTS];
	uint32_t next; /* of flights: the one to be started */
	uint32_t under_way;
	struct seq **prompts; /* [sequences_max]: candidates, in order */

	struct tell words;
	uint64_t landed_ns; /* when the last step ended */
	double rate;	    /* prefill, tokens per second, smoothed */
	uint64_t rate_sent_ns;
};

uint32_t step_sampled_max(uint32_t sequences_max)
{
	return sequences_max + ECHO_ROWS;
}

size_t step_bytes(const struct step_limits *l)
{
	const struct step *t = NULL;
	const struct flight *f = NULL;
	size_t per_seq = sizeof(*f->seqs) + sizeof(*f->owner);
	size_t per_row = sizeof(*f->sampled_rows) + sizeof(*f->sampled) + sizeof(*f->params) +
			 sizeof(*f->drawn) + sizeof(*f->logprobs);
	size_t flight = l->batch_tokens * sizeof(*f->tokens) + l->sequences_max * per_seq +
			step_sampled_max(l->sequences_max) * per_row;

	return sizeof(*t) + STEP_FLIGHTS * flight + l->sequences_max * sizeof(*t->prompts) +
	       step_sampled_max(l->sequences_max) * sizeof(*t->words.word);
}

static int flight_init(struct flight *f, const struct step_limits *l)
{
	uint32_t sampled_max = step_sampled_max(l->sequences_max);

	f->tokens = calloc(l->batch_tokens, sizeof(*f->tokens));
	f->seqs = calloc(l->sequences_max, sizeof(*f->seqs));
	f->owner = calloc(l->sequences_max, sizeof(*f->owner));
	f->sampled_rows = calloc(sampled_max, sizeof(*f->sampled_rows));
	f->sampled = calloc(sampled_max, sizeof(*f->sampled));
	f->params = calloc(sampled_max, sizeof(*f->params));
	f->drawn = calloc(sampled_max, sizeof(*f->drawn));
	f->logprobs = calloc(sampled_max, sizeof(*f->logprobs));
	return f->tokens && f->seqs && f->owner && f->sampled_rows && f->sampled && f->params &&
			       f->drawn && f->logprobs
		       ? 0
		       : -ENOMEM;
}

static void flight_fini(struct flight *f)
{
	free(f->tokens);
	free(f->seqs);
	free(f->owner);
	free(f->sampled_rows);
	free(f->sampled);
	free(f->params);
	free(f->drawn);
	free(f->logprobs);
}

int step_new(const struct step_limits *l, struct step **out)
{
	struct step *t = calloc(1, sizeof(*t));
	int r;

	ASSERT(l->batch_tokens >= l->sequences_max);
	if (!t)
		return -ENOMEM;
	t->limits = *l;
	t->sampled_max = step_sampled_max(l->sequences_max);
	t->prompts = calloc(l->sequences_max, sizeof(*t->prompts));
	r = tell_init(&t->words, t->sampled_max);
	for (uint32_t i = 0; r == 0 && i < STEP_FLIGHTS; i++)
		r = flight_init(&t->flights[i], l);
	if (r < 0 || !t->prompts) {
		step_free(t);
		return -ENOMEM;
	}
	*out = t;
	return 0;
}

void step_free(struct step *t)
{
	if (!t)
		return;
	tell_fini(&t->words);
	for (uint32_t i = 0; i < STEP_FLIGHTS; i++)
		flight_fini(&t->flights[i]);
	free(t->prompts);
	free(t);
}

/* --- which rows ------------------------------------------------------------------------------- */

static bool echoes(const struct seq *s)
{
	return s->args.prompt_logprobs && s->echoed + 1 < s->prompt_count;
}

static void add_sampled(struct step *t, struct flight *f, struct seq *s, uint32_t row,
			uint32_t position)
{
	ASSERT(f->sampled_count < t->sampled_max);
	f->sampled_rows[f->sampled_count] = row;
	f->sampled[f->sampled_count++] = (struct sampled){s, position};
}

/* The row at position p predicts the token at p + 1: wanted for the prompt's log probabilities, and
 * where p is the last token there is. True: that one is among them. */
static bool add_wanted_logits(struct step *t, struct flight *f, struct seq *s, uint32_t rows,
			      uint32_t pos0)
{
	uint32_t count = seq_count_soon(s);

	for (uint32_t i = 0; i < rows; i++) {
		uint32_t next = pos0 + i + 1;
		bool echo = s->args.prompt_logprobs && next < s->prompt_count && next > s->echoed;

		if (echo || next == count)
			add_sampled(t, f, s, f->rows + i, next);
		f->viewed |= echo || (next == count && s->args.logprobs > 0);
	}
	return pos0 + rows == count;
}

static void add_tokens(struct flight *f, const struct seq *s, uint32_t rows, uint32_t pos0)
{
	for (uint32_t i = 0; i < rows; i++) {
		bool known = pos0 + i < s->token_count;

		ASSERT(known || (s->ahead_draws && pos0 + i == s->token_count));
		f->tokens[f->rows + i] =
			known ? s->tokens[pos0 + i] : KERNEL_TOKEN_DRAWN | s->ahead_draw;
	}
}

static void add_rows(struct step *t, struct flight *f, struct seq *s, uint32_t rows)
{
	uint32_t done = seq_done_soon(s), known;
	bool query_only = done >= seq_count_soon(s);
	uint32_t pos0 = query_only ? seq_count_soon(s) - 1 : done;
	struct kernel_seq k = {.row0 = f->rows,
			       .rows = rows,
			       .pos0 = pos0,
			       .query_only = query_only,
			       .pages = kv_pages(s->lease, &known)};

	ASSERT(f->rows + rows <= t->limits.batch_tokens);
	ASSERT(f->seq_count < t->limits.sequences_max);
	add_tokens(f, s, rows, pos0);
	bool draws = add_wanted_logits(t, f, s, rows, pos0);

	f->seqs[f->seq_count] = k;
	f->owner[f->seq_count++] = s;
	f->rows += rows;
	seq_depart(s, query_only ? 0 : rows, draws, f->sampled_count - 1);
}

/* The lower the sooner. */
static int64_t prompt_rank(const struct step *t, const struct seq *s)
{
	return (int64_t)seq_rows_wanted(s) - (int64_t)s->age_steps * t->limits.chunk_tokens;
}

static void add_prompt_candidate(struct step *t, struct seq *s, uint32_t count)
{
	int64_t rank = prompt_rank(t, s);
	uint32_t at = count;

	for (; at > 0 && prompt_rank(t, t->prompts[at - 1]) > rank; at--)
		t->prompts[at] = t->prompts[at - 1];
	t->prompts[at] = s;
}

static uint32_t chunk_rows(const struct step *t, const struct flight *f, struct seq *s,
			   uint32_t page_tokens)
{
	uint32_t rows = seq_rows_ready(s, page_tokens), from = seq_done_soon(s);
	uint32_t budget = BITS_MIN(t->limits.chunk_tokens, t->limits.batch_tokens - f->rows);

	if (echoes(s))
		budget = f->echoing ? 0 : BITS_MIN(budget, ECHO_ROWS);
	rows = BITS_MIN(rows, budget);
	uint32_t end = from + rows;
	uint32_t even_end = end - end % page_tokens;

	return end < seq_count_soon(s) && even_end > from ? even_end - from : rows;
}

static void add_prompts(struct step *t, struct flight *f, uint32_t count, uint32_t page_tokens)
{
	for (uint32_t i = 0; i < count; i++) {
		struct seq *s = t->prompts[i];
		uint32_t rows = chunk_rows(t, f, s, page_tokens);

		s->age_steps++;
		if (rows == 0)
			continue;
		f->echoing |= echoes(s);
		f->prompt_rows += rows;
		add_rows(t, f, s, rows);
	}
}

static void choose(struct step *t, struct flight *f, struct sched *d)
{
	uint32_t page_tokens = d->config.page_tokens, prompts = 0;

	f->rows = f->seq_count = f->sampled_count = f->prompt_rows = 0;
	f->echoing = f->viewed = false;
	LIST_FOR_EACH (l, &d->active) {
		struct seq *s = CONTAINER_OF(l, struct seq, link);

		if (s->state != SEQ_RUNNING || s->over || s->yields ||
		    seq_rows_ready(s, page_tokens) == 0)
			continue;
		if (seq_rows_wanted(s) == 1)
			add_rows(t, f, s, 1);
		else
			add_prompt_candidate(t, s, prompts++);
	}
	add_prompts(t, f, prompts, page_tokens);
}

/* --- what came of them --------------------------------------------------------------------------
 */

/* Its last token was drawn while this row was under way. */
static bool wasted(const struct seq *s)
{
	return s->over;
}

static void seal_all(struct flight *f, struct sched *d)
{
	for (uint32_t i = 0; i < f->seq_count; i++) {
		struct seq *s = f->owner[i];

		seq_land(s);
		if (wasted(s)) {
			d->stats->wasted_rows += f->seqs[i].rows;
			continue;
		}
		if (!f->seqs[i].query_only)
			s->done += f->seqs[i].rows;
		seq_seal(s, d->kv, d->config.page_tokens);
	}
}

static bool ends(const struct seq *s, uint32_t token)
{
	for (uint32_t i = 0; !s->args.ignore_end && i < s->args.end_count; i++) {
		if (s->args.end_tokens[i] == token)
			return true;
	}
	return false;
}

/* An answer that is too short yet cannot end with the token at `position`. */
static void forbid_ends(const struct seq *s, uint32_t position, struct kernel_sample_params *p)
{
	if (s->args.ignore_end || position - s->prompt_count >= s->args.min_tokens)
		return;
	p->banned_count = s->args.end_count;
	memcpy(p->banned, s->args.end_tokens, s->args.end_count * sizeof(*p->banned));
}

static void set_params(struct flight *f)
{
	const struct engine_sampling greedy = {.top_p = 1};

	for (uint32_t i = 0; i < f->sampled_count; i++) {
		const struct sampled *w = &f->sampled[i];
		bool echo = w->position < w->s->token_count;

		f->params[i] = sample_params(echo ? &greedy : &w->s->args.sampling, w->position);
		if (!echo)
			forbid_ends(w->s, w->position, &f->params[i]);
	}
}

/* Logits are read only for who asked: on a device they lie elsewhere, and the next step's follow.
 */
static struct tell_word *note_word(struct step *t, const struct flight *f, struct sched *d,
				   uint32_t i, uint32_t token)
{
	const struct sampled *w = &f->sampled[i];
	uint32_t top = w->s->args.logprobs;
	struct tell_word *word = tell_add(&t->words, w->s);
	struct engine_token *out = &word->token;

	out->token = token;
	out->position = w->position;
	out->logprob = f->logprobs[i];
	if (top > 0 || token != f->drawn[i]) {
		const float *logits = forward_logits(d->forward, i);
		float normaliser = sample_normaliser(logits, f->drawn[i], f->logprobs[i]);

		out->logprob = logits[token] - normaliser;
		if (top > 0)
			out->top_count =
				sample_top(logits, t->limits.vocab, normaliser, top, out->top);
	}
	return word;
}

static void note_times(struct sched *d, struct seq *s, uint64_t now_ns)
{
	if (s->last_token_ns)
		stats_observe(&d->stats->itl, now_ns - s->last_token_ns);
	else
		s->first_token_ns = now_ns;
	s->last_token_ns = now_ns;
	d->stats->generated_tokens++;
}

static void note_new(struct step *t, const struct flight *f, struct sched *d, uint32_t i,
		     uint64_t now_ns)
{
	struct seq *s = f->sampled[i].s;
	uint32_t token = f->drawn[i];

	ASSERT(s->token_count < s->token_room);
	s->tokens[s->token_count++] = token;
	note_times(d, s, now_ns);
	struct tell_word *word = note_word(t, f, d, i, token);
	bool stop = ends(s, token);

	s->over = word->ends = stop || s->token_count >= s->token_max;
	word->finish = stop ? ENGINE_FINISH_STOP : ENGINE_FINISH_LENGTH;
}

/* Who has ended meanwhile hears nothing more. */
static void note_all(struct step *t, const struct flight *f, struct sched *d, uint64_t now_ns)
{
	for (uint32_t i = 0; i < f->sampled_count; i++) {
		const struct sampled *w = &f->sampled[i];

		if (wasted(w->s) || w->s->state == SEQ_ENDED)
			continue;
		if (w->position < w->s->token_count) {
			note_word(t, f, d, i, w->s->tokens[w->position]);
			w->s->echoed = w->position;
		} else {
			note_new(t, f, d, i, now_ns);
		}
	}
}

/* A step that was submitted early began when the one before it ended. */
static void measure(struct step *t, const struct flight *f, struct sched *d, uint64_t now_ns)
{
	uint64_t from_ns = BITS_MAX(f->from_ns, t->landed_ns);

	t->landed_ns = now_ns;
	d->stats->steps++;
	d->stats->step_tokens += f->rows;
	if (f->prompt_rows < RATE_ROWS_MIN || now_ns <= from_ns)
		return;
	double rate = (double)f->rows * (double)UNITS_NS_PER_S / (double)(now_ns - from_ns);

	t->rate = t->rate > 0 ? 0.8 * t->rate + 0.2 * rate : rate;
	sched_note_step(
		d, t->limits.batch_tokens,
		(uint64_t)((double)t->limits.batch_tokens * (double)UNITS_NS_PER_S / t->rate));
	if (t->rate_sent_ns && now_ns - t->rate_sent_ns < RATE_PERIOD_NS)
		return;
	kv_rate(d->kv, (uint64_t)t->rate);
	t->rate_sent_ns = now_ns;
}

enum step_result step_start(struct step *t, struct sched *d)
{
	struct flight *f = &t->flights[t->next];

	ASSERT(t->under_way < STEP_FLIGHTS);
	f->from_ns = units_now_ns();
	choose(t, f, d);
	if (f->rows == 0)
		return STEP_IDLE;
	set_params(f);
	const struct kernel_batch b = {.tokens = f->tokens,
				       .drawn = t->flights[(t->next + 1) % STEP_FLIGHTS].drawn,
				       .rows = f->rows,
				       .seqs = f->seqs,
				       .seq_count = f->seq_count,
				       .sampled = f->sampled_rows,
				       .params = f->params,
				       .out_tokens = f->drawn,
				       .out_logprobs = f->logprobs,
				       .sampled_count = f->sampled_count};

	forward_submit(d->forward, &b);
	d->stats->early_steps += t->under_way;
	t->under_way++;
	t->next = (t->next + 1) % STEP_FLIGHTS;
	return STEP_STARTED;
}

/*
 * A first token's way to its client leads through threads that have slept. On a host whose cores
 * all compute, they would wait for the end of the next step.
 */
static void let_others_run(const struct sched *d)
{
	const struct timespec pause = {.tv_nsec = FIRST_TOKEN_PAUSE_NS};

	if (!d->ops->asynchronous)
		nanosleep(&pause, NULL);
}

bool step_tell(struct step *t, struct sched *d)
{
	struct tell_word w;
	bool told = false, first = false;

	while (tell_take(&t->words, &w)) {
		told = true;
		first |= w.token.position == w.s->prompt_count;
		w.s->args.sink.token(w.s->args.sink.ctx, &w.token);
		if (w.ends)
			sched_end(d, w.s, w.finish, 0, NULL, units_now_ns());
	}
	if (first)
		let_others_run(d);
	return told;
}

static int finish_oldest(struct step *t, struct sched *d)
{
	struct flight *f = &t->flights[(t->next + STEP_FLIGHTS - t->under_way) % STEP_FLIGHTS];
	int r = forward_wait(d->forward);
	uint64_t now_ns = units_now_ns();

	if (r < 0)
		return r;
	t->under_way--;
	if (f->prompt_rows > 0)
		CRASH_POINT("mid_prefill");
	else
		CRASH_POINT("mid_decode");
	measure(t, f, d, now_ns);
	seal_all(f, d);
	note_all(t, f, d, now_ns);
	/* Reading a row of logits may have failed. */
	return forward_check(d->forward);
}

int step_finish(struct step *t, struct sched *d, uint32_t left)
{
	int r = 0;

	while (r == 0 && t->under_way > left)
		r = finish_oldest(t, d);
	return r;
}

uint32_t step_overlap(const struct step *t, const struct sched *d)
{
	const struct flight *last = &t->flights[(t->next + STEP_FLIGHTS - 1) % STEP_FLIGHTS];

	return t->limits.overlap && !last->viewed && !d->lost_ns;
}

uint32_t step_under_way(const struct step *t)
{
	return t->under_way;
}

void step_forget(struct step *t)
{
	for (; t->under_way > 0; t->under_way--) {
		struct flight *f =
			&t->flights[(t->next + STEP_FLIGHTS - t->under_way) % STEP_FLIGHTS];

		for (uint32_t i = 0; i < f->seq_count; i++)
			seq_land(f->owner[i]);
	}
}

struct tell *step_words(struct step *t)
{
	return &t->words;
}
