/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps that are chosen while one is under way: every answer has the bits that it has when each
 * step waits for the one before. On the device that KVD_TEST_DEVICE names, else on late.h.
 */
#include "base/bits.h"
#include "base/units.h"
#include "tests/test.h"
#include "tests/unit/engine/late.h"
#include "tests/unit/engine/world.h"

static uint32_t prompt[WORLD_TOKENS_MAX];

static struct world_options options(bool overlap)
{
	struct world_options o = world_defaults;

	o.no_overlap = !overlap;
	return o;
}

/* The same requests in both ways; `o` says what else is special. */
static void same_both_ways(const struct world_options *o, const struct client *wanted,
			   uint32_t count, struct engine_stats *out_stats)
{
	static struct client c[2][8];
	struct engine_stats stats[2];

	for (int way = 0; way < 2; way++) {
		struct world_options here = *o;
		struct world w;

		here.no_overlap = way == 0;
		world_init(&w, &here);
		for (uint32_t i = 0; i < count; i++) {
			c[way][i] = wanted[i];
			world_submit(&w, &c[way][i]);
			world_turn(&w);
		}
		world_run(&w, c[way], count);
		stats[way] = w.stats;
		world_fini(&w);
	}
	for (uint32_t i = 0; i < count; i++)
		assert_same_answer(&c[1][i], &c[0][i]);
	assert_int_equal(stats[0].early_steps, 0);
	assert_int_equal(stats[0].wasted_rows, 0);
	*out_stats = stats[1];
}

static void answers_do_not_depend_on_it(void **state)
{
	static struct client c[5];
	const struct world_options o = options(true);
	struct engine_stats stats;

	for (uint32_t i = 0; i < 5; i++) {
		client_init(&c[i], prompt + 9 * i, 1 + 23 * i, 4 + 5 * i);
		c[i].args.sampling.temperature = i == 2 ? 0 : 0.8f;
		c[i].args.use_cache = i != 3;
	}
	same_both_ways(&o, c, 5, &stats);
	assert_true(stats.early_steps > stats.steps / 2);
	/* Where the length ends an answer, nobody is surprised. */
	assert_int_equal(stats.wasted_rows, 0);
}

static void recorded_steps_too(void **state)
{
	static struct client c[2];
	struct world_options o = options(true);
	struct engine_stats stats;

	o.graphs = true;
	o.sequences_max = 2;
	client_init(&c[0], prompt, 40, 12);
	client_init(&c[1], prompt + 3, 7, 15);
	same_both_ways(&o, c, 2, &stats);
	assert_true(stats.early_steps > 0);
}

static void a_step_is_submitted_before_results_are_read(void **state)
{
	const struct world_options o = options(true);
	static struct client c;
	struct world w;

	world_init(&w, &o);
	client_init(&c, prompt, 20, 12);
	world_submit(&w, &c);
	while (step_under_way(w.step) == 0)
		world_turn(&w);
	for (uint32_t i = 0; i < 12 - 1; i++) {
		uint64_t finished = w.stats.steps;
		uint32_t known = c.seq->token_count;

		w.now_ns += UNITS_NS_PER_MS;
		sched_tick(&w.sched, w.now_ns);
		assert_int_equal(step_start(w.step, &w.sched), STEP_STARTED);
		assert_int_equal(step_under_way(w.step), 2);
		/* Nothing of the step before is known yet. */
		assert_int_equal(w.stats.steps, finished);
		assert_int_equal(c.seq->token_count, known);
		assert_int_equal(w.stats.early_steps, i + 1);
		assert_int_equal(step_finish(w.step, &w.sched, 1), 0);
		assert_int_equal(c.seq->token_count, known + 1);
		(void)step_tell(w.step, &w.sched);
	}
	world_run(&w, &c, 1);
	assert_int_equal(c.count, 12);
	world_fini(&w);
}

