/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler and the step over a stand-in kvd: whatever happens to a sequence on its way, its
 * tokens and their log probabilities are bitwise those of an undisturbed run alone.
 */
#include "base/bits.h"
#include "base/units.h"
#include "tests/test.h"
#include "tests/unit/engine/late.h"
#include "tests/unit/engine/world.h"

static uint32_t prompt[WORLD_TOKENS_MAX];

static void batch_equals_alone(void **state)
{
	static struct client c[8], want;
	struct world w;

	world_init(&w, &world_defaults);
	for (uint32_t i = 0; i < 8; i++) {
		client_init(&c[i], prompt + 7 * i, 1 + 17 * i, 5 + 3 * i);
		world_submit(&w, &c[i]);
		/* They join at different steps. */
		world_turn(&w);
	}
	world_run(&w, c, 8);
	for (uint32_t i = 0; i < 8; i++) {
		world_expected(&c[i], &want);
		assert_same_answer(&c[i], &want);
		assert_int_equal(c[i].done.finish, ENGINE_FINISH_LENGTH);
		assert_int_equal(c[i].done.completion_tokens, 5 + 3 * i);
	}
	world_fini(&w);
}

static void warm_equals_cold(void **state)
{
	static const uint32_t lengths[] = {1, 15, 16, 17, 32, 48, 100};
	static struct client cold, warm, none;

	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
		uint32_t n = lengths[i];
		struct world w;

		world_init(&w, &world_defaults);
		client_init(&cold, prompt, n, 20);
		client_init(&warm, prompt, n, 20);
		client_init(&none, prompt, n, 20);
		none.args.use_cache = false;
		world_submit(&w, &cold);
		world_run(&w, &cold, 1);
		world_submit(&w, &warm);
		world_run(&w, &warm, 1);
		world_submit(&w, &none);
		world_run(&w, &none, 1);
		assert_same_answer(&warm, &cold);
		assert_same_answer(&none, &cold);
		assert_int_equal(cold.done.cached_tokens, 0);
		assert_int_equal(none.done.cached_tokens, 0);
		assert_int_equal(none.done.lookup_tokens, 0);
		assert_int_equal(warm.done.lookup_tokens, n);
		/* All of the prompt, but where its last block is too short a tail. */
		assert_int_equal(warm.done.cached_tokens, n % 16 < 8 ? n - n % 16 : n);
		world_fini(&w);
	}
}

static void cold_run_publishes_nothing(void **state)
{
	static struct client c;
	struct standin_counts counts;
	struct world w;

	world_init(&w, &world_defaults);
	client_init(&c, prompt, 40, 30);
	c.args.use_cache = false;
	world_submit(&w, &c);
	world_run(&w, &c, 1);
	standin_counts(w.kv, &counts);
	assert_int_equal(counts.sealed_blocks, 0);
	assert_int_equal(counts.node_pages, 0);
	world_fini(&w);
}

static void tail_is_copied_and_continued(void **state)
{
	static struct client first, second, want;
	uint32_t longer[80];
	struct world w;

	world_init(&w, &world_defaults);
	client_init(&first, prompt, 42, 1);
	world_submit(&w, &first);
	world_run(&w, &first, 1);
	memcpy(longer, prompt, sizeof(longer));
	client_init(&second, longer, 80, 10);
	world_submit(&w, &second);
	world_run(&w, &second, 1);
	assert_int_equal(second.done.cached_tokens, 42);
	assert_int_equal(second.done.tail_bytes_copied,
			 kvd_layout_page_bytes(forward_layout(w.forward)));
	world_expected(&second, &want);
	assert_same_answer(&second, &want);
	world_fini(&w);
}

static void evicted_and_computed_again(void **state)
{
	static struct client a, b;
	struct world w;

	world_init(&w, &world_defaults);
	client_init(&a, prompt, 70, 12);
	client_init(&b, prompt, 70, 12);
	world_submit(&w, &a);
	world_run(&w, &a, 1);
	standin_evict_all(w.kv);
	world_submit(&w, &b);
	world_run(&w, &b, 1);
	assert_int_equal(b.done.cached_tokens, 0);
	assert_same_answer(&a, &b);
	world_fini(&w);
}

