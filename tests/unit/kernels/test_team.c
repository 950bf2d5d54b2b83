/* SPDX-License-Identifier: Apache-2.0 */
/* The team runs every index once per fork, sees the caller's writes, and survives parking. */
#include "kernels/cpu/team.h"
#include "tests/test.h"

#include <errno.h>
#include <unistd.h>

struct count_job {
	uint32_t input;
	uint32_t hits[8];
	uint32_t sums[8];
};

static void count_hit(void *arg, uint32_t index, uint32_t count)
{
	struct count_job *j = arg;

	(void)count;
	j->hits[index]++;
	j->sums[index] += j->input;
}

static void fork_many(uint32_t threads, uint32_t rounds, useconds_t pause_us)
{
	struct count_job job = {0};
	struct team *t;
	uint32_t sum = 0;

	assert_int_equal(team_new(threads, &t), 0);
	assert_int_equal(team_threads(t), threads);
	for (uint32_t i = 0; i < rounds; i++) {
		job.input = i;
		sum += i;
		team_run(t, count_hit, &job);
		if (pause_us)
			usleep(pause_us);
	}
	team_free(t);
	for (uint32_t i = 0; i < threads; i++) {
		assert_int_equal(job.hits[i], rounds);
		assert_int_equal(job.sums[i], sum);
	}
}

static void every_index_runs_once(void **state)
{
	(void)state;
	for (uint32_t threads = 1; threads <= 8; threads++)
		fork_many(threads, 500, 0);
}

/* The pause is longer than the spin: each fork finds the workers parked. */
static void parked_workers_wake(void **state)
{
	(void)state;
	fork_many(2, 50, 200);
	fork_many(5, 50, 200);
}

static void sizes_are_checked(void **state)
{
	struct team *t;

	(void)state;
	assert_int_equal(team_new(TEAM_THREADS_MAX + 1, &t), -EINVAL);
	assert_int_equal(team_new(0, &t), 0);
	assert_int_equal(team_threads(t), team_cores());
	team_free(t);
	team_free(NULL);
}

static void parts_cover_all_items(void **state)
{
	(void)state;
	for (uint32_t items = 0; items < 40; items++)
		for (uint32_t count = 1; count < 9; count++) {
			uint32_t expected = 0;
			uint32_t begin, end;

			for (uint32_t i = 0; i < count; i++) {
				team_part(items, i, count, &begin, &end);
				assert_int_equal(begin, expected);
				assert_true(end - begin <= items / count + 1);
				expected = end;
			}
			assert_int_equal(expected, items);
		}
}

TEST_MAIN(team, cmocka_unit_test(every_index_runs_once), cmocka_unit_test(parked_workers_wake),
	  cmocka_unit_test(sizes_are_checked), cmocka_unit_test(parts_cover_all_items))
