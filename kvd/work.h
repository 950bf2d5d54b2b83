/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worker threads for everything that takes long. The loop submits a job and gets it back, done, by
 * work_take() when the descriptor is readable. Beside the threads that take any job there are
 * lanes: a thread each, whose jobs run one after the other, in order. A GPU has one, and a file.
 */
#ifndef KVD_WORK_H
#define KVD_WORK_H

#include "base/list.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define WORK_THREADS_MAX 64u
/* One for each GPU and file, one for questions about processes, one for what nobody waits for. */
#define WORK_LANES_MAX 34u
#define WORK_STOP_MS 2000u

/* Embedded in what the job is about. Between submit and take it belongs to the workers. */
struct work_job {
	struct list_link link;
	void (*run)(struct work_job *job);  /* on a worker */
	void (*done)(struct work_job *job); /* called by the taker, if it likes */
};

struct work;

struct work_lane {
	struct work *work;
	struct list_link todo;
	pthread_cond_t more;
	bool stop;
	bool ended;    /* its thread has left the loop, or has none */
	bool given_up; /* it was waited for */
	bool joined;
	int nice;	  /* than who made it, see nice(2) */
	pthread_t thread; /* of a lane */
};

struct work {
	pthread_mutex_t lock; /* guards the lists, each `stop` and `ended` */
	struct work_lane any; /* of all the threads below */
	struct work_lane lanes[WORK_LANES_MAX];
	uint32_t lane_count;
	pthread_cond_t lane_ended;
	struct list_link ready;
	int fd; /* eventfd: readable when `ready` is not empty */
	uint32_t thread_count;
	pthread_t threads[WORK_THREADS_MAX];
};

/* 0 or -errno. The threads have all signals blocked that the caller has blocked. */
int work_init(struct work *w, uint32_t thread_count);
/* One more lane. Its number is 0 for the first, and so on; or -errno. */
int work_lane_new(struct work *w);
/* The same, for what nobody waits for: its thread leaves the processors to others. */
int work_lane_new_background(struct work *w);
void work_submit(struct work *w, struct work_job *job);
void work_submit_lane(struct work *w, uint32_t lane, struct work_job *job);
/* The next job that has run, or NULL. */
struct work_job *work_take(struct work *w);
/*
 * Ends some lanes, when their jobs have run. 0, or -ETIMEDOUT after WORK_STOP_MS: some go on, see
 * work_lane_ended(), and are not waited for again.
 */
int work_lanes_stop(struct work *w, uint32_t first, uint32_t count);
bool work_lane_ended(struct work *w, uint32_t lane);
/* Ends the threads that take any job, when all those jobs have run. Lanes go on. */
void work_stop_threads(struct work *w);
/*
 * Ends all. Waits for the jobs that run; those that have not begun run now. Take what is ready
 * after it.
 * 0, or -ETIMEDOUT: a lane's job does not end within WORK_STOP_MS (a driver that hangs), or was
 * given up by work_lanes_stop(). Its thread lives on: nothing that it may touch, this struct
 * included, can be freed. May be called again.
 */
int work_stop(struct work *w);
/* After work_stop() said 0, or on what failed to start; a zeroed struct is not fine. */
void work_fini(struct work *w);

#endif
