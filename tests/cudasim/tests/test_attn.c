/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention over pages: the textbook's result up to rounding, and a row's bits the same by every
 * path: prefill in one chunk or many, decode alone or in a batch, under every order of threads. On
 * a device of capability 9.0 Hopper's prefill must give these bits too.
 */
#include "tests/cudasim/exec/twice.h"
#include "tests/cudasim/tests/attn_world.h"
#include "tests/test.h"

#include <cuda_runtime.h>

#define LENGTH 1100u

/* Rows whose right values are known. */
struct known {
	struct attn_world w;
	uint16_t *rows; /* [seq][pos] */
	bool *there;
};

static struct known *known_new(const struct attn_world *shape)
{
	struct known *k = calloc(1, sizeof(*k));

	assert_non_null(k);
	k->w = *shape;
	k->w.tokens_max = LENGTH;
	k->w.prefill = cuda_attn_prefill;
	attn_world_init(&k->w);
	k->rows =
		calloc((size_t)ATTN_WORLD_SEQS * LENGTH * attn_world_row(&k->w), sizeof(*k->rows));
	k->there = calloc((size_t)ATTN_WORLD_SEQS * LENGTH, sizeof(*k->there));
	assert_true(k->rows && k->there);
	return k;
}

static void known_free(struct known *k)
{
	attn_world_fini(&k->w);
	free(k->rows);
	free(k->there);
	free(k);
}

/* A row seen first is held against the textbook and kept; later it must have the same bits. */
static void meet_row(struct known *k, uint32_t seq, uint32_t pos, const uint16_t *row,
		     const char *path)
{
	size_t at = (size_t)seq * LENGTH + pos, count = attn_world_row(&k->w);

	if (!k->there[at]) {
		attn_world_check_row(&k->w, seq, pos, row);
		memcpy(k->rows + at * count, row, count * sizeof(*row));
		k->there[at] = true;
	} else if (memcmp(k->rows + at * count, row, count * sizeof(*row))) {
		fail_msg("seq %u pos %u: other bits by %s (head_dim %u, %u heads, %u kv heads, "
			 "page %u, window %u)",
			 seq, pos, path, k->w.head_dim, k->w.heads, k->w.kv_heads, k->w.page_tokens,
			 k->w.window);
	}
}

static void run(struct known *k, const struct attn_chunk *chunks, uint32_t count, const char *path)
{
	uint32_t rows = 0, row = 0;
	uint16_t *out;

	for (uint32_t i = 0; i < count; i++)
		rows += chunks[i].rows;
	out = malloc((size_t)rows * attn_world_row(&k->w) * sizeof(*out));
	assert_non_null(out);
	attn_world_run(&k->w, chunks, count, out);
	for (uint32_t i = 0; i < count; i++)
		for (uint32_t j = 0; j < chunks[i].rows; j++, row++)
			meet_row(k, chunks[i].seq, chunks[i].pos0 + j,
				 out + (size_t)row * attn_world_row(&k->w), path);
	free(out);
}

#define RUN(k, path, ...)                                                                          \
	run(k, (const struct attn_chunk[]){__VA_ARGS__},                                           \
	    sizeof((const struct attn_chunk[]){__VA_ARGS__}) / sizeof(struct attn_chunk), path)

static bool hopper(void)
{
	int major = 0;

	assert_int_equal(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0),
			 cudaSuccess);
	return major == 9;
}

static void all_prefills(struct known *k)
{
	RUN(k, "chunks", {0, 0, 18, 0}, {1, 60, 8, 0}, {0, 500, 20, 0}, {2, 1020, 6, 0});
	RUN(k, "other chunks", {0, 0, 1, 0}, {2, 1020, 5, 0}, {0, 1, 16, 0}, {0, 17, 1, 0},
	    {2, 1025, 1, 0}, {1, 60, 3, 0}, {1, 63, 1, 0}, {1, 64, 4, 0}, {0, 500, 11, 0},
	    {0, 511, 2, 0}, {0, 513, 7, 0});
	RUN(k, "a larger chunk", {0, 490, 40, 0});
}

