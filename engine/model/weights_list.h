/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work of loading as a list: which rows of which tensors make up each packed matrix and each
 * vector. Made and checked completely before a byte of weights is read.
 */
#ifndef ENGINE_MODEL_WEIGHTS_LIST_H
#define ENGINE_MODEL_WEIGHTS_LIST_H

#include <engine/model/dequant.h>
#include <engine/model/family.h>
#include <engine/model/gguf.h>
#include <engine/model/model.h>

#define WEIGHTS_PIECES_MAX 3u

/* All rows of one tensor, in a row of pieces that are stacked. */
struct weights_piece {
	const struct gguf_tensor *tensor;
	const struct dequant_type *type;
	uint32_t rows;
	uint32_t interleaved; /* head_dim when the halves of each head alternate; else 0 */
};

struct weights_matrix {
	struct kernel_weight *w;
	struct weights_piece piece[WEIGHTS_PIECES_MAX];
	uint32_t pieces;
};

struct weights_vector {
	float *dst;
	const struct gguf_tensor *tensor;
};

struct weights_list {
	struct weights_matrix *matrix;
	uint32_t matrix_count;
	struct weights_vector *vector;
	uint32_t vector_count;
	uint64_t tensor_bytes; /* of the matrices, in the file */
	uint32_t k_max;
};

/* m->layer and the vectors must be in place. Status and error as weights_load(). */
int weights_list_init(struct weights_list *l, const struct gguf *g, const struct family *family,
		      struct model *m, char *error);
void weights_list_fini(struct weights_list *l);

#endif
