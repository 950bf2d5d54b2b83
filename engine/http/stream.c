/* SPDX-License-Identifier: Apache-2.0 */
/*
 * References: one for the connection, one for each request the engine has not ended. All logs are
 * allocated in full before submitting: the engine's thread only stores, and nothing moves under
 * a reader. The lock covers counts, done flags and the request pointers; entries below a count
 * that was read under it are immutable.
 *
 * A request pointer is valid until its done() has returned, and done() takes the lock: a cancel
 * under the lock that finds done_set false is in time. The engine therefore must not hold a lock
 * that engine_cancel() takes while it calls a sink.
 */
#include "engine/http/stream.h"
#include <base/assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct stream_log {
	struct stream *stream;
	struct engine_request *request;
	struct stream_token *token;
	struct engine_logprob *top;
	uint32_t top_each;
	uint32_t token_max;
	uint32_t count;
	bool done_set;
	struct engine_done done;
};

struct stream {
	struct engine *engine;
	pthread_mutex_t lock;
	int event_fd;
	uint32_t refs;
	uint64_t version; /* of all logs together: moves with every token and done */
	uint64_t version_seen;
	bool waiting;
	uint32_t submitted;
	uint32_t log_count;
	struct stream_log log[];
};

int stream_new(struct engine *engine, uint32_t count, struct stream **out)
{
	struct stream *s = calloc(1, sizeof(*s) + count * sizeof(s->log[0]));

	if (!s)
		return -ENOMEM;
	s->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->event_fd < 0) {
		int ret = -errno;

		free(s);
		return ret;
	}
	pthread_mutex_init(&s->lock, NULL);
	s->engine = engine;
	s->refs = 1;
	s->log_count = count;
	*out = s;
	return 0;
}

static void stream_free(struct stream *s)
{
	for (uint32_t i = 0; i < s->log_count; i++) {
		free(s->log[i].token);
		free(s->log[i].top);
	}
	close(s->event_fd);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static void stream_unref_locked(struct stream *s)
{
	bool last = --s->refs == 0;

	pthread_mutex_unlock(&s->lock);
	if (last)
		stream_free(s);
}

/* Under the lock. One write for each sleep, however many tokens come. */
static void wake(struct stream *s)
{
	uint64_t one = 1;

	s->version++;
	if (!s->waiting)
		return;
	s->waiting = false;
	ssize_t written = write(s->event_fd, &one, sizeof(one));
	(void)written;
}

static void on_token(void *ctx, const struct engine_token *t)
{
	struct stream_log *l = ctx;

	ASSERT(l->count < l->token_max);
	l->token[l->count] = (struct stream_token){
		.token = t->token,
		.logprob = t->logprob,
		.top_count = t->top_count < l->top_each ? t->top_count : l->top_each,
	};
	if (l->top_each)
		memcpy(&l->top[(size_t)l->count * l->top_each], t->top,
		       l->token[l->count].top_count * sizeof(t->top[0]));
	pthread_mutex_lock(&l->stream->lock);
	l->count++;
	wake(l->stream);
	pthread_mutex_unlock(&l->stream->lock);
}

static void on_done(void *ctx, const struct engine_done *d)
{
	struct stream_log *l = ctx;

	pthread_mutex_lock(&l->stream->lock);
	l->done = *d;
	l->done_set = true;
	wake(l->stream);
	stream_unref_locked(l->stream);
}

static int log_init(struct stream_log *l, const struct engine_submit_args *args, uint32_t token_max)
{
	l->token_max = token_max;
	l->top_each = args->logprobs;
	l->token = malloc((size_t)token_max * sizeof(l->token[0]));
	if (!l->token)
		return -ENOMEM;
	if (!l->top_each)
		return 0;
	l->top = malloc((size_t)token_max * l->top_each * sizeof(l->top[0]));
	return l->top ? 0 : -ENOMEM;
}

int stream_submit(struct stream *s, struct engine_submit_args *args, uint32_t token_max)
{
	ASSERT(s->submitted < s->log_count);
	struct stream_log *l = &s->log[s->submitted++];
	struct engine_request *request = NULL;
	int ret = log_init(l, args, token_max);

	l->stream = s;
	l->done_set = true; /* until the engine has it: nothing to cancel */
	if (ret < 0)
		return ret;
	args->sink = (struct engine_sink){.token = on_token, .done = on_done, .ctx = l};
	pthread_mutex_lock(&s->lock);
	l->done_set = false;
	s->refs++;
	pthread_mutex_unlock(&s->lock);
	ret = engine_submit(s->engine, args, &request);
	pthread_mutex_lock(&s->lock);
	if (ret < 0) {
		l->done_set = true;
		s->refs--;
	} else {
		l->request = request;
	}
	pthread_mutex_unlock(&s->lock);
	return ret;
}

/* Sleeps on both. -EPIPE if the socket is closed, or half closed, by its peer, or no good. */
static int sleep_on(struct stream *s, int socket_fd)
{
	struct pollfd fds[2] = {
		{.fd = s->event_fd, .events = POLLIN},
		{.fd = socket_fd, .events = POLLRDHUP},
	};
	uint64_t drained;

	if (poll(fds, 2, -1) < 0)
		return errno == EINTR ? 0 : -EPIPE;
	if (fds[1].revents)
		return -EPIPE;
	ssize_t got = read(s->event_fd, &drained, sizeof(drained));
	(void)got;
	return 0;
}

int stream_wait(struct stream *s, int socket_fd)
{
	int ret = 0;

	pthread_mutex_lock(&s->lock);
	while (ret == 0 && s->version == s->version_seen) {
		s->waiting = true;
		pthread_mutex_unlock(&s->lock);
		ret = sleep_on(s, socket_fd);
		pthread_mutex_lock(&s->lock);
	}
	s->waiting = false;
	s->version_seen = s->version;
	pthread_mutex_unlock(&s->lock);
	return ret;
}

struct stream_view stream_see(struct stream *s, uint32_t i)
{
	struct stream_log *l = &s->log[i];
	struct stream_view v = {.token = l->token, .top = l->top};

	pthread_mutex_lock(&s->lock);
	v.count = l->count;
	v.done = l->done_set ? &l->done : NULL;
	pthread_mutex_unlock(&s->lock);
	return v;
}

/* Under the lock. */
static bool runs(const struct stream_log *l)
{
	return l->request && !l->done_set;
}

void stream_stop(struct stream *s, uint32_t i)
{
	pthread_mutex_lock(&s->lock);
	if (runs(&s->log[i]))
		engine_stop(s->engine, s->log[i].request);
	pthread_mutex_unlock(&s->lock);
}

void stream_leave(struct stream *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	for (uint32_t i = 0; i < s->submitted; i++)
		if (runs(&s->log[i]))
			engine_cancel(s->engine, s->log[i].request);
	stream_unref_locked(s);
}
