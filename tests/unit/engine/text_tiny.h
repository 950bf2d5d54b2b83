/* SPDX-License-Identifier: Apache-2.0 */
/* The tiny model's tokenizer, for tests of engine/text. */
#ifndef TESTS_UNIT_ENGINE_TEXT_TINY_H
#define TESTS_UNIT_ENGINE_TEXT_TINY_H

#include "engine/model/gguf.h"
#include "engine/text/tokenizer.h"
#include "tests/model/tiny.h"
#include "tests/test.h"

/* From a file made by tiny_build(), perhaps changed since. */
static inline struct tokenizer *text_tiny_from(const uint8_t *file, size_t bytes)
{
	char error[256] = "";
	struct tokenizer *t = NULL;
	struct gguf *g;

	assert_int_equal(gguf_open_memory(file, bytes, &g, error, sizeof(error)), 0);
	if (tokenizer_new(g, &t, error, sizeof(error)))
		fail_msg("%s", error);
	gguf_close(g);
	return t;
}

static inline struct tokenizer *text_tiny(void)
{
	struct tiny_options o = tiny_defaults(1);
	size_t bytes;
	uint8_t *file = tiny_build(&o, &bytes);
	struct tokenizer *t = text_tiny_from(file, bytes);

	free(file);
	return t;
}

#endif
