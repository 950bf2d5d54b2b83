/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Store and attention together, as the engine uses them: a sequence goes through them in one pass,
 * in chunks, or token by token, on one thread or three, and every bit of the output and of the
 * pages is the same; the numbers are those of the twin. Pages are poisoned before.
 */
#include "kernels/cpu/ref/ref.h"
#include "tests/unit/kernels/fixture.h"

struct attention_case {
	uint32_t tokens, heads, kv_heads, head_dim, page_tokens, window;
};

static const struct attention_case cases[] = {
	{1, 2, 2, 64, 16, 0},	 {65, 9, 3, 64, 32, 0},	   {97, 5, 1, 80, 16, 0},
	{90, 2, 1, 64, 32, 1},	 {33, 100, 1, 32, 32, 0},  {70, 3, 3, 6, 16, 9},
	{100, 6, 2, 96, 32, 40},
/* Sanitizers are slow; what is special about these is only their size. */
#ifndef KVD_SANITIZED
	{130, 4, 1, 256, 64, 0}, {130, 8, 8, 128, 128, 0}, {600, 2, 1, 64, 128, 300},
	{1050, 1, 1, 32, 64, 0},
#else
	{520, 1, 1, 32, 64, 0},
#endif
};

struct run {
	const struct kernel_ops *ops;
	const struct attention_case *c;
	struct fixture_pages pages;
	float *qkv;
	float *inv_freq;
	kernel_bf16 *q;
	kernel_bf16 *out;
};

static size_t row_elements(const struct attention_case *c)
{
	return (size_t)c->heads * c->head_dim;
}

static size_t out_bytes(const struct attention_case *c)
{
	return c->tokens * row_elements(c) * sizeof(kernel_bf16);
}

static void run_init(struct run *r, const struct kernel_ops *ops, const struct attention_case *c)
{
	struct kvd_layout layout = {2, c->kv_heads, c->head_dim, c->page_tokens, 2};
	uint64_t seed = c->tokens * 77ull + c->head_dim;
	uint32_t width = (c->heads + 2 * c->kv_heads) * c->head_dim;

	r->ops = ops;
	r->c = c;
	fixture_pages_init(&r->pages, &layout, c->tokens);
	r->qkv = fixture_floats(&seed, (size_t)c->tokens * width, 1.5);
	r->inv_freq = fixture_alloc(c->head_dim / 2 * sizeof(float));
	for (uint32_t i = 0; i < c->head_dim / 2; i++)
		r->inv_freq[i] = powf(10000, -2.0f * (float)i / (float)c->head_dim);
	r->q = fixture_alloc(out_bytes(c));
	r->out = fixture_alloc(out_bytes(c));
	memset(r->out, 0xff, out_bytes(c));
}

static void run_fini(struct run *r)
{
	fixture_pages_fini(&r->pages);
	free(r->qkv);
	free(r->inv_freq);
	free(r->q);
	free(r->out);
}

static struct kernel_attention attention_of(const struct run *r, const struct kernel_seq *seq,
					    kernel_bf16 *out)
{
	return (struct kernel_attention){.q = r->q + seq->pos0 * row_elements(r->c),
					 .out = out + seq->pos0 * row_elements(r->c),
					 .heads = r->c->heads,
					 .scale = 1 / sqrtf((float)r->c->head_dim),
					 .window = r->c->window,
					 .layer = 1,
					 .layout = &r->pages.layout,
					 .seqs = seq,
					 .seq_count = 1};
}

/* Stores and attends to tokens [pos, pos + rows). */
static void run_chunk(struct run *r, struct kernels_ctx *ctx, uint32_t pos, uint32_t rows)
{
	uint32_t width = (r->c->heads + 2 * r->c->kv_heads) * r->c->head_dim;
	struct kernel_seq seq = {.rows = rows, .pos0 = pos, .pages = r->pages.page};
	struct kernel_rope_store store = {.qkv = r->qkv + (size_t)pos * width,
					  .q = r->q + pos * row_elements(r->c),
					  .inv_freq = r->inv_freq,
					  .norm_eps = 1e-6f,
					  .heads = r->c->heads,
					  .rope_dim = r->c->head_dim,
					  .layer = 1,
					  .layout = &r->pages.layout,
					  .seqs = &seq,
					  .seq_count = 1};
	struct kernel_attention a = attention_of(r, &seq, r->out);

	r->ops->rope_store(ctx, &store);
	r->ops->attention(ctx, &a);
}

