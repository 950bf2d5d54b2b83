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
#define RATE_PERIOD_NS (5 * UNITS_NS_PER_S)

/* A row whose logits are wanted. */
struct sampled {
	struct seq *s;
	uint32_t position; /* of the token that the row predicts */
};

struct step {
	struct step_limits limits;
	uint32_t sampled_max;

	uint32_t rows;
	uint32_t seq_count;
	uint32_t sampled_count;
	uint32_t prompt_rows;
	bool echoing; /* one prompt's log probabilities a step */

	uint32_t *tokens;		     /* [batch_tokens] */
	struct kernel_seq *seqs;	     /* [sequences_max] */
	struct seq **owner;		     /* [sequences_max]: whose rows */
	struct seq **prompts;		     /* [sequences_max]: candidates, in order */
	uint32_t *sampled_rows;		     /* [sampled_max] */
	struct sampled *sampled;	     /* [sampled_max] */
	struct kernel_sample_params *params; /* [sampled_max] */
	uint32_t *drawn;		     /* [sampled_max] */
	float *logprobs;		     /* [sampled_max] */

	struct tell words;
	uint64_t from_ns;
	double rate; /* prefill, tokens per second, smoothed */
	uint64_t rate_sent_ns;
};

uint32_t step_sampled_max(uint32_t sequences_max)
{
	return sequences_max + ECHO_ROWS;
}

size_t step_bytes(const struct step_limits *l)
{
	const struct step *t = NULL;
	size_t per_seq = sizeof(*t->seqs) + sizeof(*t->owner) + sizeof(*t->prompts);
	size_t per_row = sizeof(*t->sampled_rows) + sizeof(*t->sampled) + sizeof(*t->params) +
			 sizeof(*t->drawn) + sizeof(*t->logprobs) + sizeof(*t->words.word);

	return sizeof(*t) + l->batch_tokens * sizeof(*t->tokens) + l->sequences_max * per_seq +
	       step_sampled_max(l->sequences_max) * per_row;
}