static void twins_are_computed_once(void **state)
{
	static struct client c[3], want;
	struct world w;

	world_init(&w, &world_defaults);
	for (uint32_t i = 0; i < 3; i++) {
		client_init(&c[i], prompt, 64, 4);
		world_submit(&w, &c[i]);
	}
	world_run(&w, c, 3);
	world_expected(&c[0], &want);
	for (uint32_t i = 0; i < 3; i++)
		assert_same_answer(&c[i], &want);
	/* One prefill; the others a query-only row each, then three rows of decode each. */
	assert_int_equal(w.stats.step_tokens, 64 + 2 + 3 * 3);
	world_fini(&w);
}

static void younger_ones_give_way(void **state)
{
	static struct client c[4], want;
	struct world_options o = world_defaults;
	struct world w;

	o.pages = 20; /* each wants 2 blocks at first, and 8 in the end */
	world_init(&w, &o);
	for (uint32_t i = 0; i < 4; i++) {
		client_init(&c[i], prompt + 50 * i, 20, 100);
		world_submit(&w, &c[i]);
	}
	world_run(&w, c, 4);
	assert_true(w.stats.preemptions > 0);
	for (uint32_t i = 0; i < 4; i++) {
		world_expected(&c[i], &want);
		assert_same_answer(&c[i], &want);
	}
	world_fini(&w);
}

static void magazine_ceiling_is_no_dead_end(void **state)
{
	static struct client c[4], want;
	struct world_options o = world_defaults;
	struct world w;

	o.magazine_max = 0; /* every TOPUP is refused, while there is memory */
	world_init(&w, &o);
	for (uint32_t i = 0; i < 4; i++) {
		client_init(&c[i], prompt + 50 * i, 20, 60);
		world_submit(&w, &c[i]);
	}
	world_run(&w, c, 4);
	for (uint32_t i = 0; i < 4; i++) {
		world_expected(&c[i], &want);
		assert_same_answer(&c[i], &want);
	}
	/* Nothing was computed twice: a new lease a block, and a row or a short tail for each. */
	assert_true(w.stats.step_tokens <= 4 * (20 + 60 + 4 * 8));
	world_fini(&w);
}

static void waiting_requests_do_not_push_running_ones_out(void **state)
{
	static struct client c[6], want;
	struct world_options o = world_defaults;
	struct world w;

	o.pages = 14;
	world_init(&w, &o);
	standin_hold_acquires(w.kv);
	for (uint32_t i = 0; i < 6; i++) {
		client_init(&c[i], prompt + 50 * i, 20, 100);
		world_submit(&w, &c[i]);
	}
	world_run(&w, c, 6);
	/* The oldest never gave way: it ended first, and its time is one token a turn. */
	assert_int_equal(c[0].done.finish, ENGINE_FINISH_LENGTH);
	for (uint32_t i = 1; i < 6; i++)
		assert_true(c[0].done.total_ns < c[i].done.total_ns);
	for (uint32_t i = 0; i < 6; i++) {
		world_expected(&c[i], &want);
		assert_same_answer(&c[i], &want);
	}
	world_fini(&w);
}

static void refusals_have_numbers(void **state)
{
	static struct client big, full, other;
	struct world_options o = world_defaults;
	struct world w;

	o.pages = 8;
	world_init(&w, &o);
	client_init(&big, prompt, 300, 4);
	world_submit(&w, &big);
	world_run(&w, &big, 1);
	assert_int_equal(big.done.finish, ENGINE_FINISH_ERROR);
	assert_int_equal(big.done.status, 400);
	client_init(&other, prompt, 90, 30);
	world_submit(&w, &other);
	for (int i = 0; i < 4; i++)
		world_turn(&w);
	client_init(&full, prompt + 200, 100, 4);
	world_submit(&w, &full);
	world_run(&w, &full, 1);
	assert_int_equal(full.done.status, 503);
	assert_non_null(strstr(full.done.error, "7 pages needed"));
	assert_int_equal(other.done_count, 0);
	world_run(&w, &other, 1);
	assert_int_equal(other.done.finish, ENGINE_FINISH_LENGTH);
	world_fini(&w);
}

/* Alone, with more to say than the pool holds: what was said stands, and is all there is. */
static void outgrowing_the_pool_ends_by_length(void **state)
{
	static struct client c, want;
	struct world_options o = world_defaults;
	struct world w;

	o.pages = 8;
	world_init(&w, &o);
	client_init(&c, prompt, 90, 100);
	world_submit(&w, &c);
	world_run(&w, &c, 1);
	assert_int_equal(c.done.finish, ENGINE_FINISH_LENGTH);
	assert_in_range(c.count, 128 - 90, 99);
	world_expected(&c, &want);
	assert_memory_equal(c.tokens, want.tokens, c.count * sizeof(*c.tokens));
	world_fini(&w);
}

