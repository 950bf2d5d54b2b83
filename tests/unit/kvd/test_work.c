/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers: every job runs once and comes back once; stopping loses none. A lane keeps the order of
 * its jobs, and one that hangs holds up nobody but itself.
 */
#include "base/atomic.h"
#include "base/bits.h"
#include "kvd/work.h"
#include "tests/test.h"
#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/resource.h>
#include <unistd.h>

#define JOBS 1000

struct task {
	struct work_job job;
	int ran;
	int back;
};

static void run(struct work_job *job)
{
	CONTAINER_OF(job, struct task, job)->ran++;
}

static struct task tasks[JOBS];

static void submit(struct work *w, int first, int end)
{
	for (int i = first; i < end; i++) {
		tasks[i] = (struct task){.job.run = run};
		work_submit(w, &tasks[i].job);
	}
}

static int take_all(struct work *w)
{
	int n = 0;

	for (struct work_job *job; (job = work_take(w)); n++)
		CONTAINER_OF(job, struct task, job)->back++;
	return n;
}

static void assert_once(int first, int end)
{
	for (int i = first; i < end; i++) {
		assert_int_equal(tasks[i].ran, 1);
		assert_int_equal(tasks[i].back, 1);
	}
}

static void test_jobs_come_back(void **state)
{
	struct work w;
	int back = 0;

	assert_int_equal(work_init(&w, 3), 0);
	assert_null(work_take(&w));
	submit(&w, 0, JOBS);
	while (back < JOBS) {
		struct pollfd p = {.fd = w.fd, .events = POLLIN};
		assert_int_equal(poll(&p, 1, 30000), 1);
		back += take_all(&w);
	}
	assert_once(0, JOBS);
	work_stop(&w);
	work_fini(&w);
}

static void test_stop_finishes_what_was_submitted(void **state)
{
	struct work w;

	assert_int_equal(work_init(&w, 2), 0);
	submit(&w, 0, JOBS);
	work_stop(&w);
	assert_int_equal(take_all(&w), JOBS);
	assert_once(0, JOBS);
	work_fini(&w);
}

static int lane_order[2][JOBS];
static int lane_ran[2];

static void run_in_lane(struct work_job *job)
{
	int i = (int)(CONTAINER_OF(job, struct task, job) - tasks);

	lane_order[i % 2][lane_ran[i % 2]++] = i;
	CONTAINER_OF(job, struct task, job)->ran++;
}

static void test_lanes_keep_their_order(void **state)
{
	struct work w;

	assert_int_equal(work_init(&w, 2), 0);
	assert_int_equal(work_lane_new(&w), 0);
	assert_int_equal(work_lane_new(&w), 1);
	for (int i = 0; i < JOBS; i++) {
		tasks[i] = (struct task){.job.run = run_in_lane};
		work_submit_lane(&w, (uint32_t)i % 2, &tasks[i].job);
	}
	assert_int_equal(work_stop(&w), 0);
	assert_int_equal(take_all(&w), JOBS);
	assert_once(0, JOBS);
	for (int lane = 0; lane < 2; lane++)
		for (int n = 0; n < JOBS / 2; n++)
			assert_int_equal(lane_order[lane][n], 2 * n + lane);
	work_fini(&w);
}

static void test_lanes_are_limited(void **state)
{
	struct work w;

	assert_int_equal(work_init(&w, 1), 0);
	for (uint32_t i = 0; i < WORK_LANES_MAX; i++)
		assert_int_equal(work_lane_new(&w), i);
	assert_int_equal(work_lane_new(&w), -ENOSPC);
	assert_int_equal(work_stop(&w), 0);
	work_fini(&w);
}

static sem_t hangs, may_end;

static void run_hanging(struct work_job *job)
{
	sem_post(&hangs);
	sem_wait(&may_end);
}

static void test_a_lane_that_hangs_holds_up_nobody_else(void **state)
{
	struct work w;
	struct work_job stuck = {.run = run_hanging};

	sem_init(&hangs, 0, 0);
	sem_init(&may_end, 0, 0);
	assert_int_equal(work_init(&w, 1), 0);
	assert_int_equal(work_lane_new(&w), 0);
	assert_int_equal(work_lane_new(&w), 1);
	work_submit_lane(&w, 0, &stuck);
	sem_wait(&hangs);
	submit(&w, 0, 10);
	tasks[10] = (struct task){.job.run = run};
	work_submit_lane(&w, 1, &tasks[10].job);
	tasks[11] = (struct task){.job.run = run};
	work_submit_lane(&w, 0, &tasks[11].job);
	assert_int_equal(work_stop(&w), -ETIMEDOUT);
	assert_int_equal(take_all(&w), 11);
	assert_once(0, 11);
	assert_int_equal(tasks[11].ran, 0);
	sem_post(&may_end);
	assert_int_equal(work_stop(&w), 0);
	work_fini(&w);
}

/* What was given up is waited for no more, and not freed either. */
static void test_lanes_are_stopped_apart(void **state)
{
	struct work w;
	struct work_job stuck = {.run = run_hanging};

	sem_init(&hangs, 0, 0);
	sem_init(&may_end, 0, 0);
	assert_int_equal(work_init(&w, 1), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(work_lane_new(&w), i);
	work_submit_lane(&w, 1, &stuck);
	sem_wait(&hangs);
	assert_int_equal(work_lanes_stop(&w, 0, 2), -ETIMEDOUT);
	assert_true(work_lane_ended(&w, 0));
	assert_false(work_lane_ended(&w, 1));
	assert_false(work_lane_ended(&w, 2));
	assert_int_equal(work_stop(&w), -ETIMEDOUT);
	assert_true(work_lane_ended(&w, 2));
	sem_post(&may_end);
	while (!work_lane_ended(&w, 1))
		usleep(1000);
	assert_int_equal(work_stop(&w), 0);
	work_fini(&w);
}

static int nice_seen;

static void run_nice(struct work_job *job)
{
	nice_seen = getpriority(PRIO_PROCESS, 0);
}

/* Its thread steps back, and no other does. */
static void test_a_background_lane(void **state)
{
	struct work w;
	struct work_job behind = {.run = run_nice};
	int before = getpriority(PRIO_PROCESS, 0);

	assert_int_equal(work_init(&w, 0), 0);
	assert_int_equal(work_lane_new_background(&w), 0);
	work_submit_lane(&w, 0, &behind);
	assert_int_equal(work_stop(&w), 0);
	assert_int_equal(nice_seen, BITS_MIN(before + 19, 19));
	assert_int_equal(getpriority(PRIO_PROCESS, 0), before);
	work_fini(&w);
}

TEST_MAIN(work, cmocka_unit_test(test_jobs_come_back),
	  cmocka_unit_test(test_stop_finishes_what_was_submitted),
	  cmocka_unit_test(test_lanes_keep_their_order), cmocka_unit_test(test_lanes_are_limited),
	  cmocka_unit_test(test_a_lane_that_hangs_holds_up_nobody_else),
	  cmocka_unit_test(test_lanes_are_stopped_apart), cmocka_unit_test(test_a_background_lane))