/* The same rows many ways; `few` is the most rows of a decode sequence. */
static void all_paths(const struct attn_world *shape)
{
	struct known *k = known_new(shape);
	uint32_t few = cuda_attn_decode_rows(shape->heads / shape->kv_heads);

	few = few > 5 ? 5 : few;
	all_prefills(k);
	RUN(k, "decode", {0, 0, 1, 1}, {0, 1, 1, 1}, {0, 15, 1, 1}, {0, 16, 1, 1}, {1, 62, 1, 1},
	    {1, 63, 1, 1}, {1, 64, 1, 1}, {0, 510, 1, 1}, {0, 511, 1, 1}, {0, 512, 1, 1},
	    {0, 513, 1, 1}, {2, 1022, 1, 1}, {2, 1023, 1, 1}, {2, 1024, 1, 1});
	RUN(k, "decode alone", {2, 1024, 1, 1});
	RUN(k, "decode of few rows", {0, 1, few, 1}, {0, 512 - few / 2, few, 1},
	    {2, 1025 - few, few, 1}, {1, 61, few, 1});
	RUN(k, "both", {0, 512, 1, 1}, {1, 60, 8, 0}, {0, 5, 1, 1}, {0, 498, 17, 0});
	if (hopper()) {
		k->w.prefill = cuda_attn_prefill_sm90;
		all_prefills(k);
		k->w.tma = true;
		all_prefills(k);
	}
	known_free(k);
}

static void test_head_dim_64(void **state)
{
	(void)state;
	all_paths(
		&(struct attn_world){.heads = 3, .kv_heads = 1, .head_dim = 64, .page_tokens = 16});
	all_paths(&(struct attn_world){
		.heads = 2, .kv_heads = 2, .head_dim = 64, .page_tokens = 64, .window = 100});
	all_paths(&(struct attn_world){
		.heads = 33, .kv_heads = 1, .head_dim = 64, .page_tokens = 128});
}

static void test_head_dim_128(void **state)
{
	(void)state;
	all_paths(&(struct attn_world){
		.heads = 8, .kv_heads = 2, .head_dim = 128, .page_tokens = 32});
	all_paths(&(struct attn_world){
		.heads = 8, .kv_heads = 1, .head_dim = 128, .page_tokens = 48, .window = 512});
	all_paths(&(struct attn_world){
		.heads = 4, .kv_heads = 2, .head_dim = 128, .page_tokens = 64, .window = 300});
	all_paths(&(struct attn_world){
		.heads = 2, .kv_heads = 1, .head_dim = 128, .page_tokens = 192});
}

static void test_head_dim_256(void **state)
{
	(void)state;
	all_paths(&(struct attn_world){
		.heads = 4, .kv_heads = 1, .head_dim = 256, .page_tokens = 16, .window = 17});
	all_paths(&(struct attn_world){
		.heads = 2, .kv_heads = 1, .head_dim = 256, .page_tokens = 128});
}

/* Keys and values in bf16 all the same. */
static void test_fp16_out(void **state)
{
	(void)state;
	all_paths(&(struct attn_world){
		.heads = 3, .kv_heads = 1, .head_dim = 64, .page_tokens = 64, .fp16 = true});
	all_paths(&(struct attn_world){
		.heads = 2, .kv_heads = 1, .head_dim = 128, .page_tokens = 32, .fp16 = true});
}

/* Sequences that end at and around every edge of tiles, splits and pages. */
static void test_lengths(void **state)
{
	const uint32_t lengths[] = {1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 511, 512, 513, 576};
	struct known *k = known_new(
		&(struct attn_world){.heads = 1, .kv_heads = 1, .head_dim = 64, .page_tokens = 32});
	struct attn_chunk last[14], chunk[14];

	(void)state;
	for (uint32_t i = 0; i < 14; i++) {
		uint32_t rows = lengths[i] < 17 ? lengths[i] : 17;

		last[i] = (struct attn_chunk){i % 3, lengths[i] - 1, 1, true};
		chunk[i] = (struct attn_chunk){i % 3, lengths[i] - rows, rows, false};
	}
	run(k, last, 14, "decode");
	run(k, chunk, 14, "prefill");
	if (hopper()) {
		k->w.prefill = cuda_attn_prefill_sm90;
		run(k, chunk, 14, "Hopper's prefill");
	}
	known_free(k);
}

