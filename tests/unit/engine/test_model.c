/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading: hparams, shapes, the order of rows, identity. A stand-in op table keeps weights as f32
 * [n][k], so that every packed row can be compared with what the file holds.
 */
#include "engine/model/gguf.h"
#include "engine/model/model.h"
#include "tests/model/tiny.h"
#include "tests/test.h"

#include <base/bits.h>
#include <errno.h>
#include <math.h>

static size_t standin_bytes(enum kernel_weight_kind kind, uint32_t n, uint32_t k)
{
	(void)kind;
	return (size_t)n * k * sizeof(float);
}

static void standin_pack(const struct kernel_weight *w, uint32_t row0, uint32_t rows,
			 const float *src)
{
	memcpy((float *)w->data + (size_t)row0 * w->k, src, (size_t)rows * w->k * sizeof(float));
}

static void *standin_new(const struct kernel_ops *ops, size_t bytes)
{
	void *memory = aligned_alloc(256, bits_align_up(bytes, 256));

	return memory ? memset(memory, 0, bytes) : NULL;
}

static void standin_free(const struct kernel_ops *ops, void *memory, size_t bytes)
{
	free(memory);
}

static int standin_write(const struct kernel_ops *ops, void *dst, const void *src, size_t bytes)
{
	memcpy(dst, src, bytes);
	return 0;
}

static const struct kernel_ops standin = {.memory_new = standin_new,
					  .memory_free = standin_free,
					  .memory_write = standin_write,
					  .weight_bytes = standin_bytes,
					  .weight_pack = standin_pack};

struct file {
	uint8_t *data;
	size_t bytes;
};

static struct file tiny(void)
{
	struct tiny_options o = tiny_defaults(3);
	struct file f;

	f.data = tiny_build(&o, &f.bytes);
	return f;
}

/* The first occurrence of `text` in the file. */
static uint8_t *find(const struct file *f, const char *text)
{
	uint8_t *at = memmem(f->data, f->bytes, text, strlen(text));

	assert_non_null(at);
	return at;
}

/* The value of a key of 4 bytes. */
static uint8_t *value(const struct file *f, const char *key)
{
	return find(f, key) + strlen(key) + 4;
}

static int load(const struct file *f, struct model **out, char *error)
{
	struct gguf *g;
	int status;

	assert_int_equal(gguf_open_memory(f->data, f->bytes, &g, error, MODEL_ERROR_MAX), 0);
	status = model_load(g, &standin, MODEL_DTYPE_AUTO, NULL, NULL, out, error);
	gguf_close(g);
	return status;
}

static struct model *must_load(const struct file *f)
{
	char error[MODEL_ERROR_MAX] = "";
	struct model *m = NULL;

	if (load(f, &m, error))
		fail_msg("%s", error);
	return m;
}

static void expect_refused(const struct file *f, int status, const char *words)
{
	char error[MODEL_ERROR_MAX] = "";
	struct model *m = NULL;

	assert_int_equal(load(f, &m, error), status);
	assert_null(m);
	if (!strstr(error, words))
		fail_msg("\"%s\" does not say \"%s\"", error, words);
}

static void hparams_are_those_of_the_file(void **state)
{
	struct file f = tiny();
	struct model *m = must_load(&f);

	(void)state;
	assert_string_equal(m->h.arch, "llama");
	assert_string_equal(m->h.name, "tiny");
	assert_int_equal(m->h.layers, 2);
	assert_int_equal(m->h.hidden, 64);
	assert_int_equal(m->h.ffn, 128);
	assert_int_equal(m->h.heads, 4);
	assert_int_equal(m->h.kv_heads, 2);
	assert_int_equal(m->h.head_dim, 32);
	assert_int_equal(m->h.vocab, tiny_vocab());
	assert_int_equal(m->h.context, 1024);
	assert_int_equal(m->h.rope_dim, 32);
	assert_true(m->h.tied);
	assert_int_equal(m->file_bytes, f.bytes);
	model_free(m);
	free(f.data);
}

