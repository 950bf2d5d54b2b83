/* SPDX-License-Identifier: Apache-2.0 */
/* Finds tokens that are matched in the text itself, before it is cut into words. Immutable. */
#ifndef ENGINE_TEXT_ADDED_H
#define ENGINE_TEXT_ADDED_H

#include <engine/text/vocab.h>

struct added {
	uint32_t *id; /* control and user tokens, in order of their bytes */
	uint32_t count;
	uint32_t first[257]; /* those that begin with byte b: first[b] to first[b + 1] */
	const struct vocab *v;
};

/* v must outlive it. 0 or -ENOMEM. */
int added_init(struct added *a, const struct vocab *v);
void added_fini(struct added *a);
/*
 * The longest added token at the beginning of text[bytes]: its id, its length in *out_bytes; or
 * VOCAB_NONE. Control tokens only if `special`.
 */
uint32_t added_match(const struct added *a, const char *text, size_t bytes, bool special,
		     size_t *out_bytes);

#endif
