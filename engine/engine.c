/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The step loop and its doors.
 *
 * One thread owns the model's context, the connection to kvd, the scheduler and every sequence that
 * it has taken from the inbox. Other threads touch three things only, under `lock`: the inbox, the
 * published statistics, and `ending`; and a sequence's atomic `cancelled` flag. No lock is held
 * while a sink is called or a step runs, so a sink may submit and cancel.
 *
 * A turn of the loop: take what is new, decide (sched_tick), start a step; finish the one before,
 * if it is still under way; while the device computes, tell clients what came of that one, take
 * what is new and ask kvd for it (sched_prepare), publish; finish the step, unless the next one may
 * be started meanwhile (step_overlap()); take kvd's events. While the daemon is gone no step is
 * under way in kv_wait(): when it returns its pages may be gone too. It sleeps there only when no
 * row could be computed; engine_submit() and engine_cancel() wake it.
 */
#include "engine/engine.h"
#include "base/atomic.h"
#include "base/bits.h"
#include "base/log.h"
#include "base/units.h"
#include "engine/footprint.h"
#include "engine/identity.h"
#include "engine/step.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define ACQUIRE_WAIT_MS 30000u
#define EXTEND_WAIT_MS 500u
#define PATIENCE_NS (2 * UNITS_NS_PER_S)
#define EVENTS_MAX 32u

const double engine_histogram_bounds_s[20] = {0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05,
					      0.075, 0.1,   0.15,  0.25, 0.5,  0.75, 1,
					      2.5,   5,	    10,	   30,	 60,   120};

struct engine {
	struct footprint footprint;
	struct forward *forward;
	struct step *step;
	struct kv *kv;
	struct sched sched;
	struct engine_stats stats; /* the loop's own */
	pthread_t thread;

	pthread_mutex_t lock;
	/* under lock: */
	struct list_link inbox;
	uint32_t inbox_count;
	uint64_t next_id;
	bool ending;
	struct engine_stats published;
};

/* --- the loop -----------------------------------------------------------------------------------
 */

/* false: the engine is ending. What came meanwhile ends with the scheduler. */
static bool take_inbox(struct engine *e)
{
	struct list_link taken;

	list_init(&taken);
	pthread_mutex_lock(&e->lock);
	bool go_on = !e->ending;
	LIST_FOR_EACH_SAFE (l, next, &e->inbox) {
		list_remove(l);
		list_push_back(&taken, l);
	}
	/* They go on waiting: the queue's bound holds at every moment. */
	e->published.waiting += e->inbox_count;
	e->inbox_count = 0;
	pthread_mutex_unlock(&e->lock);
	LIST_FOR_EACH_SAFE (l, next, &taken) {
		list_remove(l);
		sched_add(&e->sched, CONTAINER_OF(l, struct seq, link));
	}
	return go_on;
}

static void publish(void *ctx)
{
	struct engine *e = ctx;
	struct kv_counts counts;

	kv_counts(e->kv, &counts);
	e->stats.kvd_ready = counts.ready;
	e->stats.private_kvd = counts.private_daemon;
	e->stats.kvd_reconnects = counts.reconnects;
	e->stats.magazine_blocks = counts.magazine_blocks;
	e->stats.running = e->sched.active_count;
	e->stats.waiting = e->sched.queue_count;
	e->footprint.config.model->ops->ctx_counts(forward_ctx(e->forward), &e->stats.kernels);
	pthread_mutex_lock(&e->lock);
	e->published = e->stats;
	pthread_mutex_unlock(&e->lock);
}

/* The device is gone, and with it every sequence; nobody else is hurt. */
static const char *fail(struct engine *e)
{
	const char *why = forward_failure(e->forward);

	log_error("engine", "the device failed, and this engine ends: %s", why);
	pthread_mutex_lock(&e->lock);
	e->ending = true;
	pthread_mutex_unlock(&e->lock);
	(void)take_inbox(e);
	return why;
}

