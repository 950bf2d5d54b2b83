/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPT-2's byte-level vocabularies write each byte of a token as one printable character: bytes
 * that are printable in Latin-1 as themselves, the others as U+0100 and up, in order. Here tokens
 * are kept as bytes, so that nothing after loading knows of that spelling. Control and user tokens
 * are spelled as they are.
 *
 * The hash is seeded per vocabulary at random: a hostile file cannot aim at its collisions.
 */
#include "engine/text/vocab.h"

#include "engine/model/fail.h"
#include "engine/text/utf8.h"

#include <base/bits.h>
#include <base/bytes.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <xxhash.h>

/* tokenizer.ggml.token_type */
enum { TYPE_NORMAL = 1, TYPE_UNKNOWN = 2, TYPE_CONTROL = 3, TYPE_USER = 4, TYPE_UNUSED = 5 };

static bool spelled_as_itself(uint32_t byte)
{
	return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad && byte <= 0xff);
}

/* The byte that a character stands for, or -1. */
static int byte_of(uint32_t code)
{
	uint32_t next = 0x100;

	if (code < 0x100)
		return spelled_as_itself(code) ? (int)code : -1;
	for (uint32_t byte = 0; byte < 256; byte++) {
		if (!spelled_as_itself(byte) && next++ == code)
			return (int)byte;
	}
	return -1;
}

int64_t vocab_unspell(const struct gguf_string *spelling, char *out)
{
	int64_t count = 0;

	for (size_t at = 0; at < spelling->bytes;) {
		size_t bytes;
		const char *p = spelling->text + at;

		if (utf8_next(p, spelling->bytes - at, &bytes) != UTF8_CHARACTER)
			return -1;
		int byte = byte_of(utf8_decode(p, bytes));
		if (byte < 0)
			return -1;
		out[count++] = (char)byte;
		at += bytes;
	}
	return count;
}

static enum vocab_kind kind_of(const struct gguf_array *types, uint64_t i)
{
	if (!types->count)
		return VOCAB_NORMAL;
	struct bytes in = bytes_over(types->data + 4 * i, 4);
	switch (bytes_u32(&in)) {
	case TYPE_UNKNOWN:
	case TYPE_CONTROL:
	case TYPE_UNUSED:
		return VOCAB_CONTROL;
	case TYPE_USER:
		return VOCAB_USER;
	default:
		return VOCAB_NORMAL;
	}
}

static uint64_t hash(const struct vocab *v, const char *text, size_t bytes)
{
	return XXH3_64bits_withSeed(text, bytes, v->seed);
}

static bool equals(const struct vocab *v, uint32_t id, const char *text, size_t bytes)
{
	return v->token[id].bytes == bytes &&
	       memcmp(v->text + v->token[id].offset, text, bytes) == 0;
}

uint32_t vocab_find(const struct vocab *v, const char *text, size_t bytes)
{
	uint32_t i = (uint32_t)hash(v, text, bytes) & v->mask;

	while (v->slot[i] != VOCAB_NONE && !equals(v, v->slot[i], text, bytes))
		i = (i + 1) & v->mask;
	return v->slot[i];
}

uint32_t vocab_find_added(const struct vocab *v, const char *spelling)
{
	for (uint32_t id = 0; id < v->count; id++) {
		if (v->token[id].kind != VOCAB_NORMAL && equals(v, id, spelling, strlen(spelling)))
			return id;
	}
	return VOCAB_NONE;
}

/* Of tokens with the same bytes the first one is found. */
static void insert(struct vocab *v, uint32_t id)
{
	const struct vocab_token *t = &v->token[id];
	uint32_t i = (uint32_t)hash(v, v->text + t->offset, t->bytes) & v->mask;

	while (v->slot[i] != VOCAB_NONE) {
		if (equals(v, v->slot[i], v->text + t->offset, t->bytes))
			return;
		i = (i + 1) & v->mask;
	}
	v->slot[i] = id;
	if (t->bytes == 1)
		v->byte_token[(uint8_t)v->text[t->offset]] = id;
}

static int read_arrays(const struct gguf *g, struct gguf_array *tokens, struct gguf_array *types,
		       char *error, size_t size)
{
	if (gguf_get_array(g, "tokenizer.ggml.tokens", GGUF_STRING, tokens))
		return fail_with(error, size, -EINVAL, "the file holds no list of tokens");
	if (tokens->count == 0 || tokens->count > VOCAB_TOKENS_MAX)
		return fail_with(error, size, -EINVAL, "the file lists %llu tokens, not 1 to %u",
				 (unsigned long long)tokens->count, VOCAB_TOKENS_MAX);
	*types = (struct gguf_array){0};
	int status = gguf_get_array(g, "tokenizer.ggml.token_type", GGUF_I32, types);
	if (status == -EINVAL || (!status && types->count != tokens->count))
		return fail_with(error, size, -EINVAL,
				 "tokenizer.ggml.token_type does not name one type for each token");
	return 0;
}

static int allocate(struct vocab *v, const struct gguf_array *tokens)
{
	size_t slots = bits_pow2_up(2 * tokens->count);

	v->token = calloc(tokens->count, sizeof(*v->token));
	v->text = malloc(tokens->bytes);
	v->slot = malloc(slots * sizeof(*v->slot));
	if (!v->token || !v->text || !v->slot)
		return -ENOMEM;
	memset(v->slot, 0xff, slots * sizeof(*v->slot));
	memset(v->byte_token, 0xff, sizeof(v->byte_token));
	v->mask = (uint32_t)slots - 1;
	if (getrandom(&v->seed, sizeof(v->seed), 0) != sizeof(v->seed))
		return -EIO;
	return 0;
}

static int add_tokens(struct vocab *v, struct gguf_array *tokens, struct gguf_array *types,
		      char *error, size_t size)
{
	struct gguf_string spelling;
	size_t offset = 0;
	uint32_t used = 0;

	for (; gguf_next_string(tokens, &offset, &spelling); v->count++) {
		struct vocab_token *t = &v->token[v->count];
		enum vocab_kind kind = kind_of(types, v->count);
		int64_t bytes = -1;

		if (kind == VOCAB_NORMAL)
			bytes = vocab_unspell(&spelling, v->text + used);
		bool known = bytes > 0;
		if (bytes < 0) {
			memcpy(v->text + used, spelling.text, spelling.bytes);
			bytes = (int64_t)spelling.bytes;
		}
		if (bytes > (int64_t)VOCAB_TOKEN_BYTES_MAX)
			return fail_with(error, size, -ENOTSUP,
					 "token %u is %lld bytes long, more than %u", v->count,
					 (long long)bytes, VOCAB_TOKEN_BYTES_MAX);
		*t = (struct vocab_token){used, (uint16_t)bytes, (uint8_t)kind};
		used += (uint32_t)bytes;
		if (known)
			insert(v, v->count);
	}
	return 0;
}

int vocab_init(struct vocab *v, const struct gguf *g, char *error, size_t size)
{
	struct gguf_array tokens, types;

	*v = (struct vocab){0};
	int status = read_arrays(g, &tokens, &types, error, size);
	if (status)
		return status;
	status = allocate(v, &tokens);
	if (status)
		fail_with(error, size, status, "no memory for %llu tokens",
			  (unsigned long long)tokens.count);
	else
		status = add_tokens(v, &tokens, &types, error, size);
	if (status)
		vocab_fini(v);
	return status;
}

void vocab_fini(struct vocab *v)
{
	free(v->slot);
	free(v->text);
	free(v->token);
	*v = (struct vocab){0};
}
