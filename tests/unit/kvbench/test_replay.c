/* SPDX-License-Identifier: Apache-2.0 */
/* Traces, the optimum, and the core in the place of a daemon. */
#include "tests/test.h"
#include "tools/kvbench/replay.h"

#include <base/bits.h>
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#define REQUESTS 3000u
#define POOL 40u

static char path[] = "/tmp/test_replay_XXXXXX";

static void write_file(const char *text)
{
	strcpy(path + strlen(path) - 6, "XXXXXX");
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

/* The file is read and gone. */
static int read_text(const char *text, struct replay_trace *out)
{
	write_file(text);
	int rc = replay_trace_read(path, out);
	unlink(path);
	return rc;
}

/* Conversations that go on, each a chain that shares its first block with all others. */
static void make_trace(struct replay_trace *t, uint32_t chains, uint32_t blocks_max)
{
	uint64_t random = 11;

	*t = (struct replay_trace){
		.ids = malloc(sizeof(*t->ids) * REQUESTS * blocks_max),
		.first = malloc(sizeof(*t->first) * (REQUESTS + 1)),
		.request_count = REQUESTS,
		.longest = blocks_max,
		.id_end = 1 + chains * blocks_max,
	};
	t->first[0] = 0;
	for (uint32_t r = 0; r < REQUESTS; r++) {
		uint32_t chain = (uint32_t)(test_random(&random) % chains);
		uint32_t blocks = 1 + (uint32_t)(test_random(&random) % blocks_max);
		chain = chain * chain / chains;
		for (uint32_t b = 0; b < blocks; b++)
			t->ids[t->id_count++] =
				b == 0 && blocks_max > 1 ? 0 : 1 + chain * blocks_max + b;
		t->first[r + 1] = t->id_count;
	}
}

static int replay(const struct replay_trace *t, const char *policy, uint32_t blocks,
		  uint32_t file_blocks, struct replay_result *out)
{
	const struct replay_pool pool = {
		.policy = policy, .blocks = blocks, .file_blocks = file_blocks};

	return replay_core(t, &pool, out);
}

static void traces_are_read(void **state)
{
	struct replay_trace t;

	assert_int_equal(
		read_text("{\"hash_ids\": [0, 1, 7], \"x\": 3}\n{\"hash_ids\": [5]}\n", &t), 0);
	assert_int_equal(t.request_count, 2);
	assert_int_equal(t.id_count, 4);
	assert_int_equal(t.longest, 3);
	assert_int_equal(t.id_end, 8);
	assert_int_equal(t.first[1], 3);
	assert_int_equal(t.ids[2], 7);
	assert_int_equal(t.ids[3], 5);
	replay_trace_free(&t);
}

static void wrong_traces_are_refused(void **state)
{
	static const char *const wrong[] = {
		"",
		"nothing\n",
		"{}\n",
		"{\"hash_ids\": 3}\n",
		"{\"hash_ids\": []}\n",
		"{\"hash_ids\": [-1]}\n",
		"{\"hash_ids\": [1]}\n{\"hash_ids\": [\"1\"]}\n",
		"{\"hash_ids\": [67108864]}\n",
	};
	struct replay_trace t;

	for (uint32_t i = 0; i < ARRAY_LEN(wrong); i++)
		assert_int_equal(read_text(wrong[i], &t), -EINVAL);
	assert_int_equal(replay_trace_read("/nowhere/at/all", &t), -ENOENT);
}

static void optimum_by_hand(void **state)
{
	uint32_t ids[] = {1, 2, 1, 3, 2, 1};
	uint64_t first[] = {0, 1, 2, 3, 4, 5, 6};
	const struct replay_trace t = {.ids = ids,
				       .first = first,
				       .id_count = 6,
				       .request_count = 6,
				       .longest = 1,
				       .id_end = 4};
	struct replay_result r;

	assert_int_equal(replay_optimum(&t, 2, &r), 0);
	assert_int_equal(r.found, 2);
	assert_int_equal(r.late_count, 3);
	assert_int_equal(r.late_found, 1);
	assert_int_equal(replay_optimum(&t, 3, &r), 0);
	assert_int_equal(r.found, 3);
}

/* How many of single blocks a plain LRU finds: the stack of what was used, newest first. */
static uint64_t plain_lru(const struct replay_trace *t, uint32_t size)
{
	uint32_t stack[POOL];
	uint32_t count = 0;
	uint64_t found = 0;

	for (uint64_t i = 0; i < t->id_count; i++) {
		uint32_t at = 0;
		while (at < count && stack[at] != t->ids[i])
			at++;
		found += at < count;
		if (at == count)
			count += count < size;
		at = at < count ? at : count - 1;
		memmove(stack + 1, stack, at * sizeof(*stack));
		stack[0] = t->ids[i];
	}
	return found;
}

static void core_is_lru(void **state)
{
	struct replay_trace t;
	struct replay_result r;

	make_trace(&t, 100, 1);
	assert_int_equal(replay(&t, "lru", POOL, 0, &r), 0);
	assert_int_equal(r.found, plain_lru(&t, POOL));
	assert_true(r.found > 0 && r.late_found < r.found);
	replay_trace_free(&t);
}

/* Nobody is better than who knows the future, and all are as good if nothing must go. */
static void optimum_is_the_best(void **state)
{
	static const char *const policies[] = {"lru", "s3fifo", "cost"};
	struct replay_trace t;
	struct replay_result best, all, r;

	make_trace(&t, 60, 8);
	assert_int_equal(replay_optimum(&t, POOL, &best), 0);
	assert_int_equal(replay_optimum(&t, t.id_end, &all), 0);
	for (uint32_t i = 0; i < ARRAY_LEN(policies); i++) {
		assert_int_equal(replay(&t, policies[i], POOL, 0, &r), 0);
		assert_true(r.found > 0 && r.found < best.found);
		uint64_t found = r.found;
		assert_int_equal(replay(&t, policies[i], POOL, 0, &r), 0);
		assert_int_equal(r.found, found);
		assert_int_equal(replay(&t, policies[i], t.id_end, 0, &r), 0);
		assert_int_equal(r.found, all.found);
		assert_int_equal(r.late_found, all.late_found);
	}
	assert_int_equal(replay(&t, "best", POOL, 0, &r), -EINVAL);
	replay_trace_free(&t);
}

/* A request that is longer than the pool is no hit and no failure. */
static void too_long_is_not_cached(void **state)
{
	struct replay_trace t;
	struct replay_result r;

	assert_int_equal(read_text("{\"hash_ids\": [1, 2]}\n{\"hash_ids\": [1, 2, 3, 4, 5]}\n"
				   "{\"hash_ids\": [1, 2]}\n",
				   &t),
			 0);
	assert_int_equal(replay(&t, "lru", 4, 0, &r), 0);
	assert_int_equal(r.found, 2);
	replay_trace_free(&t);
}

/* What lies in the file is found; a file that holds everything loses nothing. */
static void file_keeps_what_the_pool_cannot(void **state)
{
	static const char *const policies[] = {"lru", "s3fifo", "cost"};
	struct replay_trace t;
	struct replay_result all, with, without;

	make_trace(&t, 60, 8);
	assert_int_equal(replay_optimum(&t, t.id_end, &all), 0);
	for (uint32_t i = 0; i < ARRAY_LEN(policies); i++) {
		assert_int_equal(replay(&t, policies[i], POOL, 0, &without), 0);
		assert_int_equal(replay(&t, policies[i], POOL, 128, &with), 0);
		assert_true(with.found > without.found && with.stores > 0);
		assert_int_equal(replay(&t, policies[i], POOL, 1024, &with), 0);
		assert_int_equal(with.found, all.found);
	}
	replay_trace_free(&t);
}

/* Each second block comes again after ONCE_PERIOD others, the others never: not worth a write. */
#define ONCE_REQUESTS 20000u
#define ONCE_PERIOD 160u

static void what_comes_once_is_not_written(void **state)
{
	struct replay_trace t = {
		.ids = malloc(sizeof(*t.ids) * ONCE_REQUESTS),
		.first = malloc(sizeof(*t.first) * (ONCE_REQUESTS + 1)),
		.request_count = ONCE_REQUESTS,
		.longest = 1,
		.id_count = ONCE_REQUESTS,
		.id_end = ONCE_PERIOD + ONCE_REQUESTS,
	};
	struct replay_pool pool = {
		.policy = "cost", .blocks = POOL, .file_blocks = 64, .store = CORE_STORE_USED};
	struct replay_result used, all;

	for (uint32_t r = 0; r <= ONCE_REQUESTS; r++)
		t.first[r] = r;
	for (uint32_t r = 0; r < ONCE_REQUESTS; r++)
		t.ids[r] = r % 2 ? ONCE_PERIOD + r : r % ONCE_PERIOD;
	assert_int_equal(replay_core(&t, &pool, &used), 0);
	pool.store = CORE_STORE_ALL;
	assert_int_equal(replay_core(&t, &pool, &all), 0);
	assert_true(used.found >= all.found);
	assert_true(used.stores > 0 && used.stores < all.stores / 2);
	replay_trace_free(&t);
}

/* Runs kvbench on the file; returns its exit status and what it said. */
static int run(const char *args, char *out, size_t size)
{
	char command[512];

	snprintf(command, sizeof(command), "%s replay %s 2>&1", getenv("KVBENCH_BIN"), args);
	FILE *pipe = popen(command, "re");
	assert_non_null(pipe);
	size_t n = fread(out, 1, size - 1, pipe);
	out[n] = '\0';
	return WEXITSTATUS(pclose(pipe));
}

static void program_says_it(void **state)
{
	static char out[8192];
	char args[128];

	write_file("{\"hash_ids\": [1, 2]}\n{\"hash_ids\": [1, 2]}\n");
	snprintf(args, sizeof(args), "%s --blocks 100 --policy s3fifo --json", path);
	assert_int_equal(run(args, out, sizeof(out)), 0);
	assert_non_null(strstr(out, "{\"bench\":\"replay\",\"case\":\"100\",\"value\":0.5,"));
	assert_non_null(strstr(out, "\"case\":\"100 cost, second half\",\"value\":1.0,"));
	snprintf(args, sizeof(args), "%s --blocks 100 --file-blocks 128 --json", path);
	assert_int_equal(run(args, out, sizeof(out)), 0);
	assert_non_null(strstr(out, "\"case\":\"100 file 128 used, writes avoided\""));
	snprintf(args, sizeof(args), "%s --policy best", path);
	assert_int_equal(run(args, out, sizeof(out)), 2);
	unlink(path);
	assert_int_equal(run("", out, sizeof(out)), 2);
	assert_int_equal(run(path, out, sizeof(out)), 1);
	assert_non_null(strstr(out, path));
}

TEST_MAIN(kvbench_replay, cmocka_unit_test(traces_are_read),
	  cmocka_unit_test(wrong_traces_are_refused), cmocka_unit_test(optimum_by_hand),
	  cmocka_unit_test(core_is_lru), cmocka_unit_test(optimum_is_the_best),
	  cmocka_unit_test(too_long_is_not_cached),
	  cmocka_unit_test(file_keeps_what_the_pool_cannot),
	  cmocka_unit_test(what_comes_once_is_not_written), cmocka_unit_test(program_says_it))
