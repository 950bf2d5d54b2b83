/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text to token ids and back, equal to Hugging Face's tokenizers for the same model. Immutable
 * after loading, as seen from here; all functions may be called from any thread.
 */
#ifndef ENGINE_TEXT_TOKENIZER_H
#define ENGINE_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gguf;
struct tokenizer;

/* From GGUF metadata. 0 or -errno, with one sentence in error[size]. */
int tokenizer_new(const struct gguf *g, struct tokenizer **out, char *error, size_t size);
void tokenizer_free(struct tokenizer *t);

/*
 * Encodes text[bytes] (any bytes; invalid UTF-8 is handled, not refused). special: spellings of
 * added tokens, as "<|im_start|>", become those tokens; else they are plain text. Adds no BOS.
 * Returns the number of tokens; those beyond `max` are counted, not stored. -ENOMEM.
 */
int64_t tokenizer_encode(const struct tokenizer *t, const char *text, size_t bytes, bool special,
			 uint32_t *out, size_t max);

/* The bytes of one token (may end inside a UTF-8 character); of a control token "" unless special.
 */
int tokenizer_piece(const struct tokenizer *t, uint32_t token, bool special, const char **out_text,
		    size_t *out_bytes);

uint32_t tokenizer_vocab(const struct tokenizer *t);
/* UINT32_MAX where the model has none. */
uint32_t tokenizer_bos(const struct tokenizer *t);
bool tokenizer_adds_bos(const struct tokenizer *t);
/* True for every token that ends a generation: eos, eot, <|im_end|>. */
bool tokenizer_is_end(const struct tokenizer *t, uint32_t token);
/* All of those, at most `max`; returns how many. */
uint32_t tokenizer_ends(const struct tokenizer *t, uint32_t *out, uint32_t max);
/* The chat template of the file, or NULL. Terminated. */
const char *tokenizer_template(const struct tokenizer *t);

/* --- streaming back ----------------------------------------------------------------------------
 */

/* Holds back the bytes of an incomplete UTF-8 character; embedded, no memory of its own. */
struct detok {
	const struct tokenizer *t;
	char held[4];
	uint32_t held_bytes;
};
void detok_init(struct detok *d, const struct tokenizer *t);
/* Appends what the token completes to out[size]; returns its bytes, or -ENOSPC (size >= 1024 is
 * enough for every token). */
int detok_push(struct detok *d, uint32_t token, char *out, size_t size);
/* The rest, with U+FFFD for what never got complete. */
int detok_finish(struct detok *d, char *out, size_t size);

/* --- chat ---------------------------------------------------------------------------------------
 */

enum chat_kind { CHAT_NONE, CHAT_CHATML };

struct chat_message {
	const char *role;
	const char *content;
	size_t content_bytes;
};

/*
 * Recognises the file's template. `choice`: NULL or "auto", "chatml", "none". 0; -ENOTSUP with a
 * sentence in error[size]: unknown, use --chat-template.
 */
int chat_detect(const struct tokenizer *t, const char *choice, enum chat_kind *out, char *error,
		size_t size);
/*
 * Renders the messages and the opening of the assistant's turn, as the model's template does (its
 * default system message too). Content cannot forge turns: special spellings in it stay text.
 * Returns the tokens, as tokenizer_encode().
 */
int64_t chat_encode(const struct tokenizer *t, enum chat_kind kind,
		    const struct chat_message *messages, size_t count, uint32_t *out, size_t max);

#endif