static void follows_a_foreign_builder(void **state)
{
	static struct client c, want;
	struct kvd_lease *foreign;
	struct world w;

	world_init(&w, &world_defaults);
	foreign = standin_foreign_acquire(w.kv, prompt, 64);
	client_init(&c, prompt, 70, 6);
	world_submit(&w, &c);
	for (int i = 0; i < 20; i++)
		assert_false(world_turn(&w));
	/* The builder goes away: a CALL, and the follower computes. */
	standin_foreign_release(w.kv, foreign);
	world_run(&w, &c, 1);
	world_expected(&c, &want);
	assert_same_answer(&c, &want);
	world_fini(&w);
}

/* A foreign lease on 4 blocks of the prompt, with the right bytes: borrowed from a cold run. */
static struct kvd_lease *foreign_with_bytes(struct world *w)
{
	struct kvd_lease *foreign = standin_foreign_acquire(w->kv, prompt, 64);
	static struct client warm;
	uint32_t count;

	client_init(&warm, prompt, 64, 2);
	warm.args.use_cache = false;
	world_submit(w, &warm);
	while (warm.count == 0)
		world_turn(w);
	const uint64_t *from = kv_pages(warm.seq->lease, &count);
	const uint64_t *to = kv_pages(foreign, &count);

	for (uint32_t i = 0; i < 4; i++)
		memcpy((void *)(uintptr_t)to[i], (void *)(uintptr_t)from[i],
		       kvd_layout_page_bytes(forward_layout(w->forward)));
	world_run(w, &warm, 1);
	return foreign;
}

static void starts_when_the_builder_has_sealed(void **state)
{
	static struct client c, want;
	struct kvd_lease *foreign;
	struct world w;

	world_init(&w, &world_defaults);
	foreign = foreign_with_bytes(&w);
	client_init(&c, prompt, 70, 6);
	world_submit(&w, &c);
	for (int i = 0; i < 20; i++)
		assert_false(world_turn(&w));
	standin_foreign_seal(w.kv, foreign, 4);
	world_run(&w, &c, 1);
	assert_int_equal(c.done.cached_tokens, 64);
	world_expected(&c, &want);
	assert_same_answer(&c, &want);
	standin_foreign_release(w.kv, foreign);
	world_fini(&w);
}

static void takes_over_from_a_builder_that_sleeps(void **state)
{
	static struct client c, want;
	struct kvd_lease *foreign;
	struct standin_counts counts;
	struct world w;

	world_init(&w, &world_defaults);
	foreign = standin_foreign_acquire(w.kv, prompt, 64);
	client_init(&c, prompt, 70, 6);
	world_submit(&w, &c);
	for (int i = 0; i < 45; i++)
		assert_false(world_turn(&w));
	standin_counts(w.kv, &counts);
	assert_int_equal(counts.takes, 0);
	world_run(&w, &c, 1);
	standin_counts(w.kv, &counts);
	assert_int_equal(counts.takes, 1);
	world_expected(&c, &want);
	assert_same_answer(&c, &want);
	standin_foreign_release(w.kv, foreign);
	world_fini(&w);
}

/* Where a step takes long, a builder that shows nothing for as long is no dead one. */
static void patience_grows_with_the_steps(void **state)
{
	struct kvd_lease *foreign;
	struct standin_counts counts;
	static struct client c;
	struct world w;

	world_init(&w, &world_defaults);
	foreign = standin_foreign_acquire(w.kv, prompt, 64);
	client_init(&c, prompt, 70, 6);
	world_submit(&w, &c);
	sched_note_step(&w.sched, world_defaults.batch_tokens, 100 * UNITS_NS_PER_MS);
	for (int i = 0; i < 390; i++)
		assert_false(world_turn(&w));
	standin_counts(w.kv, &counts);
	assert_int_equal(counts.takes, 0);
	world_run(&w, &c, 1);
	standin_counts(w.kv, &counts);
	assert_int_equal(counts.takes, 1);
	standin_foreign_release(w.kv, foreign);
	world_fini(&w);
}

/* Whoever waits for a load does so for twice the time of computing it, although it shows progress;
 * and of those who wait, one takes over, and the others follow it. */
