/* SPDX-License-Identifier: Apache-2.0 */
/* The frequencies of rotary positions, with the file's scaling applied. */
#ifndef ENGINE_MODEL_ROPE_H
#define ENGINE_MODEL_ROPE_H

#include <engine/model/model.h>

/* A tensor of divisors, one per frequency, may stand in the file under this name. */
#define ROPE_TENSOR "rope_freqs.weight"

/* Fills out[h->rope_dim / 2]. 0; -EINVAL or -ENOTSUP with a sentence in error[MODEL_ERROR_MAX]. */
int rope_fill(const struct gguf *g, const struct model_hparams *h, float *out, char *error);

#endif
