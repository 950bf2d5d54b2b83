/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens and page contents that anybody can compute. A sequence is named by a short text,
 * "SEED:N+SEED:N", so many tokens drawn from each seed. The bytes of a token's place in its page
 * follow from all tokens up to it, like K and V do: whoever knows the tokens can tell whether a
 * page holds the right bytes, whoever wrote them.
 */
#ifndef TESTS_E2E_PRF_H
#define TESTS_E2E_PRF_H

#include <stddef.h>
#include <stdint.h>

#define PRF_TOKENS_MAX 65536u

struct prf_sequence {
	uint32_t count;
	uint32_t *tokens;
	uint64_t *chain; /* chain[i]: digest of tokens[0..i] */
};

/* Tokens of the text, appended. 0, or -1: not such a text, or too long. */
int prf_append(struct prf_sequence *s, const char *text);
/* A copy of the first `count` tokens. */
struct prf_sequence prf_copy(const struct prf_sequence *s, uint32_t count);
void prf_fini(struct prf_sequence *s);

struct prf_page {
	uint32_t tokens;
	uint32_t bytes;
};

/* Writes the places of tokens [first, end) of the sequence, all of one block, into its page. */
void prf_write(const struct prf_sequence *s, struct prf_page page, uint32_t first, uint32_t end,
	       void *memory);
/* How many of the tokens [first, end) do not have the right bytes. */
uint32_t prf_wrong(const struct prf_sequence *s, struct prf_page page, uint32_t first, uint32_t end,
		   const void *memory);

#endif