static void run_all(struct run *r, uint32_t threads, uint32_t chunk)
{
	struct kernels_ctx *ctx = fixture_ctx(r->ops, threads);

	for (uint32_t pos = 0; pos < r->c->tokens; pos += chunk)
		run_chunk(r, ctx, pos, BITS_MIN(chunk, r->c->tokens - pos));
	kernels_ctx_free(ctx);
}

static void check_twin(const struct kernel_ops *ops, const struct attention_case *c)
{
	struct kernel_seq seq = {.rows = c->tokens};
	kernel_bf16 *want = fixture_alloc(out_bytes(c));
	struct kernel_attention a;
	struct run r;

	run_init(&r, ops, c);
	run_all(&r, 2, c->tokens);
	seq.pages = r.pages.page;
	a = attention_of(&r, &seq, want);
	ref_attn(&a, KERNEL_BF16);
	fixture_close_bf16(r.out, want, out_bytes(c) / 2, 0.012, 0.012);
	run_fini(&r);
	free(want);
}

static void results_match_the_twin(void **state)
{
	(void)state;
	FIXTURE_EACH_TABLE(ops)
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		check_twin(ops, &cases[i]);
}

static void check_chunks(const struct kernel_ops *ops, const struct attention_case *c,
			 uint32_t threads, uint32_t chunk)
{
	struct run whole, chunked;

	run_init(&whole, ops, c);
	run_init(&chunked, ops, c);
	run_all(&whole, 1, c->tokens);
	run_all(&chunked, threads, chunk);
	assert_memory_equal(whole.out, chunked.out, out_bytes(c));
	assert_memory_equal(whole.pages.memory, chunked.pages.memory, whole.pages.bytes);
	run_fini(&whole);
	run_fini(&chunked);
}

/* Chunk 1 is decode: the row of a decode step is the row of the prefill, bit for bit. */
static void chunks_and_threads_change_no_bit(void **state)
{
	static const uint32_t chunks[] = {1, 7, 48, 100, 2000};

	(void)state;
	FIXTURE_EACH_TABLE(ops)
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		for (size_t n = 0; n < ARRAY_LEN(chunks); n++)
			check_chunks(ops, &cases[i], 1 + (n + i) % FIXTURE_THREADS_MAX, chunks[n]);
}

/* Attends once more to all rows, with seqs in one batch, and compares. */
static void check_query_again(struct run *r, const kernel_bf16 *want)
{
	uint32_t half = r->c->tokens / 2;
	struct kernel_seq seqs[] = {
		{.row0 = 0, .rows = half, .pages = r->pages.page},
		{.row0 = half, .rows = r->c->tokens - half, .pos0 = half, .pages = r->pages.page},
	};
	struct kernels_ctx *ctx = fixture_ctx(r->ops, 3);
	struct kernel_attention a = attention_of(r, &seqs[0], r->out);

	a.seq_count = 2;
	r->ops->attention(ctx, &a);
	assert_memory_equal(r->out, want, out_bytes(r->c));
	kernels_ctx_free(ctx);
}

/* Several sequences in a batch; and what later tokens hold, even NaN, is nothing to earlier rows.
 */
static void later_tokens_do_not_matter(void **state)
{
	(void)state;
	FIXTURE_EACH_TABLE(ops)
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct attention_case c = cases[i];
		uint32_t width = (c.heads + 2 * c.kv_heads) * c.head_dim;
		kernel_bf16 *want = fixture_alloc(out_bytes(&c));
		uint32_t bad = c.tokens * 3 / 4;
		struct run r;

		run_init(&r, ops, &c);
		run_all(&r, 2, c.tokens);
		memcpy(want, r.out, out_bytes(&c));
		check_query_again(&r, want);
		run_fini(&r);
		run_init(&r, ops, &c);
		for (uint32_t k = 0; k < width; k++)
			r.qkv[(size_t)bad * width + k] = k % 2 ? NAN : INFINITY;
		run_all(&r, 2, c.tokens);
		assert_memory_equal(r.out, want, bad * row_elements(&c) * sizeof(kernel_bf16));
		for (uint32_t k = 0; k < row_elements(&c); k++)
			assert_true(isnan(kernel_bf16_to_f32(r.out[bad * row_elements(&c) + k])));
		run_fini(&r);
		free(want);
	}
}

TEST_MAIN(op_attention, cmocka_unit_test(results_match_the_twin),
	  cmocka_unit_test(chunks_and_threads_change_no_bit),
	  cmocka_unit_test(later_tokens_do_not_matter))