static const float *tensor_row(const struct gguf *g, const char *name, uint32_t row)
{
	const struct gguf_tensor *t = gguf_tensor_find(g, name);

	assert_non_null(t);
	return (const float *)(t->data + 4ull * row * t->ne[0]);
}

static void expect_row(const struct kernel_weight *w, uint32_t row, const float *want)
{
	assert_memory_equal((const float *)w->data + (size_t)row * w->k, want, w->k * 4);
}

/* Row of head h, half s, index j comes from row h * 32 + 2 j + s of the file. */
static void query_and_key_rows_become_halves(void **state)
{
	struct file f = tiny();
	struct model *m = must_load(&f);
	struct gguf *g;

	(void)state;
	assert_int_equal(gguf_open_memory(f.data, f.bytes, &g, NULL, 0), 0);
	assert_int_equal(m->layer[1].qkv.n, (4 + 2 * 2) * 32);
	for (uint32_t row = 0; row < 6 * 32; row++) {
		bool key = row >= 4 * 32;
		uint32_t at = key ? row - 4 * 32 : row;
		uint32_t stored = at / 32 * 32 + at % 16 * 2 + at % 32 / 16;
		const char *name = key ? "blk.1.attn_k.weight" : "blk.1.attn_q.weight";

		expect_row(&m->layer[1].qkv, row, tensor_row(g, name, stored));
	}
	for (uint32_t row = 0; row < 2 * 32; row++)
		expect_row(&m->layer[1].qkv, 6 * 32 + row,
			   tensor_row(g, "blk.1.attn_v.weight", row));
	gguf_close(g);
	model_free(m);
	free(f.data);
}

static void other_rows_keep_their_order(void **state)
{
	struct file f = tiny();
	struct model *m = must_load(&f);
	struct gguf *g;

	(void)state;
	assert_int_equal(gguf_open_memory(f.data, f.bytes, &g, NULL, 0), 0);
	const struct model_layer *l = &m->layer[0];
	assert_int_equal(l->gate_up.kind, KERNEL_WEIGHT_GATE_UP);
	assert_int_equal(l->qkv.kind, KERNEL_WEIGHT_PLAIN);
	for (uint32_t i = 0; i < 128; i++) {
		expect_row(&l->gate_up, i, tensor_row(g, "blk.0.ffn_gate.weight", i));
		expect_row(&l->gate_up, 128 + i, tensor_row(g, "blk.0.ffn_up.weight", i));
	}
	for (uint32_t i = 0; i < 64; i++) {
		expect_row(&l->out, i, tensor_row(g, "blk.0.attn_output.weight", i));
		expect_row(&l->down, i, tensor_row(g, "blk.0.ffn_down.weight", i));
	}
	for (uint32_t i = 0; i < tiny_vocab(); i++)
		expect_row(&m->embed, i, tensor_row(g, "token_embd.weight", i));
	assert_ptr_equal(m->head.data, m->embed.data);
	assert_memory_equal(l->ffn_norm, tensor_row(g, "blk.0.ffn_norm.weight", 0), 64 * 4);
	assert_memory_equal(m->out_norm, tensor_row(g, "output_norm.weight", 0), 64 * 4);
	assert_int_equal((uintptr_t)l->down.data % 64, 0);
	gguf_close(g);
	model_free(m);
	free(f.data);
}

static void an_own_head_is_loaded(void **state)
{
	struct tiny_options o = tiny_defaults(3);
	struct file f;
	struct gguf *g;

	(void)state;
	o.untied = true;
	f.data = tiny_build(&o, &f.bytes);
	struct model *m = must_load(&f);
	assert_int_equal(gguf_open_memory(f.data, f.bytes, &g, NULL, 0), 0);
	assert_false(m->h.tied);
	expect_row(&m->head, 300, tensor_row(g, "output.weight", 300));
	gguf_close(g);
	model_free(m);
	free(f.data);
}

struct progress {
	uint64_t last, total;
	uint32_t calls;
};

static void note_progress(void *ctx, uint64_t done, uint64_t total)
{
	struct progress *p = ctx;

	assert_true(done >= p->last && done <= total);
	p->last = done;
	p->total = total;
	p->calls++;
}