static void a_slow_load_is_waited_for_a_little(void **state)
{
	static struct client c[3], want;
	struct kvd_lease *foreign;
	struct standin_counts counts;
	struct world w;

	world_init(&w, &world_defaults);
	foreign = foreign_with_bytes(&w);
	standin_foreign_loads(foreign);
	/* 64 tokens in 80 ms. */
	sched_note_step(&w.sched, 64, 80 * UNITS_NS_PER_MS);
	for (int i = 0; i < 3; i++) {
		client_init(&c[i], prompt, 70 + (uint32_t)i, 6);
		world_submit(&w, &c[i]);
	}
	for (int i = 0; i < 155; i++) {
		assert_false(world_turn(&w));
		if (i % 40 == 39)
			standin_foreign_fill(w.kv, foreign, (uint32_t)i / 40);
	}
	standin_counts(w.kv, &counts);
	assert_int_equal(counts.takes, 0);
	world_run(&w, c, 3);
	standin_counts(w.kv, &counts);
	assert_int_equal(counts.takes, 1);
	assert_true(counts.answers >= 3);
	for (int i = 0; i < 3; i++) {
		world_expected(&c[i], &want);
		assert_same_answer(&c[i], &want);
	}
	standin_foreign_release(w.kv, foreign);
	world_fini(&w);
}

static void streams_go_on_beside_a_load(void **state)
{
	static struct client stream, c;
	struct kvd_lease *foreign;
	struct world w;

	world_init(&w, &world_defaults);
	foreign = standin_foreign_acquire(w.kv, prompt, 64);
	standin_foreign_loads(foreign);
	client_init(&stream, prompt + 500, 40, 60);
	world_submit(&w, &stream);
	while (stream.count < 5)
		world_turn(&w);
	client_init(&c, prompt, 70, 6);
	world_submit(&w, &c);
	for (int i = 0; i < 30; i++)
		assert_true(world_turn(&w));
	assert_true(stream.count >= 30);
	assert_int_equal(c.count, 0);
	world_run(&w, &c, 1);
	world_run(&w, &stream, 1);
	standin_foreign_release(w.kv, foreign);
	world_fini(&w);
}

static void stream_survives_the_daemon(void **state)
{
	static struct client c[3], late, want;
	struct world w;

	world_init(&w, &world_defaults);
	for (uint32_t i = 0; i < 3; i++) {
		client_init(&c[i], prompt + 31 * i, 40, 40);
		world_submit(&w, &c[i]);
	}
	while (c[2].count < 3)
		world_turn(&w);
	standin_die(w.kv);
	world_turn(&w);
	uint32_t before = c[0].count;
	/* With the pages they hold they go on; what is new waits. */
	client_init(&late, prompt, 50, 5);
	world_submit(&w, &late);
	for (int i = 0; i < 30; i++)
		world_turn(&w);
	assert_true(c[0].count > before);
	assert_int_equal(late.count, 0);
	standin_come_back(w.kv);
	world_run(&w, c, 3);
	world_run(&w, &late, 1);
	for (uint32_t i = 0; i < 3; i++) {
		world_expected(&c[i], &want);
		assert_same_answer(&c[i], &want);
	}
	world_expected(&late, &want);
	assert_same_answer(&late, &want);
	world_fini(&w);
}

static void waits_for_the_daemon_no_longer_than_told(void **state)
{
	static struct client c[2];
	struct world w;

	world_init(&w, &world_defaults);
	client_init(&c[0], prompt, 40, 100);
	world_submit(&w, &c[0]);
	while (c[0].count < 3)
		world_turn(&w);
	standin_die(w.kv);
	world_turn(&w);
	client_init(&c[1], prompt, 50, 5);
	world_submit(&w, &c[1]);
	world_run(&w, c, 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(c[i].done.finish, ENGINE_FINISH_ERROR);
		assert_int_equal(c[i].done.status, 503);
		assert_true(c[i].done.total_ns >= UNITS_NS_PER_S);
	}
	standin_come_back(w.kv);
	world_turn(&w);
	world_fini(&w);
}

