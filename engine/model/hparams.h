/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers that define a model, from GGUF metadata, each checked against a bound. */
#ifndef ENGINE_MODEL_HPARAMS_H
#define ENGINE_MODEL_HPARAMS_H

#include <engine/model/family.h>
#include <engine/model/model.h>

/* 0; -EINVAL or -ENOTSUP with a sentence in error[MODEL_ERROR_MAX]. */
int hparams_read(const struct gguf *g, const struct family *family, struct model_hparams *out,
		 char *error);

#endif