/* Who cannot import a page may have lost its device: then -errno. */
static int take_events(struct engine *e, const struct kv_event *events, uint32_t count)
{
	bool doubtful = false;

	for (uint32_t i = 0; i < count; i++) {
		sched_event(&e->sched, &events[i], units_now_ns());
		doubtful |= events[i].import != NULL;
	}
	return doubtful ? forward_check(e->forward) : 0;
}

/* -EIO: the device failed. */
static int turn(struct engine *e)
{
	struct kv_event events[EVENTS_MAX];

	sched_tick(&e->sched, units_now_ns());
	enum step_result step = step_start(e->step, &e->sched);
	int r = step_finish(e->step, &e->sched, step == STEP_STARTED);

	if (r < 0)
		return r;
	/* Who has ended leaves something to decide. */
	bool busy = step_tell(e->step, &e->sched) || step == STEP_STARTED;

	(void)take_inbox(e);
	sched_prepare(&e->sched, units_now_ns());
	publish(e); /* a step may take long, and who waits has changed */
	r = step_finish(e->step, &e->sched, step_overlap(e->step, &e->sched));
	if (r < 0)
		return r;
	uint64_t sleep_ns = busy ? 0 : sched_timeout_ns(&e->sched);
	uint32_t count = kv_wait(e->kv, sleep_ns, events, EVENTS_MAX);

	return take_events(e, events, count);
}

static void *run(void *arg)
{
	struct engine *e = arg;
	const struct engine_config *c = &e->footprint.config;
	const char *failure = NULL;
	int r = 0;

	while (r == 0 && take_inbox(e))
		r = turn(e);
	if (r == 0)
		r = step_finish(e->step, &e->sched, 0);
	if (r < 0) {
		failure = fail(e);
		step_forget(e->step);
	}
	sched_fini(&e->sched, failure, units_now_ns());
	/* Last: whoever ends the process then finds that all requests have got their answer. */
	if (failure && c->failed)
		c->failed(c->failed_ctx, failure);
	return NULL;
}

/* --- start and end
 * -------------------------------------------------------------------------------- */

static int open_kv(struct engine *e, char *error, size_t size)
{
	const struct engine_config *c = &e->footprint.config;
	char description[1024];
	struct kv_config config = {.engine = c,
				   .layout = *forward_layout(e->forward),
				   .layout_name = c->model->ops->layout,
				   .description = description};

	identity_digest(c->model, c->page_tokens, config.identity);
	identity_describe(c->model, c->page_tokens, description, sizeof(description));
	return kv_open(&config, &e->kv, error, size);
}

static void log_graphs(const struct engine *e, uint64_t from_ns)
{
	struct kernel_counts counts;

	e->footprint.config.model->ops->ctx_counts(forward_ctx(e->forward), &counts);
	if (counts.graphs > 0)
		log_info("engine", "%u graphs recorded, %.1f s", counts.graphs,
			 (double)(units_now_ns() - from_ns) / (double)UNITS_NS_PER_S);
}

static void init_sched(struct engine *e)
{
	const struct engine_config *c = &e->footprint.config;
	const struct sched_config config = {.page_tokens = c->page_tokens,
					    .chunk_tokens = c->chunk_tokens,
					    .sequences_max = c->sequences_max,
					    .kvd_wait_ns = c->kvd_wait_ns,
					    .acquire_wait_ms = ACQUIRE_WAIT_MS,
					    .extend_wait_ms = EXTEND_WAIT_MS,
					    .patience_ns = PATIENCE_NS,
					    /* Who has an answer finds it in the figures. */
					    .ended = publish,
					    .ended_ctx = e};

	e->stats.context = c->context;
	e->stats.page_tokens = c->page_tokens;
	e->stats.sequences_max = c->sequences_max;
	sched_init(&e->sched, &config, e->kv, e->forward, c->model->ops, &e->stats,
		   step_words(e->step));
}

