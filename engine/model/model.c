/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading in order: family, hparams, weights, frequencies, identity. The model takes nothing from
 * the file by reference: it may be closed afterwards.
 */
#include "engine/model/model.h"

#include "engine/model/fail.h"
#include "engine/model/family.h"
#include "engine/model/fingerprint.h"
#include "engine/model/gguf.h"
#include "engine/model/hparams.h"
#include "engine/model/rope.h"
#include "engine/model/weights.h"

#include <errno.h>
#include <stdlib.h>

/* Frequencies, and the digest that they go into. */
static int identify(const struct gguf *file, struct model *m, char *error)
{
	size_t bytes = m->h.rope_dim / 2 * sizeof(float);
	float *inv_freq = malloc(bytes);
	int status = inv_freq ? rope_fill(file, &m->h, inv_freq, error) : -ENOMEM;

	if (!status)
		status = m->ops->memory_write(m->ops, m->inv_freq, inv_freq, bytes);
	if (!status)
		status = fingerprint_model(file, m, inv_freq, m->digest);
	if (status == -ENOMEM)
		fail_with(error, MODEL_ERROR_MAX, status, "no memory to load a model");
	if (status == -EIO)
		fail_with(error, MODEL_ERROR_MAX, status, "the device takes no weights");
	free(inv_freq);
	return status;
}

static int load(const struct gguf *file, struct model *m, enum model_dtype dtype,
		model_progress_fn *progress, void *progress_ctx, char *error)
{
	const struct family *family;
	int status = family_find(file, &family, error, MODEL_ERROR_MAX);

	if (!status)
		status = hparams_read(file, family, &m->h, error);
	if (!status)
		status = weights_load(file, family, m, dtype, progress, progress_ctx, error);
	if (!status)
		status = identify(file, m, error);
	return status;
}

int model_load(const struct gguf *file, const struct kernel_ops *ops, enum model_dtype dtype,
	       model_progress_fn *progress, void *progress_ctx, struct model **out, char *error)
{
	struct model *m = calloc(1, sizeof(*m));

	if (!m)
		return fail_with(error, MODEL_ERROR_MAX, -ENOMEM, "no memory to load a model");
	m->ops = ops;
	m->file_bytes = gguf_file_bytes(file);
	int status = load(file, m, dtype, progress, progress_ctx, error);
	if (status) {
		model_free(m);
		return status;
	}
	*out = m;
	return 0;
}

void model_free(struct model *m)
{
	if (!m)
		return;
	m->ops->memory_free(m->ops, m->arena, m->arena_bytes);
	free(m->layer);
	free(m);
}
