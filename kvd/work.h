/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worker threads for everything that takes long. The loop submits a job and gets it back, done, by
 * work_take() when the descriptor is readable.
 */
#ifndef KVD_WORK_H
#define KVD_WORK_H

#include "base/list.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define WORK_THREADS_MAX 64u

/* Embedded in what the job is about. Between submit and take it belongs to the workers. */
struct work_job {
	struct list_link link;
	void (*run)(struct work_job *job);  /* on a worker */
	void (*done)(struct work_job *job); /* called by the taker, if it likes */
};

struct work {
	pthread_mutex_t lock; /* guards the lists and `stop` */
	pthread_cond_t more;
	struct list_link todo;
	struct list_link ready;
	bool stop;
	int fd; /* eventfd: readable when `ready` is not empty */
	uint32_t thread_count;
	pthread_t threads[WORK_THREADS_MAX];
};

/* 0 or -errno. The threads have all signals blocked that the caller has blocked. */
int work_init(struct work *w, uint32_t thread_count);
void work_submit(struct work *w, struct work_job *job);
/* The next job that has run, or NULL. */
struct work_job *work_take(struct work *w);
/* Waits for the jobs that run; those that have not begun run now. Take what is ready after it. */
void work_stop(struct work *w);
/* After work_stop(), or on what failed to start; a zeroed struct is not fine. */
void work_fini(struct work *w);

#endif
