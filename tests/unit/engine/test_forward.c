/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forward pass: right (against a textbook in double precision) and exact (bitwise: chunking,
 * batch, threads and what is cached change neither logits nor pages), for every instruction set
 * that this processor has.
 */
#include "base/bits.h"
#include "engine/forward.h"
#include "tests/test.h"
#include "tests/unit/engine/toy.h"
#include <math.h>

#define TOKENS_MAX 256u
#define ROWS_MAX 1024u
#define BLOCKS_MAX (TOKENS_MAX / 16)

static const char *const isas[] = {"portable", "avx2", "avx512bf16", "amx"};
static const uint32_t lengths[] = {1, 2, 15, 16, 63, 64, 65, 127, 128, 200};

/* A sequence's pages, filled with garbage that no result may depend on. */
struct cache {
	struct kvd_layout layout;
	char *memory;
	uint64_t pages[BLOCKS_MAX];
};

static struct cache cache_new(const struct forward *f, int garbage)
{
	struct cache c = {.layout = *forward_layout(f)};
	uint64_t bytes = kvd_layout_page_bytes(&c.layout);
	uint32_t blocks = TOKENS_MAX / c.layout.page_tokens;

	c.memory = aligned_alloc(64, blocks * bytes);
	memset(c.memory, garbage, blocks * bytes);
	for (uint32_t i = 0; i < blocks; i++)
		c.pages[i] = (uint64_t)(uintptr_t)(c.memory + i * bytes);
	return c;
}

static uint16_t cache_at(const struct cache *c, uint32_t layer, uint32_t head, uint32_t token,
			 uint32_t d, bool v)
{
	uint32_t pt = c->layout.page_tokens;
	uint64_t base =
		v ? kvd_layout_v(&c->layout, layer, head) : kvd_layout_k(&c->layout, layer, head);
	uint64_t index = v ? kvd_layout_v2_index(&c->layout, token % pt, d)
			   : kvd_layout_k16_index(&c->layout, token % pt, d);
	const char *page = (const char *)(uintptr_t)c->pages[token / pt];

	return ((const uint16_t *)(const void *)(page + base))[index];
}

static void assert_cache_equal(const struct cache *a, const struct cache *b, uint32_t tokens)
{
	for (uint32_t l = 0; l < a->layout.layers; l++)
		for (uint32_t h = 0; h < a->layout.kv_heads; h++)
			for (uint32_t t = 0; t < tokens; t++)
				for (uint32_t d = 0; d < 2 * a->layout.head_dim; d++)
					assert_int_equal(cache_at(a, l, h, t, d / 2, d % 2),
							 cache_at(b, l, h, t, d / 2, d % 2));
}

static struct forward *forward_of(const struct toy *t, uint32_t page_tokens, uint32_t threads)
{
	const struct forward_limits limits = {.rows_max = ROWS_MAX,
					      .sampled_max = 8,
					      .sequences_max = 8,
					      .context = 1024,
					      .page_tokens = page_tokens,
					      .threads = threads};
	struct forward *f;

	assert_int_equal(forward_new(&t->model, &limits, &f), 0);
	return f;
}

/* Rows [from, to) of the sequence; logits of the last one into out, if it is not NULL. */
static void compute(struct forward *f, const struct toy *t, const struct cache *c,
		    const uint32_t *tokens, uint32_t from, uint32_t to, float *out)
{
	const struct kernel_seq s = {.rows = to - from, .pos0 = from, .pages = c->pages};
	const uint32_t last = to - from - 1;
	const struct kernel_batch b = {.tokens = tokens + from,
					.rows = to - from,
					.seqs = &s,
					.seq_count = 1,
					.sampled = &last,
					.sampled_count = out != NULL};

	assert_int_equal(forward_step(f, &b), 0);
	if (out)
		memcpy(out, forward_logits(f, 0), t->model.h.vocab * sizeof(*out));
}

static void compute_chunked(struct forward *f, const struct toy *t, const struct cache *c,
			    const uint32_t *tokens, uint32_t count, uint32_t chunk, float *out)
{
	for (uint32_t at = 0; at < count; at += chunk) {
		uint32_t to = BITS_MIN(at + chunk, count);

		compute(f, t, c, tokens, at, to, to == count ? out : NULL);
	}
}

static void random_tokens(const struct toy *t, uint32_t *tokens, uint64_t seed)
{
	for (uint32_t i = 0; i < TOKENS_MAX; i++)
		tokens[i] = (uint32_t)(test_random(&seed) % t->model.h.vocab);
}

