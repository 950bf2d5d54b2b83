/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine from outside, over a stand-in kvd: requests from several threads, cancels, a full
 * queue, an end in the middle of everything. Run under TSan too.
 */
#include "engine/engine.h"
#include "tests/test.h"
#include "tests/unit/engine/kv_standin.h"
#include "tests/unit/engine/late.h"
#include "tests/unit/engine/toy.h"
#include <errno.h>
#include <pthread.h>

struct fixture {
	struct toy *toy;
	struct engine *e;
};

struct waiter {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	uint32_t tokens[512];
	uint32_t count;
	bool ended;
	struct engine_done done;
};

static struct engine_config config_of(const struct toy *t)
{
	return (struct engine_config){.model = &t->model,
				      .threads = 1,
				      .page_tokens = 16,
				      .batch_tokens = 64,
				      .chunk_tokens = 32,
				      .sequences_max = 4,
				      .queue_max = 64,
				      .name = "test"};
}

static void setup_config(struct fixture *f, uint32_t queue_max, uint32_t sequences_max)
{
	char error[256];

	f->toy = toy_new(getenv("KVD_TEST_LATE") ? late_ops() : kernels_cpu(NULL), 1);
	struct engine_config config = config_of(f->toy);

	config.queue_max = queue_max;
	config.sequences_max = sequences_max;
	standin_setup(128, UINT32_MAX);
	assert_int_equal(engine_new(&config, &f->e, error, sizeof(error)), 0);
}

static void setup(struct fixture *f, uint32_t queue_max)
{
	setup_config(f, queue_max, 4);
}

static void teardown(struct fixture *f)
{
	engine_free(f->e);
	toy_free(f->toy);
}

static void on_token(void *ctx, const struct engine_token *t)
{
	struct waiter *w = ctx;

	w->tokens[w->count++] = t->token;
}

static void on_done(void *ctx, const struct engine_done *d)
{
	struct waiter *w = ctx;

	pthread_mutex_lock(&w->lock);
	w->done = *d;
	w->ended = true;
	pthread_cond_signal(&w->cond);
	pthread_mutex_unlock(&w->lock);
}

static void waiter_init(struct waiter *w)
{
	memset(w, 0, sizeof(*w));
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->cond, NULL);
}

static void waiter_wait(struct waiter *w)
{
	pthread_mutex_lock(&w->lock);
	while (!w->ended)
		pthread_cond_wait(&w->cond, &w->lock);
	pthread_mutex_unlock(&w->lock);
}

static int submit(struct engine *e, struct waiter *w, const uint32_t *tokens, uint32_t count,
		  uint32_t max_tokens, struct engine_request **out)
{
	const struct engine_submit_args args = {.tokens = tokens,
						.token_count = count,
						.max_tokens = max_tokens,
						.use_cache = true,
						.sampling = {.top_p = 1},
						.sink = {on_token, on_done, w}};

	return engine_submit(e, &args, out);
}

struct crowd {
	struct engine *e;
	uint64_t seed;
	uint32_t sum;
};

static void *crowd_member(void *arg)
{
	struct crowd *c = arg;

	for (int i = 0; i < 12; i++) {
		uint32_t tokens[90], count = 1 + (uint32_t)(test_random(&c->seed) % 90);
		struct engine_request *r;
		struct waiter w;

		for (uint32_t t = 0; t < count; t++)
			tokens[t] = (uint32_t)(t * 7 % 203);
		waiter_init(&w);
		assert_int_equal(submit(c->e, &w, tokens, count, 8, &r), 0);
		if (i % 5 == 4)
			engine_cancel(c->e, r);
		waiter_wait(&w);
		if (i % 5 != 4)
			assert_int_equal(w.count, 8);
		for (uint32_t t = 0; t < w.count && i % 5 != 4; t++)
			c->sum = c->sum * 31 + w.tokens[t] + count;
	}
	return NULL;
}

static void many_threads_submit(void **state)
{
	uint32_t sums[2] = {0, 0};

	/* The same crowd twice, once member after member: the same tokens. */
	for (int round = 0; round < 2; round++) {
		struct crowd c[4];
		pthread_t threads[4];
		struct fixture f;

		setup(&f, 64);
		for (uint32_t i = 0; i < 4; i++) {
			c[i] = (struct crowd){.e = f.e, .seed = i};
			pthread_create(&threads[i], NULL, crowd_member, &c[i]);
			if (round == 1)
				pthread_join(threads[i], NULL);
		}
		for (uint32_t i = 0; i < 4; i++) {
			if (round == 0)
				pthread_join(threads[i], NULL);
			sums[round] += c[i].sum * (i + 1);
		}
		teardown(&f);
	}
	assert_int_equal(sums[0], sums[1]);
}

