/* SPDX-License-Identifier: Apache-2.0 */
/* See world.h. */
#include "tests/unit/engine/world.h"
#include "base/bits.h"
#include "base/units.h"
#include "tests/test.h"

#define TURNS_MAX 20000

const struct world_options world_defaults = {.pages = 64,
					     .magazine_max = UINT32_MAX,
					     .page_tokens = 16,
					     .batch_tokens = 64,
					     .chunk_tokens = 32,
					     .sequences_max = 8};

const struct kernel_ops *world_ops;

static const struct kernel_ops *ops_here(void)
{
	return world_ops ? world_ops : kernels_cpu(NULL);
}

static bool in_device_memory(const struct kernel_ops *ops)
{
	static const uint8_t none[sizeof(ops->device_uuid)];

	return memcmp(ops->device_uuid, none, sizeof(none)) != 0;
}

static void init_loop(struct world *w, const struct world_options *o)
{
	const struct sched_config config = {.page_tokens = o->page_tokens,
					    .chunk_tokens = o->chunk_tokens,
					    .sequences_max = o->sequences_max,
					    .kvd_wait_ns = UNITS_NS_PER_S,
					    .acquire_wait_ms = 10,
					    .extend_wait_ms = 10,
					    .patience_ns = 50 * UNITS_NS_PER_MS};
	const struct step_limits limits = {.batch_tokens = o->batch_tokens,
					   .chunk_tokens = o->chunk_tokens,
					   .sequences_max = o->sequences_max,
					   .vocab = w->toy->model.h.vocab,
					   .overlap = w->toy->model.ops->asynchronous &&
						      !o->no_overlap};

	assert_int_equal(step_new(&limits, &w->step), 0);
	sched_init(&w->sched, &config, w->kv, w->forward, w->toy->model.ops, &w->stats,
		   step_words(w->step));
}

void world_init(struct world *w, const struct world_options *o)
{
	const struct forward_limits limits = {.rows_max = o->batch_tokens,
					      .sampled_max = step_sampled_max(o->sequences_max),
					      .sequences_max = o->sequences_max,
					      .context = 1024,
					      .page_tokens = o->page_tokens,
					      .graphs = o->graphs,
					      .threads = 1};
	struct kv_config config = {0};
	char error[200];

	memset(w, 0, sizeof(*w));
	w->now_ns = UNITS_NS_PER_S;
	w->toy = toy_new(ops_here(), 1);
	assert_int_equal(forward_new(&w->toy->model, &limits, &w->forward), 0);
	config.layout = *forward_layout(w->forward);
	standin_setup(o->pages, o->magazine_max);
	standin_device(in_device_memory(ops_here()) ? ops_here() : NULL);
	assert_int_equal(kv_open(&config, &w->kv, error, sizeof(error)), 0);
	init_loop(w, o);
}

void world_fini(struct world *w)
{
	struct standin_counts counts;

	assert_int_equal(step_finish(w->step, &w->sched, 0), 0);
	sched_fini(&w->sched, NULL, w->now_ns);
	assert_true(list_empty(&w->sched.active) && list_empty(&w->sched.queue) &&
		    list_empty(&w->sched.ended));
	kv_return_all(w->kv);
	standin_counts(w->kv, &counts);
	assert_int_equal(counts.leases, 0);
	kv_close(w->kv); /* asserts that every page is free again */
	step_free(w->step);
	forward_free(w->forward);
	toy_free(w->toy);
}

static void on_token(void *ctx, const struct engine_token *t)
{
	struct client *c = ctx;

	assert_int_equal(c->done_count, 0);
	if (t->position < c->args.token_count) {
		assert_int_equal(t->position, c->echo_count + 1);
		c->echo[t->position] = t->logprob;
		c->echo_count++;
		return;
	}
	/* An unbroken stream: every position once, in order. */
	assert_int_equal(t->position, c->args.token_count + c->count);
	c->tokens[c->count] = t->token;
	c->logprobs[c->count++] = t->logprob;
}

static void on_done(void *ctx, const struct engine_done *d)
{
	struct client *c = ctx;

	/* Whoever ended it, nothing that was drawn is kept back. */
	assert_int_equal(d->completion_tokens, c->count);
	c->done = *d;
	c->done_count++;
	c->seq = NULL;
}

void client_init(struct client *c, const uint32_t *prompt, uint32_t count, uint32_t max_tokens)
{
	memset(c, 0, sizeof(*c));
	c->args = (struct engine_submit_args){
		.tokens = prompt,
		.token_count = count,
		.max_tokens = max_tokens,
		.use_cache = true,
		.sampling = {.temperature = 0.8f, .top_p = 0.95f, .seed = count}};
}

void world_submit(struct world *w, struct client *c)
{
	c->args.sink = (struct engine_sink){on_token, on_done, c};
	c->seq = seq_new(&c->args, w->toy->model.h.context, w->now_ns);
	assert_non_null(c->seq);
	c->seq->id = w->next_id++;
	sched_add(&w->sched, c->seq);
}

bool world_turn(struct world *w)
{
	struct kv_event events[16];

	w->now_ns += UNITS_NS_PER_MS;
	sched_tick(&w->sched, w->now_ns);
	bool ran = step_start(w->step, &w->sched) == STEP_STARTED;

	assert_int_equal(step_finish(w->step, &w->sched, ran), 0);
	bool told = step_tell(w->step, &w->sched);

	sched_prepare(&w->sched, w->now_ns);
	uint32_t left = step_overlap(w->step, &w->sched);

	assert_int_equal(step_finish(w->step, &w->sched, left), 0);
	uint32_t count = kv_wait(w->kv, 0, events, ARRAY_LEN(events));

	for (uint32_t i = 0; i < count; i++)
		sched_event(&w->sched, &events[i], w->now_ns);
	return ran || told;
}

void world_run(struct world *w, struct client *clients, uint32_t count)
{
	for (int turn = 0; turn < TURNS_MAX; turn++) {
		uint32_t done = 0;

		for (uint32_t i = 0; i < count; i++)
			done += clients[i].done_count;
		if (done == count)
			return;
		world_turn(w);
	}
	fail_msg("not done after %d turns", TURNS_MAX);
}

void world_random_tokens(uint32_t *out, uint32_t count, uint64_t seed)
{
	for (uint32_t i = 0; i < count; i++)
		out[i] = (uint32_t)(test_random(&seed) % 203);
}

void world_expected(const struct client *c, struct client *out)
{
	struct world_options o = world_defaults;
	struct world w;

	o.pages = 128;
	o.no_overlap = true;
	world_init(&w, &o);
	memset(out, 0, sizeof(*out));
	out->args = c->args;
	world_submit(&w, out);
	world_run(&w, out, 1);
	world_fini(&w);
}

void assert_same_answer(const struct client *a, const struct client *b)
{
	assert_int_equal(a->done_count, 1);
	assert_int_equal(a->done.finish, b->done.finish);
	assert_int_equal(a->count, b->count);
	assert_memory_equal(a->tokens, b->tokens, a->count * sizeof(*a->tokens));
	assert_memory_equal(a->logprobs, b->logprobs, a->count * sizeof(*a->logprobs));
	assert_int_equal(a->echo_count, b->echo_count);
	assert_memory_equal(a->echo, b->echo, sizeof(a->echo));
}