int step_new(const struct step_limits *l, struct step **out)
{
	struct step *t = calloc(1, sizeof(*t));

	ASSERT(l->batch_tokens >= l->sequences_max);
	if (!t)
		return -ENOMEM;
	t->limits = *l;
	t->sampled_max = step_sampled_max(l->sequences_max);
	t->tokens = calloc(l->batch_tokens, sizeof(*t->tokens));
	t->seqs = calloc(l->sequences_max, sizeof(*t->seqs));
	t->owner = calloc(l->sequences_max, sizeof(*t->owner));
	t->prompts = calloc(l->sequences_max, sizeof(*t->prompts));
	t->sampled_rows = calloc(t->sampled_max, sizeof(*t->sampled_rows));
	t->sampled = calloc(t->sampled_max, sizeof(*t->sampled));
	t->params = calloc(t->sampled_max, sizeof(*t->params));
	t->drawn = calloc(t->sampled_max, sizeof(*t->drawn));
	t->logprobs = calloc(t->sampled_max, sizeof(*t->logprobs));
	if (tell_init(&t->words, t->sampled_max) < 0 || !t->tokens || !t->seqs || !t->owner ||
	    !t->prompts || !t->sampled_rows || !t->sampled || !t->params || !t->drawn ||
	    !t->logprobs) {
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
	free(t->tokens);
	free(t->seqs);
	free(t->owner);
	free(t->prompts);
	free(t->sampled_rows);
	free(t->sampled);
	free(t->params);
	free(t->drawn);
	free(t->logprobs);
	free(t);
}

/* --- which rows ------------------------------------------------------------------------------- */

static bool echoes(const struct seq *s)
{
	return s->args.prompt_logprobs && s->echoed + 1 < s->prompt_count;
}

static void add_sampled(struct step *t, struct seq *s, uint32_t row, uint32_t position)
{
	ASSERT(t->sampled_count < t->sampled_max);
	t->sampled_rows[t->sampled_count] = row;
	t->sampled[t->sampled_count++] = (struct sampled){s, position};
}

/* The row at position p predicts the token at p + 1: wanted for the prompt's log probabilities, and
 * where p is the last token there is. */
static void add_wanted_logits(struct step *t, struct seq *s, uint32_t row0, uint32_t rows,
			      uint32_t pos0)
{
	for (uint32_t i = 0; i < rows; i++) {
		uint32_t next = pos0 + i + 1;
		bool echo = s->args.prompt_logprobs && next < s->prompt_count && next > s->echoed;

		if (echo || next == s->token_count)
			add_sampled(t, s, row0 + i, next);
	}
}

static void add_rows(struct step *t, struct seq *s, uint32_t rows)
{
	bool query_only = s->done >= s->token_count;
	uint32_t pos0 = query_only ? s->token_count - 1 : s->done;
	uint32_t count;
	struct kernel_seq k = {.row0 = t->rows,
			       .rows = rows,
			       .pos0 = pos0,
			       .query_only = query_only,
			       .pages = kv_pages(s->lease, &count)};

	ASSERT(t->rows + rows <= t->limits.batch_tokens);
	ASSERT(t->seq_count < t->limits.sequences_max);
	memcpy(t->tokens + t->rows, s->tokens + pos0, rows * sizeof(*t->tokens));
	add_wanted_logits(t, s, t->rows, rows, pos0);
	t->seqs[t->seq_count] = k;
	t->owner[t->seq_count++] = s;
	t->rows += rows;
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

static uint32_t chunk_rows(const struct step *t, struct seq *s, uint32_t page_tokens)
{
	uint32_t rows = seq_rows_ready(s, page_tokens);
	uint32_t budget = BITS_MIN(t->limits.chunk_tokens, t->limits.batch_tokens - t->rows);

	if (echoes(s))
		budget = t->echoing ? 0 : BITS_MIN(budget, ECHO_ROWS);
	rows = BITS_MIN(rows, budget);
	uint32_t end = s->done + rows;
	uint32_t even_end = end - end % page_tokens;

	return end < s->token_count && even_end > s->done ? even_end - s->done : rows;
}

static void add_prompts(struct step *t, uint32_t count, uint32_t page_tokens)
{
	for (uint32_t i = 0; i < count; i++) {
		struct seq *s = t->prompts[i];
		uint32_t rows = chunk_rows(t, s, page_tokens);

		s->age_steps++;
		if (rows == 0)
			continue;
		t->echoing |= echoes(s);
		t->prompt_rows += rows;
		add_rows(t, s, rows);
	}
}

static void choose(struct step *t, struct sched *d)
{
	uint32_t page_tokens = d->config.page_tokens, prompts = 0;

	t->rows = t->seq_count = t->sampled_count = t->prompt_rows = 0;
	t->echoing = false;
	LIST_FOR_EACH (l, &d->active) {
		struct seq *s = CONTAINER_OF(l, struct seq, link);

		if (s->state != SEQ_RUNNING || s->over || seq_rows_ready(s, page_tokens) == 0)
			continue;
		if (seq_rows_wanted(s) == 1)
			add_rows(t, s, 1);
		else
			add_prompt_candidate(t, s, prompts++);
	}
	add_prompts(t, prompts, page_tokens);
}

/* --- what came of them --------------------------------------------------------------------------
 */

static void seal_all(struct step *t, struct sched *d)
{
	for (uint32_t i = 0; i < t->seq_count; i++) {
		struct seq *s = t->owner[i];

		if (!t->seqs[i].query_only)
			s->done += t->seqs[i].rows;
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

/* An answer that is too short yet cannot end. */
static void forbid_ends(const struct seq *s, struct kernel_sample_params *p)
{
	if (s->args.ignore_end || seq_generated(s) >= s->args.min_tokens)
		return;
	p->banned_count = s->args.end_count;
	memcpy(p->banned, s->args.end_tokens, s->args.end_count * sizeof(*p->banned));
}

static void set_params(struct step *t)
{
	const struct engine_sampling greedy = {.top_p = 1};

	for (uint32_t i = 0; i < t->sampled_count; i++) {
		const struct sampled *w = &t->sampled[i];
		bool echo = w->position < w->s->token_count;

		t->params[i] = sample_params(echo ? &greedy : &w->s->args.sampling, w->position);
		if (!echo)
			forbid_ends(w->s, &t->params[i]);
	}
}

/* Logits are read only for who asked: on a device they lie elsewhere, and the next step's follow.
 */
static struct tell_word *note_word(struct step *t, struct sched *d, uint32_t i, uint32_t token)
{
	const struct sampled *w = &t->sampled[i];
	uint32_t top = w->s->args.logprobs;
	struct tell_word *word = tell_add(&t->words, w->s);
	struct engine_token *out = &word->token;

	out->token = token;
	out->position = w->position;
	out->logprob = t->logprobs[i];
	if (top > 0 || token != t->drawn[i]) {
		const float *logits = forward_logits(d->forward, i);
		float normaliser = sample_normaliser(logits, t->drawn[i], t->logprobs[i]);

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

static void note_new(struct step *t, struct sched *d, uint32_t i, uint64_t now_ns)
{
	struct seq *s = t->sampled[i].s;
	uint32_t token = t->drawn[i];

	ASSERT(s->token_count < s->token_room);
	s->tokens[s->token_count++] = token;
	note_times(d, s, now_ns);
	struct tell_word *word = note_word(t, d, i, token);
	bool stop = ends(s, token);

	s->over = word->ends = stop || s->token_count >= s->token_max;
	word->finish = stop ? ENGINE_FINISH_STOP : ENGINE_FINISH_LENGTH;
}

static void note_all(struct step *t, struct sched *d, uint64_t now_ns)
{
	for (uint32_t i = 0; i < t->sampled_count; i++) {
		const struct sampled *w = &t->sampled[i];

		if (w->position < w->s->token_count) {
			note_word(t, d, i, w->s->tokens[w->position]);
			w->s->echoed = w->position;
		} else {
			note_new(t, d, i, now_ns);
		}
	}
}

static void measure(struct step *t, struct sched *d, uint64_t from_ns, uint64_t now_ns)
{
	d->stats->steps++;
	d->stats->step_tokens += t->rows;
	if (t->prompt_rows < RATE_ROWS_MIN || now_ns == from_ns)
		return;
	double rate = (double)t->rows * (double)UNITS_NS_PER_S / (double)(now_ns - from_ns);

	t->rate = t->rate > 0 ? 0.8 * t->rate + 0.2 * rate : rate;
	sched_note_step(
		d, (uint64_t)((double)t->limits.batch_tokens * (double)UNITS_NS_PER_S / t->rate));
	if (t->rate_sent_ns && now_ns - t->rate_sent_ns < RATE_PERIOD_NS)
		return;
	kv_rate(d->kv, (uint64_t)t->rate);
	t->rate_sent_ns = now_ns;
}

enum step_result step_start(struct step *t, struct sched *d)
{
	t->from_ns = units_now_ns();
	choose(t, d);
	if (t->rows == 0)
		return STEP_IDLE;
	set_params(t);
	const struct kernel_batch b = {.tokens = t->tokens,
				       .rows = t->rows,
				       .seqs = t->seqs,
				       .seq_count = t->seq_count,
				       .sampled = t->sampled_rows,
				       .params = t->params,
				       .out_tokens = t->drawn,
				       .out_logprobs = t->logprobs,
				       .sampled_count = t->sampled_count};

	forward_submit(d->forward, &b);
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

int step_finish(struct step *t, struct sched *d)
{
	int r = forward_wait(d->forward);
	uint64_t now_ns = units_now_ns();

	if (r < 0)
		return r;
	if (t->prompt_rows > 0)
		CRASH_POINT("mid_prefill");
	else
		CRASH_POINT("mid_decode");
	measure(t, d, t->from_ns, now_ns);
	seal_all(t, d);
	note_all(t, d, now_ns);
	/* Reading a row of logits may have failed. */
	return forward_check(d->forward);
}

struct tell *step_words(struct step *t)
{
	return &t->words;
}
