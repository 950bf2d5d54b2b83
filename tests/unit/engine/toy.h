/* SPDX-License-Identifier: Apache-2.0 */
/* A small random model in memory, with its weights kept as f32 for a plain reference. */
#ifndef TESTS_TOY_H
#define TESTS_TOY_H

#include "engine/model/model.h"

struct toy {
	struct model model;
	/* Row major, rounded to bf16 as the packed ones are. */
	float **qkv, **out, **gate_up, **down;
	float *embed;
};

struct toy *toy_new(const struct kernel_ops *ops, uint64_t seed);
void toy_free(struct toy *t);

/*
 * The plain reference: logits f32 [vocab] of the last of the tokens, in double precision with one
 * matrix product after another and the whole score matrix, as in a textbook.
 */
void toy_logits(const struct toy *t, const uint32_t *tokens, uint32_t count, float *out);

#endif
