/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue, some threads, a queue back. One lock guards both lists; it is held for a few pointer
 * moves only, so the loop never waits for a job. The eventfd is written after each job: its counter
 * wakes the loop, and work_take() returns NULL when nothing is left.
 */
#include "kvd/work.h"
#include "base/bits.h"
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* The oldest job of a list, or NULL. The lock is held. */
static struct work_job *work_pop(struct list_link *list)
{
	if (list_empty(list))
		return NULL;
	struct work_job *job = CONTAINER_OF(list->next, struct work_job, link);
	list_remove(&job->link);
	return job;
}

static void work_finish(struct work *w, struct work_job *job)
{
	uint64_t one = 1;

	pthread_mutex_lock(&w->lock);
	list_push_back(&w->ready, &job->link);
	pthread_mutex_unlock(&w->lock);
	(void)!write(w->fd, &one, sizeof(one));
}

static void *work_main(void *arg)
{
	struct work *w = arg;

	for (;;) {
		pthread_mutex_lock(&w->lock);
		while (list_empty(&w->todo) && !w->stop)
			pthread_cond_wait(&w->more, &w->lock);
		struct work_job *job = work_pop(&w->todo);
		pthread_mutex_unlock(&w->lock);
		if (!job)
			return NULL;
		job->run(job);
		work_finish(w, job);
	}
}

int work_init(struct work *w, uint32_t thread_count)
{
	int r;

	*w = (struct work){.fd = -1};
	list_init(&w->todo);
	list_init(&w->ready);
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->more, NULL);
	w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = w->fd < 0 ? -errno : 0;
	while (r == 0 && w->thread_count < BITS_MIN(thread_count, WORK_THREADS_MAX)) {
		r = -pthread_create(&w->threads[w->thread_count], NULL, work_main, w);
		if (r == 0)
			w->thread_count++;
	}
	if (r < 0) {
		work_stop(w);
		work_fini(w);
	}
	return r;
}

void work_submit(struct work *w, struct work_job *job)
{
	pthread_mutex_lock(&w->lock);
	list_push_back(&w->todo, &job->link);
	pthread_cond_signal(&w->more);
	pthread_mutex_unlock(&w->lock);
}

struct work_job *work_take(struct work *w)
{
	uint64_t count;

	(void)!read(w->fd, &count, sizeof(count));
	pthread_mutex_lock(&w->lock);
	struct work_job *job = work_pop(&w->ready);
	pthread_mutex_unlock(&w->lock);
	return job;
}

void work_stop(struct work *w)
{
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_cond_broadcast(&w->more);
	pthread_mutex_unlock(&w->lock);
	for (uint32_t i = 0; i < w->thread_count; i++)
		pthread_join(w->threads[i], NULL);
	w->thread_count = 0;
}

void work_fini(struct work *w)
{
	if (w->fd >= 0)
		close(w->fd);
	w->fd = -1;
	pthread_cond_destroy(&w->more);
	pthread_mutex_destroy(&w->lock);
}
