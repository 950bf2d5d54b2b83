/* SPDX-License-Identifier: Apache-2.0 */
/* Workers: every job runs once and comes back once; stopping loses none. */
#include "base/atomic.h"
#include "base/bits.h"
#include "kvd/work.h"
#include "tests/test.h"
#include <poll.h>

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

TEST_MAIN(work, cmocka_unit_test(test_jobs_come_back),
	  cmocka_unit_test(test_stop_finishes_what_was_submitted))