static void progress_ends_at_all(void **state)
{
	struct file f = tiny();
	struct progress p = {0};
	char error[MODEL_ERROR_MAX];
	struct model *m;
	struct gguf *g;

	(void)state;
	assert_int_equal(gguf_open_memory(f.data, f.bytes, &g, NULL, 0), 0);
	assert_int_equal(model_load(g, &standin, MODEL_DTYPE_AUTO, note_progress, &p, &m, error),
			 0);
	assert_true(p.calls > 0 && p.total > 0 && p.last == p.total);
	gguf_close(g);
	model_free(m);
	free(f.data);
}

static int load_as(const struct tiny_options *o, bool table_fp16, enum model_dtype dtype,
		   struct model **out, char *error)
{
	struct kernel_ops ops = standin;
	struct file f;
	struct gguf *g;

	ops.fp16 = table_fp16;
	ops.name = "the table";
	f.data = tiny_build(o, &f.bytes);
	assert_int_equal(gguf_open_memory(f.data, f.bytes, &g, NULL, 0), 0);
	int status = model_load(g, &ops, dtype, NULL, NULL, out, error);

	if (status == 0)
		(*out)->ops = &standin;
	gguf_close(g);
	free(f.data);
	return status;
}

static void the_type_is_the_files_or_as_told(void **state)
{
	static const struct {
		bool bf16, fp16, table;
		enum model_dtype dtype;
		enum kernel_type type;
	} cases[] = {
		{false, true, true, MODEL_DTYPE_AUTO, KERNEL_FP16},
		{false, true, false, MODEL_DTYPE_AUTO, KERNEL_BF16},
		{false, true, true, MODEL_DTYPE_BF16, KERNEL_BF16},
		{true, false, true, MODEL_DTYPE_AUTO, KERNEL_BF16},
		{true, false, true, MODEL_DTYPE_FP16, KERNEL_FP16},
		{false, false, true, MODEL_DTYPE_AUTO, KERNEL_BF16},
	};
	char error[MODEL_ERROR_MAX];
	struct tiny_options o = tiny_defaults(3);
	struct model *m = NULL;

	o.untied = true;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		o.bf16 = cases[i].bf16;
		o.fp16 = cases[i].fp16;
		assert_int_equal(load_as(&o, cases[i].table, cases[i].dtype, &m, error), 0);
		assert_int_equal(m->type, cases[i].type);
		assert_int_equal(m->embed.type, cases[i].type);
		assert_int_equal(m->head.type, cases[i].type);
		assert_int_equal(m->layer[1].gate_up.type, cases[i].type);
		model_free(m);
	}
	m = NULL;
	assert_int_equal(load_as(&o, false, MODEL_DTYPE_FP16, &m, error), -ENOTSUP);
	assert_null(m);
	assert_non_null(strstr(error, "the table has products of bf16 only"));
}