/* Runs `test` with a model for each instruction set there is. */
static void for_each_isa(void (*test)(struct toy *t))
{
	int ran = 0;

	for (size_t i = 0; i < ARRAY_LEN(isas); i++) {
		const struct kernel_ops *ops = kernels_cpu(isas[i]);

		if (!ops)
			continue;
		struct toy *t = toy_new(ops, 1);

		test(t);
		toy_free(t);
		ran++;
	}
	assert_true(ran > 0);
}

static double kl(const float *p, const float *q, uint32_t n)
{
	double zp = 0, zq = 0, sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		zp += exp((double)p[i]);
		zq += exp((double)q[i]);
	}
	for (uint32_t i = 0; i < n; i++)
		sum += exp((double)p[i]) / zp * ((p[i] - log(zp)) - (q[i] - log(zq)));
	return sum;
}

static void check_reference(struct toy *t)
{
	struct forward *f = forward_of(t, 64, 2);
	struct cache c = cache_new(f, 0x7f);
	float got[512], want[512];
	uint32_t tokens[TOKENS_MAX];
	double mean = 0;

	random_tokens(t, tokens, 5);
	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
		compute(f, t, &c, tokens, 0, lengths[i], got);
		toy_logits(t, tokens, lengths[i], want);
		double one = kl(want, got, t->model.h.vocab);

		assert_true(one < 5e-3);
		mean += one / ARRAY_LEN(lengths);
	}
	print_message("%s: mean KL %.2e\n", t->model.ops->name, mean);
	assert_true(mean < 2e-3);
	free(c.memory);
	forward_free(f);
}

static void matches_the_reference(void **state)
{
	for_each_isa(check_reference);
}

static void check_chunking(struct toy *t)
{
	static const uint32_t chunks[] = {1, 7, 32, 64, 100};
	float one[512], many[512];
	uint32_t tokens[TOKENS_MAX];

	random_tokens(t, tokens, 6);
	for (uint32_t pt = 16; pt <= 128; pt *= 2) {
		struct forward *f = forward_of(t, pt, 2);
		struct cache a = cache_new(f, 0x7f), b = cache_new(f, 0xff);

		for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
			compute(f, t, &a, tokens, 0, lengths[i], one);
			for (size_t j = 0; j < ARRAY_LEN(chunks); j++) {
				compute_chunked(f, t, &b, tokens, lengths[i], chunks[j], many);
				assert_memory_equal(one, many, t->model.h.vocab * 4);
				assert_cache_equal(&a, &b, lengths[i]);
			}
		}
		free(a.memory);
		free(b.memory);
		forward_free(f);
	}
}

static void one_pass_equals_any_chunking(void **state)
{
	for_each_isa(check_chunking);
}

static void check_batch(struct toy *t)
{
	enum { N = 4 };
	struct forward *f = forward_of(t, 64, 2);
	struct cache alone[N], batch[N];
	struct kernel_seq seqs[N];
	uint32_t tokens[N][TOKENS_MAX], rows[ROWS_MAX], sampled[N], count = 0;
	float want[N][512];

	for (uint32_t i = 0; i < N; i++) {
		uint32_t n = lengths[(2 * i + 3) % ARRAY_LEN(lengths)];

		random_tokens(t, tokens[i], 100 + i);
		alone[i] = cache_new(f, 0x7f);
		batch[i] = cache_new(f, 0xff);
		compute(f, t, &alone[i], tokens[i], 0, n, want[i]);
		seqs[i] = (struct kernel_seq){.row0 = count, .rows = n, .pages = batch[i].pages};
		memcpy(rows + count, tokens[i], n * 4);
		count += n;
		sampled[i] = count - 1;
	}
	const struct kernel_batch b = {.tokens = rows,
				       .seqs = seqs,
				       .sampled = sampled,
				       .rows = count,
				       .seq_count = N,
				       .sampled_count = N};
	assert_int_equal(forward_step(f, &b), 0);

	for (uint32_t i = 0; i < N; i++) {
		assert_memory_equal(forward_logits(f, i), want[i], t->model.h.vocab * 4);
		assert_cache_equal(&alone[i], &batch[i], seqs[i].rows);
		free(alone[i].memory);
		free(batch[i].memory);
	}
	forward_free(f);
}

static void alone_equals_in_a_batch(void **state)
{
	for_each_isa(check_batch);
}