static void cancel_frees_in_every_state(void **state)
{
	struct world w;

	world_init(&w, &world_defaults);
	for (int turns = 0; turns < 40; turns++) {
		static struct client c[3];

		for (uint32_t i = 0; i < 3; i++) {
			client_init(&c[i], prompt + i, 80, 10);
			world_submit(&w, &c[i]);
		}
		for (int i = 0; i < turns; i++)
			world_turn(&w);
		for (uint32_t i = 0; i < 3; i++) {
			if (c[i].seq)
				c[i].seq->cancelled = true;
		}
		world_run(&w, c, 3);
		for (int i = 0; i < 3; i++)
			world_turn(&w);
		struct standin_counts counts;
		standin_counts(w.kv, &counts);
		assert_int_equal(counts.leases, 0);
		assert_int_equal(counts.free_pages + counts.node_pages, 64);
	}
	world_fini(&w);
}

static void end_tokens_end(void **state)
{
	static struct client free_run, c, later, ignoring;
	uint32_t end;
	struct world w;

	world_init(&w, &world_defaults);
	client_init(&free_run, prompt, 20, 30);
	world_submit(&w, &free_run);
	world_run(&w, &free_run, 1);
	end = free_run.tokens[3];
	client_init(&c, prompt, 20, 30);
	c.args.end_tokens[0] = end;
	c.args.end_count = 1;
	later = ignoring = c;
	later.args.min_tokens = 12;
	ignoring.args.ignore_end = true;
	world_submit(&w, &c);
	world_submit(&w, &later);
	world_submit(&w, &ignoring);
	world_run(&w, &c, 1);
	world_run(&w, &later, 1);
	world_run(&w, &ignoring, 1);
	assert_int_equal(c.done.finish, ENGINE_FINISH_STOP);
	assert_true(c.count <= 4);
	assert_memory_equal(c.tokens, free_run.tokens, c.count * 4);
	assert_true(later.count >= 12);
	for (uint32_t i = 0; i < 12; i++)
		assert_int_not_equal(later.tokens[i], end);
	assert_same_answer(&ignoring, &free_run);
	world_fini(&w);
}

static void prompt_logprobs_come_for_every_position(void **state)
{
	static struct client warm, c, small;
	struct world_options o = world_defaults;
	struct world w;

	world_init(&w, &o);
	client_init(&warm, prompt, 90, 2);
	world_submit(&w, &warm);
	world_run(&w, &warm, 1);
	client_init(&c, prompt, 90, 2);
	c.args.prompt_logprobs = true;
	small = c;
	world_submit(&w, &c);
	world_run(&w, &c, 1);
	assert_int_equal(c.echo_count, 89);
	assert_int_equal(c.done.cached_tokens, 0);
	for (uint32_t i = 1; i < 90; i++)
		assert_true(c.echo[i] < 0 && c.echo[i] > -30);
	world_fini(&w);
	o.chunk_tokens = 5;
	world_init(&w, &o);
	world_submit(&w, &small);
	world_run(&w, &small, 1);
	assert_same_answer(&small, &c);
	world_fini(&w);
}

static void long_prompts_do_not_starve(void **state)
{
	static struct client big, small[200];
	struct world_options o = world_defaults;
	uint32_t sent = 0;
	struct world w;

	o.batch_tokens = 16;
	o.chunk_tokens = 16;
	world_init(&w, &o);
	client_init(&big, prompt, 300, 1);
	world_submit(&w, &big);
	/* Short prompts keep coming, faster than they can be computed. */
	while (big.done_count == 0 && sent < 200) {
		client_init(&small[sent], prompt + sent, 30, 1);
		small[sent].args.use_cache = false;
		world_submit(&w, &small[sent++]);
		world_turn(&w);
	}
	assert_int_equal(big.done_count, 1);
	world_run(&w, small, sent);
	world_fini(&w);
}

/* --- everything at once -------------------------------------------------------------------------
 */

#define CHAOS_CLIENTS 60u

static void chaos_event(struct world *w, struct client *c, uint32_t sent, uint64_t *seed)
{
	struct client *victim = &c[test_random(seed) % sent];

	switch (test_random(seed) % 60) {
	case 0:
		standin_die(w->kv);
		break;
	case 1:
	case 2:
	case 3:
		standin_come_back(w->kv);
		break;
	case 4:
		standin_evict_all(w->kv);
		break;
	case 5:
		if (victim->seq)
			victim->seq->cancelled = true;
		break;
	default:
		break;
	}
}