static void what_does_not_fit_is_refused(void **state)
{
	/* Each changes one byte of a name or a 4-byte value. */
	static const struct {
		const char *key;
		int32_t at;   /* -1: write `byte` over the last character of the key */
		uint8_t byte; /* else over byte `at` of its value */
		int status;
		const char *words;
	} cases[] = {
		{"llama.block_count", 0, 3, -EINVAL, "\"blk.2.attn_q.weight\" is missing"},
		{"llama.block_count", 0, 1, -ENOTSUP, "needs tensor \"blk.1."},
		{"llama.block_count", 0, 0, -EINVAL, "llama.block_count is zero"},
		{"llama.block_count", 3, 1, -EINVAL, "more than 512"},
		{"llama.block_count", -1, 'x', -EINVAL, "llama.block_count is missing"},
		{"llama.attention.head_count", -1, 'x', -EINVAL, "head_count is missing"},
		{"llama.attention.head_count_kv", 0, 3, -EINVAL, "evenly"},
		{"llama.attention.key_length", 0, 8, -ENOTSUP, "multiple of 16"},
		{"llama.attention.key_length", 0, 16, -ENOTSUP, "one multiple of 16"},
		{"llama.embedding_length", 0, 96, -EINVAL, "has shape 64 x"},
		{"llama.embedding_length", 0, 60, -ENOTSUP, "multiples of 32"},
		{"llama.feed_forward_length", 0, 160, -EINVAL, "has shape 64 x 128, not 64 x 160"},
		{"layer_norm_rms_epsilon", 3, 0x7f, -EINVAL, "layer_norm_rms_epsilon"},
		{"blk.1.ffn_up.weigh", -1, 'x', -EINVAL, "\"blk.1.ffn_up.weight\" is missing"},
		{"output_norm.weigh", -1, 'x', -EINVAL, "\"output_norm.weight\" is missing"},
		{"token_embd.weigh", -1, 'x', -EINVAL, "token_embd.weight"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct file f = tiny();

		if (cases[i].at < 0)
			find(&f, cases[i].key)[strlen(cases[i].key) - 1] = cases[i].byte;
		else
			value(&f, cases[i].key)[cases[i].at] = cases[i].byte;
		expect_refused(&f, cases[i].status, cases[i].words);
		free(f.data);
	}
}

static void another_architecture_is_refused(void **state)
{
	struct file f = tiny();

	(void)state;
	memcpy(value(&f, "general.architecture") + 8, "mamba", 5);
	expect_refused(&f, -ENOTSUP, "architecture \"mamba\" is not supported");
	free(f.data);
}

static void values_that_are_not_finite_are_refused(void **state)
{
	static const char *const names[] = {"blk.0.ffn_up.weight", "blk.1.attn_norm.weight"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct file f = tiny();
		float nan = NAN;
		struct gguf *g;

		assert_int_equal(gguf_open_memory(f.data, f.bytes, &g, NULL, 0), 0);
		size_t at = (size_t)(gguf_tensor_find(g, names[i])->data - f.data);
		gguf_close(g);
		memcpy(f.data + at + 100, &nan, sizeof(nan));
		expect_refused(&f, -EINVAL, names[i]);
		free(f.data);
	}
}

static void frequencies_fall_from_one(void **state)
{
	struct file f = tiny();
	struct model *m = must_load(&f);

	(void)state;
	assert_true(m->inv_freq[0] == 1.0f);
	for (uint32_t i = 0; i < 16; i++)
		assert_float_equal(m->inv_freq[i], powf(10000.0f, -(float)i / 16), 1e-6);
	model_free(m);
	free(f.data);
}

/* Equal where KV is equal, different where it may differ. */
static void the_digest_follows_what_decides_kv(void **state)
{
	struct file f = tiny();
	struct model *base = must_load(&f), *m;

	(void)state;
	value(&f, "llama.context_length")[1] = 2;
	find(&f, "tiny")[0] = 'T';
	m = must_load(&f);
	assert_int_equal(m->h.context, 512);
	assert_memory_equal(m->digest, base->digest, sizeof(m->digest));
	model_free(m);
	value(&f, "layer_norm_rms_epsilon")[0] ^= 1;
	m = must_load(&f);
	assert_memory_not_equal(m->digest, base->digest, sizeof(m->digest));
	model_free(m);
	value(&f, "layer_norm_rms_epsilon")[0] ^= 1;
	f.data[f.bytes - 1] ^= 1;
	m = must_load(&f);
	assert_memory_not_equal(m->digest, base->digest, sizeof(m->digest));
	model_free(m);
	model_free(base);
	free(f.data);
}

TEST_MAIN(model, cmocka_unit_test(hparams_are_those_of_the_file),
	  cmocka_unit_test(query_and_key_rows_become_halves),
	  cmocka_unit_test(other_rows_keep_their_order), cmocka_unit_test(an_own_head_is_loaded),
	  cmocka_unit_test(progress_ends_at_all),
	  cmocka_unit_test(the_type_is_the_files_or_as_told),
	  cmocka_unit_test(what_does_not_fit_is_refused),
	  cmocka_unit_test(another_architecture_is_refused),
	  cmocka_unit_test(values_that_are_not_finite_are_refused),
	  cmocka_unit_test(frequencies_fall_from_one),
	  cmocka_unit_test(the_digest_follows_what_decides_kv))
