/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues, threads, a queue back. One lock guards all lists; it is held for a few pointer moves
 * only, so the loop never waits for a job. The eventfd is written after each job: its counter
 * wakes the loop, and work_take() returns NULL when nothing is left. A job of a lane may never
 * end, because a driver hangs; nobody waits for it but the lane's next jobs.
 */
#include "kvd/work.h"
#include "base/bits.h"
#include "base/units.h"
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define WORK_BACKGROUND_NICE 19

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
	struct work_lane *lane = arg;
	struct work *w = lane->work;

	/* Of this thread alone. Where it is refused, all are equal. */
	if (lane->nice)
		(void)!nice(lane->nice);
	for (;;) {
		pthread_mutex_lock(&w->lock);
		while (list_empty(&lane->todo) && !lane->stop)
			pthread_cond_wait(&lane->more, &w->lock);
		struct work_job *job = work_pop(&lane->todo);
		if (!job && lane != &w->any) {
			lane->ended = true;
			pthread_cond_broadcast(&w->lane_ended);
		}
		pthread_mutex_unlock(&w->lock);
		if (!job)
			return NULL;
		job->run(job);
		work_finish(w, job);
	}
}

static void work_lane_init(struct work *w, struct work_lane *lane)
{
	lane->work = w;
	list_init(&lane->todo);
	pthread_cond_init(&lane->more, NULL);
}

/* Its timed waits are not moved by whoever sets the clock. */
static void work_monotonic_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

int work_init(struct work *w, uint32_t thread_count)
{
	int r;

	*w = (struct work){.fd = -1};
	list_init(&w->ready);
	pthread_mutex_init(&w->lock, NULL);
	work_monotonic_init(&w->lane_ended);
	work_lane_init(w, &w->any);
	w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = w->fd < 0 ? -errno : 0;
	while (r == 0 && w->thread_count < BITS_MIN(thread_count, WORK_THREADS_MAX)) {
		r = -pthread_create(&w->threads[w->thread_count], NULL, work_main, &w->any);
		if (r == 0)
			w->thread_count++;
	}
	if (r < 0) {
		(void)work_stop(w);
		work_fini(w);
	}
	return r;
}

static int work_lane_make(struct work *w, int nice)
{
	struct work_lane *lane = &w->lanes[w->lane_count];

	if (w->lane_count == WORK_LANES_MAX)
		return -ENOSPC;
	work_lane_init(w, lane);
	lane->nice = nice;
	int r = -pthread_create(&lane->thread, NULL, work_main, lane);
	if (r < 0) {
		pthread_cond_destroy(&lane->more);
		return r;
	}
	return (int)w->lane_count++;
}

int work_lane_new(struct work *w)
{
	return work_lane_make(w, 0);
}

int work_lane_new_background(struct work *w)
{
	return work_lane_make(w, WORK_BACKGROUND_NICE);
}

static void work_submit_to(struct work *w, struct work_lane *lane, struct work_job *job)
{
	pthread_mutex_lock(&w->lock);
	list_push_back(&lane->todo, &job->link);
	pthread_cond_signal(&lane->more);
	pthread_mutex_unlock(&w->lock);
}

void work_submit(struct work *w, struct work_job *job)
{
	work_submit_to(w, &w->any, job);
}

void work_submit_lane(struct work *w, uint32_t lane, struct work_job *job)
{
	work_submit_to(w, &w->lanes[lane], job);
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

/* All of [first, behind) together get WORK_STOP_MS, but for those that were given up before. */
static bool work_lanes_end(struct work *w, uint32_t first, uint32_t behind)
{
	struct timespec end;
	bool all = true;
	int r = 0;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += WORK_STOP_MS / 1000;
	pthread_mutex_lock(&w->lock);
	for (uint32_t i = first; i < behind; i++) {
		struct work_lane *lane = &w->lanes[i];

		while (!lane->ended && !lane->given_up && r == 0)
			r = pthread_cond_timedwait(&w->lane_ended, &w->lock, &end);
		all = all && lane->ended;
	}
	pthread_mutex_unlock(&w->lock);
	return all;
}

/* Whoever has ended is joined, also where another hangs. */
static int work_join_lanes(struct work *w)
{
	bool all = work_lanes_end(w, 0, w->lane_count);

	for (uint32_t i = 0; i < w->lane_count; i++) {
		struct work_lane *lane = &w->lanes[i];

		pthread_mutex_lock(&w->lock);
		bool join = lane->ended && !lane->joined;
		pthread_mutex_unlock(&w->lock);
		if (!join)
			continue;
		pthread_join(lane->thread, NULL);
		pthread_cond_destroy(&lane->more);
		lane->joined = true;
	}
	return all ? 0 : -ETIMEDOUT;
}

static void work_stop_lane(struct work_lane *lane)
{
	pthread_mutex_lock(&lane->work->lock);
	lane->stop = true;
	pthread_cond_broadcast(&lane->more);
	pthread_mutex_unlock(&lane->work->lock);
}

int work_lanes_stop(struct work *w, uint32_t first, uint32_t count)
{
	for (uint32_t i = first; i < first + count; i++)
		work_stop_lane(&w->lanes[i]);
	if (work_lanes_end(w, first, first + count))
		return 0;
	pthread_mutex_lock(&w->lock);
	for (uint32_t i = first; i < first + count; i++)
		w->lanes[i].given_up = !w->lanes[i].ended;
	pthread_mutex_unlock(&w->lock);
	return -ETIMEDOUT;
}

bool work_lane_ended(struct work *w, uint32_t lane)
{
	pthread_mutex_lock(&w->lock);
	bool ended = w->lanes[lane].ended;
	pthread_mutex_unlock(&w->lock);
	return ended;
}

void work_stop_threads(struct work *w)
{
	work_stop_lane(&w->any);
	for (; w->thread_count; w->thread_count--)
		pthread_join(w->threads[w->thread_count - 1], NULL);
}

int work_stop(struct work *w)
{
	work_stop_threads(w);
	for (uint32_t i = 0; i < w->lane_count; i++)
		if (!w->lanes[i].joined)
			work_stop_lane(&w->lanes[i]);
	return work_join_lanes(w);
}

void work_fini(struct work *w)
{
	if (w->fd >= 0)
		close(w->fd);
	w->fd = -1;
	pthread_cond_destroy(&w->lane_ended);
	pthread_cond_destroy(&w->any.more);
	pthread_mutex_destroy(&w->lock);
}
