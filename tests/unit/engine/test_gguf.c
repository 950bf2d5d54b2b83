/* SPDX-License-Identifier: Apache-2.0 */
/* gguf.c and gguf_get.c: what a right file gives, and that every wrong one is refused in words. */
#include "engine/model/gguf.h"
#include "tests/model/gguf_writer.h"
#include "tests/model/tiny.h"
#include "tests/test.h"

#include <base/bits.h>
#include <errno.h>

#define ERROR_BYTES 256

struct file {
	struct gguf_writer w;
	uint64_t tensor_at; /* the list of tensors */
};

/* Two tensors of 8 F32 each; offsets to order. */
static struct file make(uint64_t offset_b)
{
	struct file f = {0};

	gguf_writer_header(&f.w, 2, 6);
	gguf_writer_u32(&f.w, "a.count", 7);
	gguf_writer_f32(&f.w, "a.real", 0.5f);
	gguf_writer_bool(&f.w, "a.flag", true);
	gguf_writer_string(&f.w, "a.name", "kv");
	gguf_writer_array(&f.w, "a.list", GGUF_STRING, 2);
	gguf_writer_text(&f.w, "one", 3);
	gguf_writer_text(&f.w, "", 0);
	gguf_writer_array(&f.w, "a.numbers", GGUF_I32, 1);
	gguf_writer_uint(&f.w, (uint32_t)-5, 4);
	f.tensor_at = f.w.bytes;
	gguf_writer_tensor(&f.w, "t.b", 0, 8, 0, offset_b);
	gguf_writer_tensor(&f.w, "t.a", 0, 4, 2, 32);
	gguf_writer_align(&f.w, 32);
	for (int i = 0; i < 16; i++)
		gguf_writer_uint(&f.w, (uint64_t)i, 4);
	return f;
}

static void expect_refused(const struct gguf_writer *w, int status, const char *words)
{
	char error[ERROR_BYTES] = "";
	struct gguf *g = NULL;

	assert_int_equal(gguf_open_memory(w->data, w->bytes, &g, error, sizeof(error)), status);
	assert_null(g);
	if (!strstr(error, words))
		fail_msg("\"%s\" does not say \"%s\"", error, words);
}

static void a_right_file_is_read(void **state)
{
	struct file f = make(0);
	struct gguf *g;
	struct gguf_string s;
	struct gguf_array a;
	char error[ERROR_BYTES];
	uint32_t u;
	float real;
	bool flag;
	size_t offset = 0;

	(void)state;
	assert_int_equal(gguf_open_memory(f.w.data, f.w.bytes, &g, error, sizeof(error)), 0);
	assert_int_equal(gguf_get_u32(g, "a.count", &u), 0);
	assert_int_equal(u, 7);
	assert_int_equal(gguf_get_f32(g, "a.real", &real), 0);
	assert_true(real == 0.5f);
	assert_int_equal(gguf_get_bool(g, "a.flag", &flag), 0);
	assert_true(flag);
	assert_int_equal(gguf_get_string(g, "a.name", &s), 0);
	assert_int_equal(s.bytes, 2);
	assert_memory_equal(s.text, "kv", 2);
	assert_int_equal(gguf_get_array(g, "a.list", GGUF_STRING, &a), 0);
	assert_int_equal(gguf_next_string(&a, &offset, &s), 1);
	assert_memory_equal(s.text, "one", 3);
	assert_int_equal(gguf_next_string(&a, &offset, &s), 1);
	assert_int_equal(s.bytes, 0);
	assert_int_equal(gguf_next_string(&a, &offset, &s), 0);
	assert_int_equal(gguf_tensor_count(g), 2);
	const struct gguf_tensor *t = gguf_tensor_find(g, "t.a");
	assert_ptr_equal(t, gguf_tensor_at(g, 1));
	assert_int_equal(t->bytes, 32);
	assert_int_equal(t->data[0], 8);
	assert_null(gguf_tensor_find(g, "t.c"));
	assert_int_equal(gguf_file_bytes(g), f.w.bytes);
	gguf_close(g);
	free(f.w.data);
}