static void check_threads(struct toy *t)
{
	float want[512], got[512];
	uint32_t tokens[TOKENS_MAX];
	struct forward *f1 = forward_of(t, 64, 1);
	struct cache a = cache_new(f1, 0x7f);

	random_tokens(t, tokens, 8);
	compute(f1, t, &a, tokens, 0, 200, want);
	for (uint32_t threads = 2; threads <= 3; threads++) {
		struct forward *f = forward_of(t, 64, threads);
		struct cache b = cache_new(f, 0xff);

		compute(f, t, &b, tokens, 0, 200, got);
		assert_memory_equal(want, got, t->model.h.vocab * 4);
		assert_cache_equal(&a, &b, 200);
		free(b.memory);
		forward_free(f);
	}
	free(a.memory);
	forward_free(f1);
}

static void threads_change_nothing(void **state)
{
	for_each_isa(check_threads);
}

static void check_query_only(struct toy *t)
{
	struct forward *f = forward_of(t, 64, 2);
	uint64_t bytes = TOKENS_MAX / 64 * kvd_layout_page_bytes(forward_layout(f));
	char *before = malloc(bytes);
	float want[512];
	uint32_t tokens[TOKENS_MAX];

	random_tokens(t, tokens, 9);
	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
		struct cache c = cache_new(f, 0x7f);
		const uint32_t row = 0;
		const struct kernel_seq s = {
			.rows = 1, .pos0 = lengths[i] - 1, .query_only = 1, .pages = c.pages};
		const struct kernel_batch b = {.tokens = tokens + lengths[i] - 1,
					       .seqs = &s,
					       .sampled = &row,
					       .rows = 1,
					       .seq_count = 1,
					       .sampled_count = 1};

		compute(f, t, &c, tokens, 0, lengths[i], want);
		memcpy(before, c.memory, bytes);
		assert_int_equal(forward_step(f, &b), 0);
		assert_memory_equal(forward_logits(f, 0), want, t->model.h.vocab * 4);
		assert_memory_equal(before, c.memory, bytes);
		free(c.memory);
	}
	free(before);
	forward_free(f);
}

static void query_only_row_equals_a_computed_one(void **state)
{
	for_each_isa(check_query_only);
}

static void check_tail(struct toy *t)
{
	struct forward *f = forward_of(t, 64, 2);
	uint64_t bytes = kvd_layout_page_bytes(forward_layout(f));
	float want[512], got[512];
	uint32_t tokens[TOKENS_MAX], other[TOKENS_MAX];

	random_tokens(t, tokens, 10);
	random_tokens(t, other, 11);
	for (uint32_t shared = 8; shared < 64; shared += 7) {
		struct cache a = cache_new(f, 0x7f), b = cache_new(f, 0xff);
		struct cache c = cache_new(f, 0x7f);

		/* The source goes on after the shared run with tokens of its own. */
		memcpy(other, tokens, shared * 4);
		compute(f, t, &a, other, 0, 60, NULL);
		t->model.ops->page_copy(forward_ctx(f), b.pages[0], a.pages[0], bytes);
		compute(f, t, &b, tokens, shared, 100, got);
		compute(f, t, &c, tokens, 0, 100, want);
		assert_memory_equal(want, got, t->model.h.vocab * 4);
		assert_cache_equal(&c, &b, 100);
		free(a.memory);
		free(b.memory);
		free(c.memory);
	}
	forward_free(f);
}

static void copied_tail_equals_a_computed_one(void **state)
{
	for_each_isa(check_tail);
}

static void plan_names_every_byte(void **state)
{
	struct toy *t = toy_new(kernels_cpu(NULL), 1);
	const struct forward_limits limits = {
		.rows_max = 8, .sampled_max = 2, .page_tokens = 64, .threads = 2};
	const struct forward_plan_row *row = forward_plan(&t->model, &limits);
	size_t largest = 0, rows = 0;

	for (; row->name; row++, rows++)
		largest = BITS_MAX(largest, row->bytes);
	assert_true(rows > 5);
	assert_true(row->bytes >= largest);
	toy_free(t);
}

TEST_MAIN(forward, cmocka_unit_test(matches_the_reference),
	  cmocka_unit_test(one_pass_equals_any_chunking), cmocka_unit_test(alone_equals_in_a_batch),
	  cmocka_unit_test(threads_change_nothing),
	  cmocka_unit_test(query_only_row_equals_a_computed_one),
	  cmocka_unit_test(copied_tail_equals_a_computed_one),
	  cmocka_unit_test(plan_names_every_byte))
