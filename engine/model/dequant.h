/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tensor types of GGUF that this engine reads, as one table: how a block is stored, and how
 * to turn blocks into floats. A row of a tensor is a whole number of blocks.
 */
#ifndef ENGINE_MODEL_DEQUANT_H
#define ENGINE_MODEL_DEQUANT_H

#include <stdint.h>

#define DEQUANT_BLOCK_MAX 256u
#define DEQUANT_F16 1u /* ggml's number of it */

struct dequant_type {
	uint32_t type; /* ggml's number */
	const char *name;
	uint32_t block_elements;
	uint32_t block_bytes;
	/* src[blocks * block_bytes], of any alignment, to dst[blocks * block_elements] */
	void (*row)(const uint8_t *src, uint64_t blocks, float *dst);
};

/* NULL: this type is not supported. */
const struct dequant_type *dequant_find(uint32_t type);
/* "F32, F16, ..." for error messages; static. */
const char *dequant_names(void);

#endif