static void values_of_another_type_are_told(void **state)
{
	struct file f = make(0);
	struct gguf *g;
	struct gguf_string s;
	struct gguf_array a;
	uint32_t u;
	float real;
	bool flag;

	(void)state;
	assert_int_equal(gguf_open_memory(f.w.data, f.w.bytes, &g, NULL, 0), 0);
	assert_int_equal(gguf_get_u32(g, "none", &u), -ENOENT);
	assert_int_equal(gguf_get_u32(g, "a.real", &u), -EINVAL);
	assert_int_equal(gguf_get_u32(g, "a.numbers", &u), -EINVAL);
	assert_int_equal(gguf_get_f32(g, "a.count", &real), -EINVAL);
	assert_int_equal(gguf_get_bool(g, "a.count", &flag), -EINVAL);
	assert_int_equal(gguf_get_string(g, "a.list", &s), -EINVAL);
	assert_int_equal(gguf_get_array(g, "a.list", GGUF_I32, &a), -EINVAL);
	assert_int_equal(gguf_get_array(g, "a.name", GGUF_STRING, &a), -EINVAL);
	gguf_close(g);
	free(f.w.data);
}

static void integers_of_any_width_are_accepted(void **state)
{
	static const struct {
		uint32_t type, bytes;
		int64_t value;
		int status;
	} cases[] = {{GGUF_U8, 1, 255, 0},
		     {GGUF_I8, 1, -1, -EINVAL},
		     {GGUF_U16, 2, 65535, 0},
		     {GGUF_I16, 2, 300, 0},
		     {GGUF_I32, 4, -7, -EINVAL},
		     {GGUF_U64, 8, 9, 0},
		     {GGUF_U64, 8, 1ll << 32, -EINVAL},
		     {GGUF_I64, 8, 11, 0}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct gguf_writer w = {0};
		struct gguf *g;
		uint32_t out = 0;

		gguf_writer_header(&w, 0, 1);
		gguf_writer_text(&w, "k", 1);
		gguf_writer_uint(&w, cases[i].type, 4);
		gguf_writer_uint(&w, (uint64_t)cases[i].value, cases[i].bytes);
		assert_int_equal(gguf_open_memory(w.data, w.bytes, &g, NULL, 0), 0);
		assert_int_equal(gguf_get_u32(g, "k", &out), cases[i].status);
		if (!cases[i].status)
			assert_int_equal(out, cases[i].value);
		gguf_close(g);
		free(w.data);
	}
}

static void every_truncation_is_refused(void **state)
{
	struct file f = make(0);

	(void)state;
	for (size_t bytes = 0; bytes < f.w.bytes; bytes++) {
		struct gguf *g;
		/* A copy of exactly this size: reading beyond it is an error that ASan sees. */
		uint8_t *copy = malloc(bytes + 1);

		memcpy(copy, f.w.data, bytes);
		copy = realloc(copy, bytes ? bytes : 1);
		assert_true(gguf_open_memory(copy, bytes, &g, NULL, 0) < 0);
		free(copy);
	}
	free(f.w.data);
}

static void wrong_headers_are_refused(void **state)
{
	struct file f = make(0);

	(void)state;
	f.w.data[0] = 'g';
	expect_refused(&f.w, -EINVAL, "not a GGUF file");
	f.w.data[0] = 'G';
	f.w.data[4] = 2;
	expect_refused(&f.w, -ENOTSUP, "version 2");
	f.w.data[4] = 3;
	f.w.data[8 + 3] = 1;
	expect_refused(&f.w, -EINVAL, "too many");
	f.w.data[8 + 3] = 0;
	f.w.data[16 + 7] = 0x80;
	expect_refused(&f.w, -EINVAL, "too many");
	free(f.w.data);
}

static void wrong_tensors_are_refused(void **state)
{
	static const struct {
		uint64_t offset;
		const char *words;
	} placed[] = {{32, "overlap"},
		      {4, "not aligned"},
		      {64, "beyond the file"},
		      {UINT64_MAX - 31, "beyond the file"}};
	/* Where the fields of the first tensor are, after its name. */
	static const struct {
		size_t at, bytes;
		uint64_t value;
		int status;
		const char *words;
	} fields[] = {{11, 4, 0, -EINVAL, "dimensions"},
		      {11, 4, 5, -EINVAL, "dimensions"},
		      {15, 8, 0, -EINVAL, "impossible shape"},
		      {15, 8, UINT64_MAX, -EINVAL, "impossible size"},
		      {15, 8, 1ull << 40, -EINVAL, "beyond the file"},
		      {23, 4, 999, -ENOTSUP, "type 999"},
		      {23, 4, 2, -EINVAL, "blocks of 32"},
		      {0, 8, 0, -EINVAL, "no valid name"},
		      {0, 8, UINT64_MAX, -EINVAL, "no valid name"},
		      {10, 1, 'a', -EINVAL, "appears twice"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(placed); i++) {
		struct file f = make(placed[i].offset);

		expect_refused(&f.w, -EINVAL, placed[i].words);
		free(f.w.data);
	}
	for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
		struct file f = make(0);

		for (size_t j = 0; j < fields[i].bytes; j++)
			f.w.data[f.tensor_at + fields[i].at + j] =
				(uint8_t)(fields[i].value >> (8 * j));
		expect_refused(&f.w, fields[i].status, fields[i].words);
		free(f.w.data);
	}
}

