/* SPDX-License-Identifier: Apache-2.0 */
/* Pages are found in the slabs that hold them, also when slabs come and go in any order; a slab
 * whose pages are under way cannot go. */
#include "kvd/slabmap.h"
#include "tests/test.h"
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLABS 40u

static bool present[SLABS];

/* Slab n holds pages [10 n, 10 n + 7). */
static void check_all(const struct slabmap *m)
{
	for (uint32_t page = 0; page < 10 * SLABS + 20; page++) {
		const struct slabmap_slab *s = slabmap_find(m, page);
		uint32_t n = page / 10;
		bool there = n < SLABS && page % 10 < 7 && present[n];
		assert_int_equal(s != NULL, there);
		if (s)
			assert_int_equal(s->address, 1000 + n);
	}
}

static void test_come_and_go(void **state)
{
	uint64_t seed = 5;
	struct slabmap m;

	assert_int_equal(slabmap_init(&m, SLABS), 0);
	check_all(&m);
	for (uint32_t round = 0; round < 500; round++) {
		uint32_t n = (uint32_t)(test_random(&seed) % SLABS);
		struct slabmap_slab s = {
			.first_page = 10 * n, .page_count = 7, .address = 1000 + n};
		if (present[n])
			slabmap_remove(&m, 10 * n);
		else
			slabmap_add(&m, &s);
		present[n] = !present[n];
		check_all(&m);
	}
	slabmap_remove(&m, UINT32_MAX);
	slabmap_remove(&m, 3);
	check_all(&m);
	slabmap_fini(&m);
}

static int status_of(void (*what)(struct slabmap *m))
{
	struct slabmap_slab s = {.first_page = 20, .page_count = 7};
	struct slabmap m;
	int status;

	assert_int_equal(slabmap_init(&m, SLABS), 0);
	slabmap_add(&m, &s);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)!freopen("/dev/null", "w", stderr);
		signal(SIGABRT, SIG_DFL);
		what(&m);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	slabmap_fini(&m);
	return status;
}

static void remove_free(struct slabmap *m)
{
	slabmap_remove(m, 20);
}

static void remove_held(struct slabmap *m)
{
	slabmap_find(m, 22)->holds++;
	slabmap_remove(m, 20);
}

static void add_over(struct slabmap *m)
{
	struct slabmap_slab s = {.first_page = 15, .page_count = 6};

	slabmap_add(m, &s);
}

static void test_bugs_are_seen(void **state)
{
	int status = status_of(remove_free);

	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	status = status_of(remove_held);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	status = status_of(add_over);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

TEST_MAIN(slabmap, cmocka_unit_test(test_come_and_go), cmocka_unit_test(test_bugs_are_seen))