static int start(struct engine *e, const struct engine_config *config, char *error, size_t size)
{
	int r = footprint_init(&e->footprint, config, error, size);

	if (r == 0)
		r = footprint_check(&e->footprint, error, size);
	if (r < 0)
		return r;
	uint64_t from_ns = units_now_ns();

	r = forward_new(config->model, &e->footprint.forward, &e->forward);
	if (r == 0)
		log_graphs(e, from_ns);
	if (r == 0)
		r = step_new(&e->footprint.step, &e->step);
	if (r < 0) {
		snprintf(error, size, "could not set up the step: %s", strerror(-r));
		return r;
	}
	r = open_kv(e, error, size);
	if (r < 0)
		return r;
	init_sched(e);
	publish(e);
	r = -pthread_create(&e->thread, NULL, run, e);
	if (r < 0)
		snprintf(error, size, "could not start the engine's thread: %s", strerror(-r));
	return r;
}

static void destroy(struct engine *e)
{
	kv_close(e->kv);
	step_free(e->step);
	forward_free(e->forward);
	pthread_mutex_destroy(&e->lock);
	free(e);
}

int engine_new(const struct engine_config *config, struct engine **out, char *error, size_t size)
{
	struct engine *e = calloc(1, sizeof(*e));

	if (!e) {
		snprintf(error, size, "out of memory");
		return -ENOMEM;
	}
	pthread_mutex_init(&e->lock, NULL);
	list_init(&e->inbox);
	int r = start(e, config, error, size);

	if (r < 0) {
		destroy(e);
		return r;
	}
	*out = e;
	return 0;
}

void engine_free(struct engine *e)
{
	if (!e)
		return;
	pthread_mutex_lock(&e->lock);
	e->ending = true;
	pthread_mutex_unlock(&e->lock);
	kv_wake(e->kv);
	pthread_join(e->thread, NULL);
	destroy(e);
}

/* --- the doors ----------------------------------------------------------------------------------
 */

static int check_submit(const struct engine *e, const struct engine_submit_args *args)
{
	const struct engine_config *c = &e->footprint.config;

	if (args->token_count == 0 || !args->sink.token || !args->sink.done ||
	    args->logprobs > ENGINE_LOGPROBS_MAX)
		return -EINVAL;
	if (args->token_count >= c->context)
		return -E2BIG;
	for (uint32_t i = 0; i < args->token_count; i++) {
		if (args->tokens[i] >= c->model->h.vocab)
			return -EINVAL;
	}
	return 0;
}

static int enqueue(struct engine *e, struct seq *s)
{
	int r = 0;

	pthread_mutex_lock(&e->lock);
	if (e->ending) {
		r = -ESHUTDOWN;
	} else if (e->published.waiting + e->inbox_count >= e->footprint.config.queue_max) {
		r = -EAGAIN;
	} else {
		s->id = e->next_id++;
		list_push_back(&e->inbox, &s->link);
		e->inbox_count++;
	}
	pthread_mutex_unlock(&e->lock);
	return r;
}

/* A request's handle is its sequence. */
int engine_submit(struct engine *e, const struct engine_submit_args *args,
		  struct engine_request **out)
{
	int r = check_submit(e, args);

	if (r < 0)
		return r;
	struct seq *s = seq_new(args, e->footprint.config.context, units_now_ns());

	if (!s)
		return -ENOMEM;
	/* Before the loop can see it: it may have ended when this function returns. */
	*out = (struct engine_request *)s;
	r = enqueue(e, s);
	if (r < 0) {
		seq_free(s);
		return r;
	}
	kv_wake(e->kv);
	return 0;
}

void engine_cancel(struct engine *e, struct engine_request *r)
{
	struct seq *s = (struct seq *)r;

	/* Partner: the load in sched_tick(). */
	atomic_store_release(&s->cancelled, true);
	kv_wake(e->kv);
}

void engine_stop(struct engine *e, struct engine_request *r)
{
	struct seq *s = (struct seq *)r;

	/* Read after `cancelled`, which is stored after it. */
	atomic_store_relaxed(&s->satisfied, true);
	engine_cancel(e, r);
}

void engine_stats(struct engine *e, struct engine_stats *out)
{
	pthread_mutex_lock(&e->lock);
	*out = e->published;
	out->waiting += e->inbox_count;
	pthread_mutex_unlock(&e->lock);
}