static void wrong_shapes_overflow_nothing(void **state)
{
	struct gguf_writer w = {0};

	(void)state;
	gguf_writer_header(&w, 1, 0);
	gguf_writer_tensor(&w, "t", 0, 1ull << 33, 1ull << 33, 0);
	expect_refused(&w, -EINVAL, "impossible shape");
	free(w.data);
}

static void wrong_keys_are_refused(void **state)
{
	struct gguf_writer w = {0};

	(void)state;
	gguf_writer_header(&w, 0, 2);
	gguf_writer_u32(&w, "twice", 1);
	gguf_writer_u32(&w, "twice", 1);
	expect_refused(&w, -EINVAL, "\"twice\" appears twice");
	w.bytes = 0;
	gguf_writer_header(&w, 0, 1);
	gguf_writer_array(&w, "nested", GGUF_ARRAY, 1);
	expect_refused(&w, -EINVAL, "\"nested\" has type");
	w.bytes = 0;
	gguf_writer_header(&w, 0, 1);
	gguf_writer_array(&w, "huge", GGUF_U64, 1ull << 62);
	expect_refused(&w, -EINVAL, "ends inside the value of key \"huge\"");
	w.bytes = 0;
	gguf_writer_header(&w, 0, 1);
	gguf_writer_u32(&w, "general.alignment", 24);
	expect_refused(&w, -EINVAL, "power of two");
	free(w.data);
}

/* Whatever is accepted after damage may be read from end to end. */
static void damaged_files_are_refused_or_sane(void **state)
{
	uint64_t random = 20;
	uint32_t accepted = 0;
	struct tiny_options o = tiny_defaults(1);
	size_t bytes;
	uint8_t *file = tiny_build(&o, &bytes);

	(void)state;
	for (int round = 0; round < 3000; round++) {
		/* The directory is in the first 16 KiB; that is where damage is interesting. */
		size_t at = test_random(&random) % BITS_MIN(bytes, 16384);
		uint8_t was = file[at];
		struct gguf *g;

		file[at] = (uint8_t)test_random(&random);
		if (gguf_open_memory(file, bytes, &g, NULL, 0) == 0) {
			accepted++;
			for (uint32_t i = 0; i < gguf_tensor_count(g); i++) {
				const struct gguf_tensor *t = gguf_tensor_at(g, i);

				assert_true(t->data >= file && t->data + t->bytes <= file + bytes);
			}
			gguf_close(g);
		}
		file[at] = was;
	}
	assert_in_range(accepted, 1, 2999);
	free(file);
}

static void a_missing_file_is_told(void **state)
{
	char error[ERROR_BYTES];
	struct gguf *g;

	(void)state;
	assert_int_equal(gguf_open("/nonexistent.gguf", &g, error, sizeof(error)), -ENOENT);
	assert_non_null(strstr(error, "No such file"));
	assert_int_equal(gguf_open("/", &g, error, sizeof(error)), -EINVAL);
	assert_non_null(strstr(error, "a folder"));
}

TEST_MAIN(gguf, cmocka_unit_test(a_right_file_is_read),
	  cmocka_unit_test(values_of_another_type_are_told),
	  cmocka_unit_test(integers_of_any_width_are_accepted),
	  cmocka_unit_test(every_truncation_is_refused),
	  cmocka_unit_test(wrong_headers_are_refused), cmocka_unit_test(wrong_tensors_are_refused),
	  cmocka_unit_test(wrong_shapes_overflow_nothing), cmocka_unit_test(wrong_keys_are_refused),
	  cmocka_unit_test(damaged_files_are_refused_or_sane),
	  cmocka_unit_test(a_missing_file_is_told))