static void refuses_what_cannot_be(void **state)
{
	static uint32_t tokens[2000];
	struct engine_request *r;
	struct fixture f;
	struct waiter w;

	setup(&f, 64);
	waiter_init(&w);
	assert_int_equal(submit(f.e, &w, tokens, 1024, 1, &r), -E2BIG);
	assert_int_equal(submit(f.e, &w, tokens, 0, 1, &r), -EINVAL);
	tokens[3] = 203;
	assert_int_equal(submit(f.e, &w, tokens, 10, 1, &r), -EINVAL);
	teardown(&f);
}

static void full_queue_is_said_at_once(void **state)
{
	static uint32_t tokens[64];
	struct waiter w[3];
	struct engine_request *r;
	struct fixture f;

	setup(&f, 1);
	/* A dead daemon: nobody leaves the queue. */
	standin_die(standin_latest());
	struct engine_stats stats;
	do {
		engine_stats(f.e, &stats);
	} while (stats.kvd_ready);
	waiter_init(&w[0]);
	waiter_init(&w[1]);
	assert_int_equal(submit(f.e, &w[0], tokens, 20, 1, &r), 0);
	assert_int_equal(submit(f.e, &w[1], tokens, 20, 1, &r), -EAGAIN);
	teardown(&f);
	assert_true(w[0].ended);
	assert_int_equal(w[0].done.finish, ENGINE_FINISH_CANCELLED);
}

/* What a request's client does at its second token, in the middle of a step. */
struct caller {
	struct waiter w; /* first: on_done() takes it for one */
	struct engine *e;
	struct waiter *others;
	int results[2];
	uint32_t waiting;
};

static void submit_at_a_token(void *ctx, const struct engine_token *t)
{
	static const uint32_t tokens[8];
	struct caller *c = ctx;
	struct engine_request *r;
	struct engine_stats stats;
	uint32_t i = c->w.count++;

	if (i < 2)
		c->results[i] = submit(c->e, &c->others[i], tokens, 8, 1, &r);
	if (i != 1)
		return;
	engine_stats(c->e, &stats);
	c->waiting = stats.waiting;
}

/* Also while a step runs, and those who wait have left the inbox. */
static void queue_is_bounded_at_every_moment(void **state)
{
	static const uint32_t tokens[8];
	struct waiter others[2];
	struct caller c = {.others = others};
	struct engine_request *r;
	struct fixture f;

	setup_config(&f, 1, 1);
	waiter_init(&c.w);
	c.e = f.e;
	const struct engine_submit_args args = {.tokens = tokens,
						.token_count = 8,
						.max_tokens = 4,
						.sampling = {.top_p = 1},
						.sink = {submit_at_a_token, on_done, &c}};
	for (int i = 0; i < 2; i++)
		waiter_init(&others[i]);
	assert_int_equal(engine_submit(f.e, &args, &r), 0);
	waiter_wait(&c.w);
	waiter_wait(&others[0]);
	assert_int_equal(c.results[0], 0);
	assert_int_equal(c.results[1], -EAGAIN);
	assert_int_equal(c.waiting, 1);
	teardown(&f);
}

struct reader {
	struct waiter w; /* first: on_done() takes it for one */
	struct engine *e;
	struct engine_stats at_end;
};

static void read_at_the_end(void *ctx, const struct engine_done *d)
{
	struct reader *r = ctx;

	engine_stats(r->e, &r->at_end);
	on_done(ctx, d);
}

/* Who has an answer and asks for the figures finds it in them. */
static void figures_are_not_behind_the_answers(void **state)
{
	static const uint32_t tokens[8];
	struct engine_request *r;
	struct reader reader;
	struct fixture f;

	setup(&f, 64);
	waiter_init(&reader.w);
	reader.e = f.e;
	const struct engine_submit_args args = {.tokens = tokens,
						.token_count = 8,
						.max_tokens = 3,
						.sampling = {.top_p = 1},
						.sink = {on_token, read_at_the_end, &reader}};
	assert_int_equal(engine_submit(f.e, &args, &r), 0);
	waiter_wait(&reader.w);
	assert_int_equal(reader.at_end.requests_done[ENGINE_FINISH_LENGTH], 1);
	assert_int_equal(reader.at_end.generated_tokens, 3);
	assert_int_equal(reader.at_end.e2e.count, 1);
	assert_int_equal(reader.at_end.running, 0);
	teardown(&f);
}

