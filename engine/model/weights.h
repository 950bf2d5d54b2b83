/* SPDX-License-Identifier: Apache-2.0 */
/* Finds every tensor of a model, checks its shape, and packs all of them into one arena. */
#ifndef ENGINE_MODEL_WEIGHTS_H
#define ENGINE_MODEL_WEIGHTS_H

#include <engine/model/family.h>
#include <engine/model/model.h>

/*
 * m needs h and ops; gets type, arena, all weights and norms, and room for inv_freq. 0, -EINVAL,
 * -ENOTSUP or -ENOMEM with a sentence in error[MODEL_ERROR_MAX]; m->arena may be set even then.
 */
int weights_load(const struct gguf *g, const struct family *family, struct model *m,
		 enum model_dtype dtype, model_progress_fn *progress, void *progress_ctx,
		 char *error);

#endif
