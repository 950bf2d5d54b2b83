/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tokenizer against Hugging Face's, over the real vocabulary: texts both ways, conversations
 * against the model's own template. Records: see make_tokens.py.
 */
#include "engine/model/gguf.h"
#include "engine/text/tokenizer.h"
#include "tests/model/real.h"
#include "tests/test.h"

#include <base/bytes.h>

#define TOKENS_MAX 8192u
#define MESSAGES_MAX 8u
#define FILE_BYTES_MAX (4u << 20)

struct golden {
	struct bytes in;
	struct tokenizer *t;
	uint32_t texts, chats;
};

struct string {
	const char *text;
	size_t bytes;
};

static struct string take_string(struct bytes *in)
{
	uint32_t bytes = bytes_u32(in);

	return (struct string){(const char *)bytes_take(in, bytes), bytes};
}

static void expect_ids(struct golden *g, const uint32_t *got, int64_t count, const char *what,
		       size_t what_bytes)
{
	uint32_t want = bytes_u32(&g->in);

	assert_true(want <= TOKENS_MAX);
	for (uint32_t i = 0; i < want; i++) {
		uint32_t id = bytes_u32(&g->in);

		if (i < count && got[i] != id)
			fail_msg("text %u \"%.*s\": token %u is %u, not %u", g->texts,
				 (int)what_bytes, what, i, got[i], id);
	}
	if (count != want)
		fail_msg("text %u \"%.*s\": %lld tokens, not %u", g->texts, (int)what_bytes, what,
			 (long long)count, want);
}

static void expect_decoded(const struct golden *g, const uint32_t *ids, int64_t count,
			   const struct string *want)
{
	struct detok d;
	char *out = malloc(want->bytes + 2048);
	size_t used = 0;

	detok_init(&d, g->t);
	for (int64_t i = 0; i < count; i++) {
		int bytes = detok_push(&d, ids[i], out + used, 1024);

		assert_true(bytes >= 0);
		used += (size_t)bytes;
		assert_true(used <= want->bytes);
	}
	used += (size_t)detok_finish(&d, out + used, 1024);
	assert_int_equal(used, want->bytes);
	assert_memory_equal(out, want->text, used);
	free(out);
}

static void check_text(struct golden *g)
{
	static uint32_t ids[TOKENS_MAX];
	bool special = bytes_u8(&g->in);
	struct string text = take_string(&g->in);
	int64_t count = tokenizer_encode(g->t, text.text, text.bytes, special, ids, TOKENS_MAX);

	expect_ids(g, ids, count, text.text, text.bytes);
	struct string decoded = take_string(&g->in);
	assert_false(g->in.failed);
	expect_decoded(g, ids, count, &decoded);
	g->texts++;
}

static void check_chat(struct golden *g)
{
	static uint32_t ids[TOKENS_MAX];
	struct chat_message messages[MESSAGES_MAX];
	char roles[MESSAGES_MAX][16] = {""};
	uint32_t count = bytes_u32(&g->in);

	assert_in_range(count, 1, MESSAGES_MAX);
	for (uint32_t i = 0; i < count; i++) {
		struct string role = take_string(&g->in);
		struct string content = take_string(&g->in);

		snprintf(roles[i], sizeof(roles[i]), "%.*s", (int)role.bytes, role.text);
		messages[i] = (struct chat_message){roles[i], content.text, content.bytes};
	}
	int64_t got = chat_encode(g->t, CHAT_CHATML, messages, count, ids, TOKENS_MAX);
	expect_ids(g, ids, got, messages[0].content, messages[0].content_bytes);
	g->chats++;
}

static void all_tokens_match(void **state)
{
	struct golden g = {0};
	struct gguf *file;
	char error[256];
	enum chat_kind kind;
	uint8_t *data = malloc(FILE_BYTES_MAX);
	FILE *f = fopen(GOLDEN_DIR "/tokens.bin", "rb");

	(void)state;
	assert_non_null(f);
	g.in = bytes_over(data, fread(data, 1, FILE_BYTES_MAX, f));
	fclose(f);
	assert_int_equal(gguf_open(real_model_or_skip(), &file, error, sizeof(error)), 0);
	if (tokenizer_new(file, &g.t, error, sizeof(error)))
		fail_msg("%s", error);
	gguf_close(file);
	assert_int_equal(chat_detect(g.t, "auto", &kind, error, sizeof(error)), 0);
	assert_int_equal(kind, CHAT_CHATML);
	while (bytes_left(&g.in)) {
		if (bytes_u8(&g.in) == 1)
			check_text(&g);
		else
			check_chat(&g);
		assert_false(g.in.failed);
	}
	assert_in_range(g.texts, 300, UINT32_MAX);
	assert_in_range(g.chats, 9, UINT32_MAX);
	printf("%u texts and %u conversations are equal\n", g.texts, g.chats);
	tokenizer_free(g.t);
	free(data);
}

static void the_model_is_as_described(void **state)
{
	struct gguf *file;
	struct tokenizer *t;
	char error[256];

	(void)state;
	assert_int_equal(gguf_open(real_model_or_skip(), &file, error, sizeof(error)), 0);
	assert_int_equal(tokenizer_new(file, &t, error, sizeof(error)), 0);
	gguf_close(file);
	assert_int_equal(tokenizer_vocab(t), 49152);
	assert_int_equal(tokenizer_bos(t), 1);
	assert_false(tokenizer_adds_bos(t));
	assert_true(tokenizer_is_end(t, 2));
	assert_true(tokenizer_is_end(t, 0));
	assert_false(tokenizer_is_end(t, 1));
	tokenizer_free(t);
}

TEST_MAIN(tokens, cmocka_unit_test(all_tokens_match), cmocka_unit_test(the_model_is_as_described))