/* The end is learnt a step too late: a row for nothing, whose token nobody hears of. */
static void end_tokens_waste_one_row(void **state)
{
	static struct client free_run, c[4];
	const struct world_options o = options(true);
	struct engine_stats stats;
	uint32_t first = 0;

	client_init(&c[0], prompt, 20, 30);
	c[0].args.sampling.temperature = 0;
	world_expected(&c[0], &free_run);
	for (uint32_t i = 1; i < 24; i++) {
		bool seen = false;

		for (uint32_t before = 0; before < i; before++)
			seen |= free_run.tokens[before] == free_run.tokens[i];
		first = seen ? first : i;
	}
	assert_true(first > 0);
	c[0].args.end_tokens[0] = free_run.tokens[first];
	c[0].args.end_count = 1;
	c[1] = c[2] = c[3] = c[0];
	c[1].args.min_tokens = 25;
	c[2].args.ignore_end = true;
	c[3].args.min_tokens = first; /* just allowed */
	same_both_ways(&o, c, 4, &stats);
	assert_in_range(stats.wasted_rows, 1, 3);
}

/* What a wasted row wrote is neither sealed nor kept. */
static void waste_is_not_kept(void **state)
{
	static struct client free_run, c, again;
	uint32_t longer[80], sealed[2], cached[2];

	client_init(&c, prompt, 20, 40);
	world_expected(&c, &free_run);
	for (uint32_t at = 8; at < 30; at++) {
		for (int way = 0; way < 2; way++) {
			const struct world_options o = options(way);
			struct standin_counts counts;
			struct world w;

			client_init(&c, prompt, 20, 40);
			c.args.end_tokens[0] = free_run.tokens[at];
			c.args.end_count = 1;
			world_init(&w, &o);
			world_submit(&w, &c);
			world_run(&w, &c, 1);
			world_turn(&w);
			standin_counts(w.kv, &counts);
			assert_int_equal(counts.leases, 0);
			sealed[way] = counts.sealed_blocks;
			memcpy(longer, prompt, 20 * sizeof(*longer));
			memcpy(longer + 20, c.tokens, c.count * sizeof(*longer));
			client_init(&again, longer, 20 + c.count, 3);
			world_submit(&w, &again);
			world_run(&w, &again, 1);
			cached[way] = again.done.cached_tokens;
			world_fini(&w);
		}
		assert_int_equal(sealed[1], sealed[0]);
		assert_int_equal(cached[1], cached[0]);
	}
}

static void alternatives_are_of_the_right_step(void **state)
{
	static struct client c[3];
	const struct world_options o = options(true);
	struct engine_stats stats;

	for (uint32_t i = 0; i < 3; i++)
		client_init(&c[i], prompt + i, 30 + i, 10);
	c[1].args.logprobs = 3;
	c[2].args.prompt_logprobs = true;
	same_both_ways(&o, c, 3, &stats);
	/* Logits are read from where the next step's will be: it has to wait. */
	c[0].args.logprobs = 1;
	same_both_ways(&o, c, 1, &stats);
	assert_int_equal(stats.early_steps, 0);
}

static void preempted_ones_go_on(void **state)
{
	static struct client c[4];
	struct world_options o = options(true);
	struct engine_stats stats;

	for (uint32_t i = 0; i < 4; i++)
		client_init(&c[i], prompt + 50 * i, 29 - 2 * i, 40);
	for (o.pages = 12; o.pages < 14; o.pages++) {
		same_both_ways(&o, c, 4, &stats);
		assert_true(stats.preemptions > 0 && stats.early_steps > 0);
	}
}

/* The lease goes when the row that is under way has ended, and not before. */
static void a_revoked_lease_waits_for_the_step(void **state)
{
	static struct client c[2], want;
	const struct world_options o = options(true);
	struct world w;

	world_init(&w, &o);
	for (uint32_t i = 0; i < 2; i++) {
		client_init(&c[i], prompt + 31 * i, 37, 24);
		world_submit(&w, &c[i]);
	}
	while (c[1].count < 5)
		world_turn(&w);
	standin_revoke(c[0].seq->lease);
	w.now_ns += UNITS_NS_PER_MS;
	sched_tick(&w.sched, w.now_ns);
	assert_int_equal(c[0].seq->flights, 1);
	assert_non_null(c[0].seq->lease);
	world_turn(&w);
	assert_int_equal(c[0].seq->flights, 0);
	world_turn(&w);
	assert_int_not_equal(c[0].seq->state, SEQ_RUNNING);
	world_run(&w, c, 2);
	for (uint32_t i = 0; i < 2; i++) {
		world_expected(&c[i], &want);
		assert_same_answer(&c[i], &want);
	}
	world_fini(&w);
}

