/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens of a byte-level vocabulary: bytes of each id, and id of bytes. Immutable. */
#ifndef ENGINE_TEXT_VOCAB_H
#define ENGINE_TEXT_VOCAB_H

#include <engine/model/gguf.h>

#define VOCAB_NONE UINT32_MAX
#define VOCAB_TOKENS_MAX (1u << 21)
/* Each byte may become one U+FFFD of three bytes, and a detokeniser's buffer holds 1024. */
#define VOCAB_TOKEN_BYTES_MAX 340u

enum vocab_kind {
	VOCAB_NORMAL,
	VOCAB_CONTROL, /* not text: matched only where special spellings are asked for */
	VOCAB_USER,    /* text that is matched before all else */
};

struct vocab_token {
	uint32_t offset; /* in text */
	uint16_t bytes;
	uint8_t kind;
};

struct vocab {
	uint32_t count;
	struct vocab_token *token;
	char *text;
	uint32_t byte_token[256]; /* VOCAB_NONE: no token is this one byte */
	uint32_t *slot;		  /* normal tokens by hash of their bytes; VOCAB_NONE: empty */
	uint32_t mask;
	uint64_t seed;
};

/* 0 or -errno with a sentence in error[size]; v is empty after a failure. */
int vocab_init(struct vocab *v, const struct gguf *g, char *error, size_t size);
void vocab_fini(struct vocab *v);

/* The normal token of exactly these bytes, or VOCAB_NONE. */
uint32_t vocab_find(const struct vocab *v, const char *text, size_t bytes);
/* The control or user token spelled so; a walk over all: for loading. */
uint32_t vocab_find_added(const struct vocab *v, const char *spelling);
/*
 * Turns a spelling, in which every byte is written as a printable character, into bytes:
 * out[spelling.bytes]. Returns their count, or -1 where a character stands for no byte.
 */
int64_t vocab_unspell(const struct gguf_string *spelling, char *out);

#endif
