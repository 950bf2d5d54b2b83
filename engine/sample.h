/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From logits to tokens. A draw depends on (seed, position) and the row's logits alone: batch,
 * preemption and restarts cannot change it.
 */
#ifndef ENGINE_SAMPLE_H
#define ENGINE_SAMPLE_H

#include <engine/engine.h>
#include <kernels/kernels.h>

/* Uniform in [0, 1), for the token that will stand at `position`. */
float sample_uniform(uint64_t seed, uint32_t position);

/* What the op needs to draw the token at `position`. */
struct kernel_sample_params sample_params(const struct engine_sampling *s, uint32_t position);

/*
 * The log of the softmax's denominator, from one token of the row whose log probability is known:
 * every other token's is then logits[token] - normaliser.
 */
float sample_normaliser(const float *logits, uint32_t token, float logprob);

/* The `count` best tokens, best first, the lower id first among equals; returns how many. */
uint32_t sample_top(const float *logits, uint32_t vocab, float normaliser, uint32_t count,
		    struct engine_logprob *out);

#endif