static void chaos_round(uint64_t seed)
{
	static struct client c[CHAOS_CLIENTS], want;
	struct world_options o = world_defaults;
	uint32_t ended_well = 0, sent = 0;
	struct world w;

	print_message("seed %llu\n", (unsigned long long)seed);
	o.pages = 24;
	o.sequences_max = 5;
	world_init(&w, &o);
	while (sent < CHAOS_CLIENTS) {
		if (test_random(&seed) % 4 == 0) {
			uint32_t from = (uint32_t)(test_random(&seed) % 3) * 16;

			client_init(&c[sent], prompt + from,
				    1 + (uint32_t)(test_random(&seed) % 90),
				    1 + (uint32_t)(test_random(&seed) % 40));
			c[sent].args.use_cache = test_random(&seed) % 8 != 0;
			world_submit(&w, &c[sent++]);
		}
		world_turn(&w);
		if (sent > 0)
			chaos_event(&w, c, sent, &seed);
	}
	standin_come_back(w.kv);
	world_run(&w, c, CHAOS_CLIENTS);
	for (uint32_t i = 0; i < CHAOS_CLIENTS; i++) {
		world_expected(&c[i], &want);
		assert_true(c[i].count <= want.count);
		assert_memory_equal(c[i].tokens, want.tokens, c[i].count * 4);
		ended_well += c[i].done.finish == ENGINE_FINISH_LENGTH;
	}
	assert_true(ended_well > CHAOS_CLIENTS / 3);
	world_fini(&w);
}

static void chaos_changes_no_token(void **state)
{
	const char *replay = getenv("KVD_TEST_SEED");

	if (replay) {
		chaos_round(strtoull(replay, NULL, 10));
		return;
	}
	for (uint64_t seed = 1; seed <= 12; seed++)
		chaos_round(seed);
}

static int fill_prompt(void **state)
{
	if (getenv("KVD_TEST_LATE"))
		world_ops = late_ops();
	world_random_tokens(prompt, WORLD_TOKENS_MAX, 77);
	return 0;
}

#define TEST(name) cmocka_unit_test_setup(name, fill_prompt)

/* Who waits for others is announced once, whatever happens to it later; a cold run never. */
static void who_waits_is_announced(void **state)
{
	static struct client c[4];
	struct world_options o = world_defaults;
	struct standin_counts counts;
	struct world w;

	o.sequences_max = 2;
	world_init(&w, &o);
	for (uint32_t i = 0; i < 4; i++)
		client_init(&c[i], prompt + 50 * i, 40 + i, 8);
	c[2].args.use_cache = false;
	for (uint32_t i = 0; i < 3; i++)
		world_submit(&w, &c[i]);
	standin_counts(w.kv, &counts);
	assert_int_equal(counts.prefetches, 0);
	world_submit(&w, &c[3]);
	standin_counts(w.kv, &counts);
	assert_int_equal(counts.prefetches, 1);
	assert_int_equal(counts.prefetch_tokens, 43);
	assert_int_equal(counts.acquires, 0);
	world_turn(&w);
	standin_die(w.kv);
	standin_come_back(w.kv);
	world_run(&w, c, 4);
	standin_counts(w.kv, &counts);
	assert_int_equal(counts.prefetches, 1);
	assert_true(counts.acquires > 4);
	world_fini(&w);
}

TEST_MAIN(sched, TEST(batch_equals_alone), TEST(warm_equals_cold), TEST(cold_run_publishes_nothing),
	  TEST(tail_is_copied_and_continued), TEST(evicted_and_computed_again),
	  TEST(twins_are_computed_once), TEST(younger_ones_give_way),
	  TEST(magazine_ceiling_is_no_dead_end),
	  TEST(waiting_requests_do_not_push_running_ones_out), TEST(refusals_have_numbers),
	  TEST(outgrowing_the_pool_ends_by_length), TEST(follows_a_foreign_builder),
	  TEST(starts_when_the_builder_has_sealed), TEST(takes_over_from_a_builder_that_sleeps),
	  TEST(patience_grows_with_the_steps), TEST(a_slow_load_is_waited_for_a_little),
	  TEST(streams_go_on_beside_a_load), TEST(stream_survives_the_daemon),
	  TEST(waits_for_the_daemon_no_longer_than_told), TEST(cancel_frees_in_every_state),
	  TEST(end_tokens_end), TEST(prompt_logprobs_come_for_every_position),
	  TEST(long_prompts_do_not_starve), TEST(chaos_changes_no_token),
	  TEST(who_waits_is_announced))