static void stop_is_no_abort(void **state)
{
	static uint32_t tokens[64];
	struct engine_request *r;
	struct fixture f;
	struct waiter w;

	setup(&f, 64);
	waiter_init(&w);
	assert_int_equal(submit(f.e, &w, tokens, 20, 500, &r), 0);
	engine_stop(f.e, r);
	waiter_wait(&w);
	assert_int_equal(w.done.finish, ENGINE_FINISH_STOP);
	teardown(&f);
}

static void cancel_from_another_thread(void **state)
{
	static uint32_t tokens[64];
	struct engine_stats stats;
	struct engine_request *r;
	struct fixture f;
	struct waiter w;

	setup(&f, 64);
	waiter_init(&w);
	assert_int_equal(submit(f.e, &w, tokens, 20, 500, &r), 0);
	engine_cancel(f.e, r);
	waiter_wait(&w);
	assert_int_equal(w.done.finish, ENGINE_FINISH_CANCELLED);
	assert_true(w.count < 500);
	engine_stats(f.e, &stats);
	assert_int_equal(stats.requests_done[ENGINE_FINISH_CANCELLED], 1);
	teardown(&f);
}

static void ends_in_the_middle(void **state)
{
	static uint32_t tokens[64];
	struct waiter w[10];
	struct engine_request *r;
	struct fixture f;

	setup(&f, 64);
	for (int i = 0; i < 10; i++) {
		waiter_init(&w[i]);
		assert_int_equal(submit(f.e, &w[i], tokens, 20 + (uint32_t)i, 400, &r), 0);
	}
	teardown(&f);
	for (int i = 0; i < 10; i++)
		assert_true(w[i].ended);
}

static void statistics_add_up(void **state)
{
	static uint32_t tokens[64];
	struct engine_stats stats;
	struct engine_request *r;
	struct fixture f;

	setup(&f, 64);
	for (int i = 0; i < 2; i++) {
		struct waiter w;

		waiter_init(&w);
		assert_int_equal(submit(f.e, &w, tokens, 48, 5, &r), 0);
		waiter_wait(&w);
	}
	engine_stats(f.e, &stats);
	assert_int_equal(stats.prompt_tokens, 96);
	assert_int_equal(stats.cached_tokens, 48);
	assert_int_equal(stats.generated_tokens, 10);
	assert_int_equal(stats.ttft.count, 2);
	assert_int_equal(stats.itl.count, 8);
	assert_int_equal(stats.e2e.bucket[19], 2);
	teardown(&f);
}

static void start_that_does_not_fit_is_refused(void **state)
{
	struct toy *t = toy_new(kernels_cpu(NULL), 1);
	struct engine_config config = config_of(t);
	struct engine *e = NULL;
	char error[256] = "";

	config.memory_bytes_max = 1000;
	assert_int_equal(engine_new(&config, &e, error, sizeof(error)), -ENOMEM);
	assert_non_null(strstr(error, "beside its weights"));
	config.memory_bytes_max = 0;
	config.context = 5000;
	assert_int_equal(engine_new(&config, &e, error, sizeof(error)), -EINVAL);
	config.context = 0;
	config.page_tokens = 48;
	assert_int_equal(engine_new(&config, &e, error, sizeof(error)), -EINVAL);
	toy_free(t);
}

TEST_MAIN(engine, cmocka_unit_test(many_threads_submit), cmocka_unit_test(refuses_what_cannot_be),
	  cmocka_unit_test(full_queue_is_said_at_once),
	  cmocka_unit_test(queue_is_bounded_at_every_moment), cmocka_unit_test(stop_is_no_abort),
	  cmocka_unit_test(figures_are_not_behind_the_answers),
	  cmocka_unit_test(cancel_from_another_thread), cmocka_unit_test(ends_in_the_middle),
	  cmocka_unit_test(statistics_add_up), cmocka_unit_test(start_that_does_not_fit_is_refused))
