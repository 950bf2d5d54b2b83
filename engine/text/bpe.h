/* SPDX-License-Identifier: Apache-2.0 */
/* Byte-pair encoding of one word: of what the pre-tokenizer left in one piece. */
#ifndef ENGINE_TEXT_BPE_H
#define ENGINE_TEXT_BPE_H

#include <engine/text/merges.h>
#include <engine/text/tokens.h>

struct bpe_symbol;
struct bpe_candidate;

/* Memory of one encoder, grown to its longest word. Zeroed is empty. */
struct bpe_work {
	struct bpe_symbol *symbol;
	struct bpe_candidate *heap;
	size_t bytes_max; /* of a word, at this size */
};

void bpe_work_fini(struct bpe_work *w);
/* Appends the tokens of text[bytes]. bytes < 2^31. 0 or -ENOMEM. */
int bpe_encode(const struct vocab *v, const struct merges *m, struct bpe_work *w, const char *text,
	       size_t bytes, struct tokens *out);

#endif
