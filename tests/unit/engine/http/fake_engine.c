/* SPDX-License-Identifier: Apache-2.0 */
/* Implements engine.h's submit, cancel, stop and stats as fake_engine.h says. */
#include "tests/unit/engine/http/fake_engine.h"
#include "tests/test.h"
#include "tests/unit/engine/http/fake_tokenizer.h"
#include <errno.h>

const double engine_histogram_bounds_s[20] = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1,
					      0.2,   0.5,   1,	   2,	 5,    10,   20,
					      50,    100,   200,   500,	 1000, 2000};

struct engine_request {
	struct engine *engine;
	struct engine_submit_args args;
	uint32_t *tokens;
	bool cancelled;
	bool stopped;
};

void fake_engine_init(struct engine *e, const char *reply)
{
	*e = (struct engine){.reply = reply, .context = 4096};
	pthread_mutex_init(&e->lock, NULL);
	pthread_cond_init(&e->changed, NULL);
}

void fake_engine_fini(struct engine *e)
{
	for (uint32_t i = 0; i < e->submitted; i++)
		pthread_join(e->thread[i], NULL);
	pthread_mutex_destroy(&e->lock);
	pthread_cond_destroy(&e->changed);
}

static void wait_for(struct engine *e, const uint32_t *what, uint32_t count)
{
	pthread_mutex_lock(&e->lock);
	while (*what < count)
		pthread_cond_wait(&e->changed, &e->lock);
	pthread_mutex_unlock(&e->lock);
}

void fake_engine_wait_cancelled(struct engine *e, uint32_t count)
{
	wait_for(e, &e->cancelled, count);
}

void fake_engine_wait_stopped(struct engine *e, uint32_t count)
{
	wait_for(e, &e->stopped, count);
}

void fake_engine_wait_submitted(struct engine *e, uint32_t count)
{
	wait_for(e, &e->submitted, count);
}

static bool is_cancelled(struct engine_request *r, bool wait)
{
	pthread_mutex_lock(&r->engine->lock);
	while (wait && !r->cancelled)
		pthread_cond_wait(&r->engine->changed, &r->engine->lock);
	bool cancelled = r->cancelled;
	pthread_mutex_unlock(&r->engine->lock);
	return cancelled;
}

static void give(struct engine_request *r, uint32_t token, uint32_t position)
{
	struct engine_token t = {.token = token,
				 .position = position,
				 .logprob = -0.5f,
				 .top_count = r->args.logprobs};

	for (uint32_t i = 0; i < t.top_count; i++)
		t.top[i] = (struct engine_logprob){.token = (token + i) % FAKE_VOCAB,
						   .logprob = i ? -(float)i - 0.5f : -0.5f};
	r->args.sink.token(r->args.sink.ctx, &t);
}

static void end(struct engine_request *r, struct engine_done *d)
{
	struct engine *e = r->engine;

	d->prompt_tokens = r->args.token_count;
	d->cached_tokens = r->args.use_cache ? 3 : 0;
	d->tail_bytes_copied = 7;
	d->ttft_ns = 2000000;
	r->args.sink.done(r->args.sink.ctx, d);
	pthread_mutex_lock(&e->lock);
	e->cancelled += d->finish == ENGINE_FINISH_CANCELLED;
	e->stopped += d->finish == ENGINE_FINISH_STOP && r->stopped;
	e->ended++;
	pthread_cond_broadcast(&e->changed);
	pthread_mutex_unlock(&e->lock);
	free(r->tokens);
	free(r);
}

static enum engine_finish generate(struct engine_request *r, struct engine_done *d)
{
	struct engine *e = r->engine;
	uint32_t length = (uint32_t)strlen(e->reply);

	for (uint32_t i = 0; i < r->args.max_tokens; i++) {
		bool stop = i >= length;

		if (is_cancelled(r, e->hold_at == i + 1))
			return r->stopped ? ENGINE_FINISH_STOP : ENGINE_FINISH_CANCELLED;
		if (e->fail_at == i + 1) {
			d->status = e->fail_status;
			snprintf(d->error, sizeof(d->error), "the pool is full");
			return ENGINE_FINISH_ERROR;
		}
		uint32_t token = stop ? FAKE_TOKEN_END : (unsigned char)e->reply[i];
		give(r, token, r->args.token_count + i);
		d->completion_tokens++;
		if (stop && !r->args.ignore_end)
			return ENGINE_FINISH_STOP;
	}
	return ENGINE_FINISH_LENGTH;
}

static void *run(void *arg)
{
	struct engine_request *r = arg;
	struct engine_done d = {0};

	for (uint32_t i = 1; r->args.prompt_logprobs && i < r->args.token_count; i++)
		give(r, r->tokens[i], i);
	d.finish = generate(r, &d);
	end(r, &d);
	return NULL;
}

int engine_submit(struct engine *e, const struct engine_submit_args *args,
		  struct engine_request **out)
{
	if (e->submit_result < 0)
		return e->submit_result;
	struct engine_request *r = calloc(1, sizeof(*r));
	assert_non_null(r);
	r->engine = e;
	r->args = *args;
	r->tokens = malloc(args->token_count * sizeof(*r->tokens));
	assert_non_null(r->tokens);
	memcpy(r->tokens, args->tokens, args->token_count * sizeof(*r->tokens));
	*out = r;
	pthread_mutex_lock(&e->lock);
	assert_true(e->submitted < FAKE_REQUESTS_MAX);
	e->last = *args;
	assert_int_equal(pthread_create(&e->thread[e->submitted], NULL, run, r), 0);
	e->submitted++;
	pthread_cond_broadcast(&e->changed);
	pthread_mutex_unlock(&e->lock);
	return 0;
}

void engine_cancel(struct engine *e, struct engine_request *r)
{
	pthread_mutex_lock(&e->lock);
	r->cancelled = true;
	pthread_cond_broadcast(&e->changed);
	pthread_mutex_unlock(&e->lock);
}

void engine_stop(struct engine *e, struct engine_request *r)
{
	pthread_mutex_lock(&e->lock);
	r->stopped = true;
	pthread_mutex_unlock(&e->lock);
	engine_cancel(e, r);
}

void engine_stats(struct engine *e, struct engine_stats *out)
{
	*out = (struct engine_stats){.kvd_ready = !e->kvd_gone,
				     .context = e->context,
				     .page_tokens = 64,
				     .prompt_tokens = 99,
				     .lookup_tokens = 66,
				     .cached_tokens = 42,
				     .ttft = {.sum_s = 1.5, .count = 3}};
}