static void prefixes_are_shared(void **state)
{
	static struct client c[4];
	const struct world_options o = options(true);
	struct engine_stats stats;

	/* Twins, a longer one, and one that continues their tail. */
	client_init(&c[0], prompt, 64, 6);
	client_init(&c[1], prompt, 64, 6);
	client_init(&c[2], prompt, 90, 6);
	client_init(&c[3], prompt, 76, 6);
	same_both_ways(&o, c, 4, &stats);
	assert_true(stats.step_tokens < 64 + 90 + 76);
}

static void cancel_in_mid_stream(void **state)
{
	static struct client c[2], want[2];
	const struct world_options o = options(true);

	for (uint32_t i = 0; i < 2; i++) {
		client_init(&c[i], prompt + i, 40, 30);
		world_expected(&c[i], &want[i]);
	}
	for (uint32_t after = 1; after < 20; after += 3) {
		struct standin_counts counts;
		struct world w;

		world_init(&w, &o);
		for (uint32_t i = 0; i < 2; i++) {
			client_init(&c[i], prompt + i, 40, 30);
			world_submit(&w, &c[i]);
		}
		while (c[0].count < after)
			world_turn(&w);
		c[0].seq->cancelled = true;
		w.now_ns += UNITS_NS_PER_MS;
		sched_tick(&w.sched, w.now_ns);
		/* The client knows at once; its pages are lent until its row is through. */
		assert_int_equal(c[0].done.finish, ENGINE_FINISH_CANCELLED);
		standin_counts(w.kv, &counts);
		assert_int_equal(counts.leases, 2);
		world_turn(&w);
		world_turn(&w);
		standin_counts(w.kv, &counts);
		assert_int_equal(counts.leases, 1);
		world_run(&w, &c[1], 1);
		assert_same_answer(&c[1], &want[1]);
		assert_memory_equal(c[0].tokens, want[0].tokens, c[0].count * 4);
		world_fini(&w);
	}
}

static void no_step_is_under_way_while_kvd_is_gone(void **state)
{
	static struct client c[2], want;
	const struct world_options o = options(true);
	struct world w;

	world_init(&w, &o);
	for (uint32_t i = 0; i < 2; i++) {
		client_init(&c[i], prompt + 31 * i, 40, 24);
		world_submit(&w, &c[i]);
	}
	while (c[1].count < 3)
		world_turn(&w);
	assert_int_equal(step_under_way(w.step), 1);
	standin_die(w.kv);
	world_turn(&w);
	for (int i = 0; i < 5; i++) {
		world_turn(&w);
		assert_int_equal(step_under_way(w.step), 0);
	}
	standin_come_back(w.kv);
	world_run(&w, c, 2);
	for (uint32_t i = 0; i < 2; i++) {
		world_expected(&c[i], &want);
		assert_same_answer(&c[i], &want);
	}
	world_fini(&w);
}

static int setup(void **state)
{
	const char *device = getenv("KVD_TEST_DEVICE");
	char error[300] = "";

	world_ops = device ? kernels_open(device, error, sizeof(error)) : late_ops();
	if (!world_ops)
		fail_msg("%s", error);
	assert_true(world_ops->asynchronous);
	world_random_tokens(prompt, WORLD_TOKENS_MAX, 77);
	return 0;
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

TEST_MAIN(overlap, TEST(answers_do_not_depend_on_it), TEST(recorded_steps_too),
	  TEST(a_step_is_submitted_before_results_are_read), TEST(end_tokens_waste_one_row),
	  TEST(waste_is_not_kept), TEST(alternatives_are_of_the_right_step),
	  TEST(preempted_ones_go_on), TEST(a_revoked_lease_waits_for_the_step),
	  TEST(prefixes_are_shared), TEST(cancel_in_mid_stream),
	  TEST(no_step_is_under_way_while_kvd_is_gone))
