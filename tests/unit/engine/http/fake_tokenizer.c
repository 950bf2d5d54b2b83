/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tokenizer for tests of what stands above it: each byte is its own token, 256 is <|im_end|>,
 * 257 <|im_start|>. It implements tokenizer.h in full but for loading.
 */
#include "tests/unit/engine/http/fake_tokenizer.h"
#include "engine/http/jsonout.h"
#include <string.h>

struct tokenizer {
	bool adds_bos;
};

static struct tokenizer instance;

const struct tokenizer *fake_tokenizer(bool adds_bos)
{
	instance.adds_bos = adds_bos;
	return &instance;
}

static void put(uint32_t token, uint32_t *out, size_t max, int64_t *count)
{
	if ((size_t)*count < max)
		out[*count] = token;
	(*count)++;
}

int64_t tokenizer_encode(const struct tokenizer *t, const char *text, size_t bytes, bool special,
			 uint32_t *out, size_t max)
{
	static const char end[] = "<|im_end|>";
	int64_t count = 0;

	for (size_t i = 0; i < bytes; i++) {
		if (special && bytes - i >= sizeof(end) - 1 &&
		    memcmp(text + i, end, sizeof(end) - 1) == 0) {
			put(FAKE_TOKEN_END, out, max, &count);
			i += sizeof(end) - 2;
		} else {
			put((unsigned char)text[i], out, max, &count);
		}
	}
	return count;
}

int tokenizer_piece(const struct tokenizer *t, uint32_t token, bool special, const char **out_text,
		    size_t *out_bytes)
{
	static const char *const control[] = {"<|im_end|>", "<|im_start|>"};
	static char byte[256];

	if (token >= FAKE_TOKEN_END) {
		*out_text = special ? control[token - FAKE_TOKEN_END] : "";
		*out_bytes = strlen(*out_text);
		return 0;
	}
	__atomic_store_n(&byte[token], (char)token, __ATOMIC_RELAXED);
	*out_text = &byte[token];
	*out_bytes = 1;
	return 0;
}

uint32_t tokenizer_vocab(const struct tokenizer *t)
{
	return FAKE_VOCAB;
}

uint32_t tokenizer_bos(const struct tokenizer *t)
{
	return FAKE_TOKEN_START;
}

bool tokenizer_adds_bos(const struct tokenizer *t)
{
	return t->adds_bos;
}

bool tokenizer_is_end(const struct tokenizer *t, uint32_t token)
{
	return token == FAKE_TOKEN_END;
}

uint32_t tokenizer_ends(const struct tokenizer *t, uint32_t *out, uint32_t max)
{
	out[0] = FAKE_TOKEN_END;
	return 1;
}

void detok_init(struct detok *d, const struct tokenizer *t)
{
	*d = (struct detok){.t = t};
}

static size_t wanted_bytes(unsigned char lead)
{
	return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

/* Only for text that is UTF-8 as a whole, or cut at its end. */
int detok_push(struct detok *d, uint32_t token, char *out, size_t size)
{
	if (token >= FAKE_TOKEN_END)
		return 0;
	d->held[d->held_bytes++] = (char)token;
	if (d->held_bytes < wanted_bytes((unsigned char)d->held[0]))
		return 0;
	int n = (int)d->held_bytes;
	memcpy(out, d->held, d->held_bytes);
	d->held_bytes = 0;
	return n;
}

int detok_finish(struct detok *d, char *out, size_t size)
{
	if (d->held_bytes == 0)
		return 0;
	memcpy(out, "\xEF\xBF\xBD", 3);
	d->held_bytes = 0;
	return 3;
}

int64_t chat_encode(const struct tokenizer *t, enum chat_kind kind,
		    const struct chat_message *messages, size_t count, uint32_t *out, size_t max)
{
	int64_t n = 0;

	for (size_t i = 0; i <= count; i++) {
		const char *role = i < count ? messages[i].role : "assistant";

		put(FAKE_TOKEN_START, out, max, &n);
		for (; *role; role++)
			put((unsigned char)*role, out, max, &n);
		put('\n', out, max, &n);
		for (size_t k = 0; i < count && k < messages[i].content_bytes; k++)
			put((unsigned char)messages[i].content[k], out, max, &n);
		if (i < count)
			put(FAKE_TOKEN_END, out, max, &n);
	}
	return n;
}