/*
 * A sum in another order changes its last bit, which the result's rounding to bf16 shows in one
 * element of some hundred thousand: hence many, each by prefill and by decode.
 */
static void test_last_bit(void **state)
{
	struct known *k = known_new(&(struct attn_world){
		.heads = 32, .kv_heads = 32, .head_dim = 64, .page_tokens = 16});
	struct attn_chunk prefill[3], decode[24];

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		prefill[i] = (struct attn_chunk){i, 50, 128, false};
	for (uint32_t i = 0; i < 24; i++)
		decode[i] = (struct attn_chunk){i / 8, 50 + i % 8 * 16, 16, true};
	run(k, prefill, 3, "prefill");
	run(k, decode, 24, "decode");
	if (hopper()) {
		k->w.prefill = cuda_attn_prefill_sm90;
		run(k, prefill, 3, "Hopper's prefill");
	}
	known_free(k);
}

struct seeds {
	struct attn_world w;
	uint16_t *out;
};

static void run_seeds(void *arg)
{
	const struct attn_chunk chunks[] = {{0, 480, 40, 0}, {1, 600, 1, 1}, {2, 30, 2, 1}};
	struct seeds *s = arg;

	attn_world_run(&s->w, chunks, 3, s->out);
}

/* Two orders of threads and blocks, the same bytes: no race. */
static void test_seeds(void **state)
{
	const uint32_t head_dims[] = {64, 128, 256};

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		struct seeds s = {
			.w = {.heads = 2,
			      .kv_heads = 1,
			      .head_dim = head_dims[i],
			      .page_tokens = 16,
			      .tokens_max = LENGTH,
			      .prefill = hopper() ? cuda_attn_prefill_sm90 : cuda_attn_prefill}};
		size_t bytes = (size_t)43 * 2 * head_dims[i] * sizeof(*s.out);

		attn_world_init(&s.w);
		s.out = malloc(bytes);
		assert_non_null(s.out);
		assert_int_equal(cudasim_twice(run_seeds, &s, s.out, bytes, 3), TWICE_SAME);
		free(s.out);
		attn_world_fini(&s.w);
	}
}

/* Shapes that no kernel is made for are refused, and nothing to do is no error. */
static void test_refused(void **state)
{
	struct cuda_attention a = {.heads = 2,
				   .kv_heads = 1,
				   .head_dim = 64,
				   .page_tokens = 16,
				   .scale = 1,
				   .splits_max = 1};
	struct cuda_attention bad[] = {a, a, a, a};

	(void)state;
	assert_int_equal(cuda_attn_prefill(NULL, &a), cudaSuccess);
	assert_int_equal(cuda_attn_decode(NULL, &a), cudaSuccess);
	bad[0].head_dim = 96;
	bad[1].heads = 129;
	bad[2].page_tokens = 24;
	bad[3].kv_heads = 3;
	for (uint32_t i = 0; i < 4; i++) {
		bad[i].tile_count = bad[i].decode_count = 1;
		assert_int_equal(cuda_attn_prefill(NULL, &bad[i]), cudaErrorInvalidValue);
		assert_int_equal(cuda_attn_prefill_sm90(NULL, &bad[i]),
				 hopper() ? cudaErrorInvalidValue : cudaErrorNotSupported);
		assert_int_equal(cuda_attn_decode(NULL, &bad[i]), cudaErrorInvalidValue);
	}
}

TEST_MAIN(cudasim_attn, cmocka_unit_test(test_head_dim_64), cmocka_unit_test(test_head_dim_128),
	  cmocka_unit_test(test_head_dim_256), cmocka_unit_test(test_fp16_out),
	  cmocka_unit_test(test_lengths), cmocka_unit_test(test_last_bit),
	  cmocka_unit_test(test_seeds), cmocka_unit_test(test_refused))
