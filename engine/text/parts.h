/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of a struct tokenizer: for the files of this folder alone. */
#ifndef ENGINE_TEXT_PARTS_H
#define ENGINE_TEXT_PARTS_H

#include <engine/text/added.h>
#include <engine/text/merges.h>
#include <engine/text/pretok.h>
#include <engine/text/tokenizer.h>
#include <engine/text/tokens.h>
#include <engine/text/vocab.h>

#define PARTS_ENDS_MAX 8u

/* What chat.c found out about the file's template. */
struct chat_template {
	bool chatml;
	uint32_t start; /* <|im_start|> and <|im_end|>; VOCAB_NONE: the model has none */
	uint32_t end;
	char *system; /* the message that the template puts first when there is none; or NULL */
};

/* What is known of a word that is spelled like a token: merging need not lead to that token. */
enum parts_word { PARTS_WORD_NEW, PARTS_WORD_WHOLE, PARTS_WORD_PIECES };

struct tokenizer {
	struct vocab vocab;
	uint8_t *word; /* [vocab.count], enum parts_word; atomic, and only ever leaves NEW */
	struct merges merges;
	struct added added;
	const struct pretok_rule *rule;
	struct pretok *pretok;
	uint32_t bos;
	bool adds_bos;
	uint32_t ends[PARTS_ENDS_MAX];
	uint32_t end_count;
	char *chat_text; /* the template, terminated; or NULL */
	struct chat_template chat;
};

/* One encoder over several texts: an encoding's memory, and where its tokens go. */
struct encoding;
struct encoding *tokenizer_encoding_new(const struct tokenizer *t, uint32_t *out, size_t max);
int tokenizer_encoding_add(struct encoding *e, const char *text, size_t bytes, bool special);
void tokenizer_encoding_push(struct encoding *e, uint32_t token);
/* Ends it: `status` if that is negative, else the number of tokens. */
int64_t tokenizer_encoding_end(struct encoding *e, int status);

/* Fills t->chat from t->chat_text and t->vocab. 0 or -ENOMEM. */
int chat_init(struct tokenizer *t);
void chat_fini(struct tokenizer *t);

#endif
