/* SPDX-License-Identifier: Apache-2.0 */
/* The merges of a byte-pair encoding: which two tokens become one, and which pair goes first. */
#ifndef ENGINE_TEXT_MERGES_H
#define ENGINE_TEXT_MERGES_H

#include <engine/text/vocab.h>

struct merge {
	uint32_t left;
	uint32_t right;
	uint32_t rank; /* the lowest goes first */
	uint32_t id;   /* what they become; VOCAB_NONE: an empty slot */
};

struct merges {
	struct merge *slot;
	uint32_t mask;
	uint64_t seed;
};

/* 0 or -errno with a sentence in error[size]; m is empty after a failure. */
int merges_init(struct merges *m, const struct vocab *v, const struct gguf *g, char *error,
		size_t size);
void merges_fini(struct merges *m);
/* NULL: this pair does not merge. */
const struct merge *merges_find(const struct merges *m, uint32_t left, uint32_t right);

#endif
