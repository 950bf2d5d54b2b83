/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts text into the words that byte-pair encoding works on, by the rule that the model names. */
#ifndef ENGINE_TEXT_PRETOK_H
#define ENGINE_TEXT_PRETOK_H

#include <stdbool.h>
#include <stddef.h>

struct pretok;
struct pretok_work;

/* One row per rule that GGUF's tokenizer.ggml.pre may name. */
struct pretok_rule {
	const char *name;
	const char *pattern[2]; /* applied one after the other, to the pieces of the one before */
	bool nfc;		/* the text is normalised first */
	bool whole_words;	/* a word that is a token is not split, whatever the merges say */
	bool adds_bos;		/* unless the file says otherwise */
};

/* NULL: unknown. */
const struct pretok_rule *pretok_rule_find(const char *name, size_t bytes);

/* 0 or -errno with a sentence in error[size]. Immutable after: any thread may use it. */
int pretok_new(const struct pretok_rule *rule, struct pretok **out, char *error, size_t size);
void pretok_free(struct pretok *p);

/* What one encoder needs to match. NULL: no memory. */
struct pretok_work *pretok_work_new(const struct pretok *p);
void pretok_work_free(struct pretok_work *w);

/* One word; nonzero stops the split and is returned by it. */
typedef int pretok_fn(void *ctx, const char *word, size_t bytes);
/* text must be valid UTF-8. 0, what fn returned, or -ENOMEM. */
int pretok_split(const struct pretok *p, struct pretok_work *w, const char *text, size_t bytes,
		 pretok_fn *fn, void *ctx);

#endif
