/* SPDX-License-Identifier: Apache-2.0 */
/* Token sequences from a few shared streams, and the hash of each of their prefixes. */
#ifndef SIM_PROMPT_H
#define SIM_PROMPT_H

#include "tests/sim/sim.h"

/* A fresh sequence of SIM_TOKENS_MAX tokens that shares long prefixes with many others. */
void prompt_make(struct sim *sim, uint32_t space, uint32_t format, struct sim_sequence *out);
/* From token `from` on, other tokens than before. */
void prompt_diverge(struct sim *sim, struct sim_sequence *seq, uint32_t from);
/* The same tokens, in another format. */
void prompt_reformat(struct sim_sequence *seq, uint32_t format);
/* Puts something that is not a token behind one of the first n positions, sometimes. */
void prompt_add_extras(struct sim *sim, struct sim_sequence *seq, uint32_t n);
/* What stands behind positions from n on is forgotten. */
void prompt_cut_extras(struct sim_sequence *seq, uint32_t n);
/* How many of the first n tokens are equal, extras and namespace and format included. */
uint32_t prompt_common(const struct sim_sequence *a, const struct sim_sequence *b, uint32_t n);
/* What a page of part `part` holds at token `pos` when its bytes are right. */
static inline uint32_t prompt_bytes(const struct sim_sequence *seq, uint32_t part, uint32_t pos)
{
	return seq->hash[pos] ^ (part * 0x9e3779b9u);
}

#endif
