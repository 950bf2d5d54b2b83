/* SPDX-License-Identifier: Apache-2.0 */
/* From a file to everything that serving needs, and files that contradict themselves. */
#include "engine/loader.h"
#include "tests/model/tiny.h"
#include "tests/test.h"
#include <errno.h>
#include <unistd.h>

struct fixture {
	struct settings settings;
	uint8_t *file;
	size_t bytes;
	struct loader loader;
	char error[1024];
};

static bool never(void)
{
	return false;
}

static void setup(struct fixture *f)
{
	struct tiny_options o = tiny_defaults(1);

	memset(f, 0, sizeof(*f));
	f->file = tiny_build(&o, &f->bytes);
	strcpy(f->settings.model, "/tmp/test_loader.XXXXXX");
	assert_return_code(mkstemp(f->settings.model), errno);
}

static int load(struct fixture *f)
{
	FILE *out = fopen(f->settings.model, "wb");

	assert_non_null(out);
	assert_int_equal(fwrite(f->file, 1, f->bytes, out), f->bytes);
	assert_int_equal(fclose(out), 0);
	return loader_load(&f->loader, &f->settings, never, f->error, sizeof(f->error));
}

static void teardown(struct fixture *f)
{
	loader_free(&f->loader);
	unlink(f->settings.model);
	free(f->file);
}

static void keeps_nothing_of_the_file(void **state)
{
	struct fixture f;

	setup(&f);
	assert_int_equal(load(&f), 0);
	assert_non_null(f.loader.model);
	assert_non_null(f.loader.tokenizer);
	assert_int_equal(f.loader.chat, CHAT_CHATML);
	assert_null(f.loader.file);
	teardown(&f);
}

static void every_token_has_an_embedding(void **state)
{
	static const char name[] = "token_embd.weight";
	uint64_t rows = tiny_vocab() - 1;
	struct fixture f;

	setup(&f);
	uint8_t *at = memmem(f.file, f.bytes, name, sizeof(name) - 1);
	assert_non_null(at);
	/* Its number of dimensions and the first of them lie before the rows. */
	memcpy(at + sizeof(name) - 1 + 4 + 8, &rows, sizeof(rows));
	assert_int_equal(load(&f), -EINVAL);
	assert_non_null(strstr(f.error, "embeddings for"));
	teardown(&f);
}

TEST_MAIN(loader, cmocka_unit_test(keeps_nothing_of_the_file),
	  cmocka_unit_test(every_token_has_an_embedding))
