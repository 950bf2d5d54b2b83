/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine for where io_uring is forbidden: threads that call preadv() and pwritev(). Two lists,
 * one lock, held for a few pointer moves; an eventfd that is written when the list of what came
 * back was empty. A thread that is stuck in a call occupies only itself. What a thread has taken
 * cannot be cancelled; what none has taken comes back at once.
 *
 * All threads are made at start, with all signals blocked: who cannot have them learns it then. A
 * call belongs to the list that it is in, or to the thread that runs it.
 */
#include "base/bits.h"
#include "kvd/aio_engine.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define AIO_THREADS_MAX 16u

struct aio_threads {
	pthread_mutex_t lock; /* guards the lists and `stop` */
	pthread_cond_t more;
	struct list_link todo;
	struct list_link back;
	bool stop;
	int fd;
	uint32_t thread_count;
	pthread_t threads[AIO_THREADS_MAX];
};

/* The first of the list, or NULL. The lock is held. */
static struct aio_io *threads_pop(struct list_link *list)
{
	if (list_empty(list))
		return NULL;
	struct aio_io *io = CONTAINER_OF(list->next, struct aio_io, link);
	list_remove(&io->link);
	return io;
}

/* The lock is held: the eventfd is readable as long as there is something to reap. */
static void threads_give_back(struct aio_threads *t, struct aio_io *io, int result)
{
	uint64_t one = 1;

	io->result = result;
	if (list_empty(&t->back))
		(void)!write(t->fd, &one, sizeof(one));
	list_push_back(&t->back, &io->link);
}

static int threads_call(const struct aio_io *io)
{
	ssize_t n = io->write ? pwritev(io->fd, io->vecs, (int)io->vec_count, (off_t)io->offset)
			      : preadv(io->fd, io->vecs, (int)io->vec_count, (off_t)io->offset);

	return n < 0 ? -errno : (int)n;
}

static void *threads_main(void *arg)
{
	struct aio_threads *t = arg;

	pthread_mutex_lock(&t->lock);
	for (;;) {
		while (list_empty(&t->todo) && !t->stop)
			pthread_cond_wait(&t->more, &t->lock);
		struct aio_io *io = threads_pop(&t->todo);
		if (!io)
			break;
		pthread_mutex_unlock(&t->lock);
		int result = threads_call(io);
		pthread_mutex_lock(&t->lock);
		threads_give_back(t, io, result);
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

static void threads_close(void *engine)
{
	struct aio_threads *t = engine;

	pthread_mutex_lock(&t->lock);
	t->stop = true;
	pthread_cond_broadcast(&t->more);
	pthread_mutex_unlock(&t->lock);
	for (uint32_t i = 0; i < t->thread_count; i++)
		pthread_join(t->threads[i], NULL);
	if (t->fd >= 0)
		close(t->fd);
	pthread_cond_destroy(&t->more);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

/* One will do, if there cannot be more. 0, or -errno. */
static int threads_make(struct aio_threads *t, uint32_t count)
{
	sigset_t all, before;
	int r = 0;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (r == 0 && t->thread_count < count) {
		r = -pthread_create(&t->threads[t->thread_count], NULL, threads_main, t);
		if (r == 0)
			t->thread_count++;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return t->thread_count ? 0 : r;
}

static int threads_open(void **out, uint32_t depth, char *why, size_t size)
{
	struct aio_threads *t = calloc(1, sizeof(*t));
	int r;

	if (!t) {
		snprintf(why, size, "no memory");
		return -ENOMEM;
	}
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->more, NULL);
	list_init(&t->todo);
	list_init(&t->back);
	t->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = t->fd < 0 ? -errno : threads_make(t, BITS_MIN(depth, AIO_THREADS_MAX));
	if (r < 0) {
		snprintf(why, size, "threads for file I/O: %s", strerror(-r));
		threads_close(t);
		return r;
	}
	*out = t;
	return 0;
}

static int threads_fd(const void *engine)
{
	return ((const struct aio_threads *)engine)->fd;
}

static void threads_begin(void *engine, struct aio_io *io)
{
	struct aio_threads *t = engine;

	pthread_mutex_lock(&t->lock);
	list_push_back(&t->todo, &io->link);
	pthread_cond_signal(&t->more);
	pthread_mutex_unlock(&t->lock);
}

static int threads_flush(void *engine)
{
	return 0;
}

static void threads_cancel(void *engine, struct aio_io *io)
{
	struct aio_threads *t = engine;

	pthread_mutex_lock(&t->lock);
	LIST_FOR_EACH (l, &t->todo) {
		if (l != &io->link)
			continue;
		list_remove(l);
		threads_give_back(t, io, -ECANCELED);
		break;
	}
	pthread_mutex_unlock(&t->lock);
}

static struct aio_io *threads_reap(void *engine)
{
	struct aio_threads *t = engine;
	uint64_t count;

	pthread_mutex_lock(&t->lock);
	struct aio_io *io = threads_pop(&t->back);
	if (io && list_empty(&t->back))
		(void)!read(t->fd, &count, sizeof(count));
	pthread_mutex_unlock(&t->lock);
	return io;
}

const struct aio_engine aio_threads_engine = {
	.name = "threads",
	.open = threads_open,
	.close = threads_close,
	.fd = threads_fd,
	.begin = threads_begin,
	.flush = threads_flush,
	.cancel = threads_cancel,
	.reap = threads_reap,
};
