/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sequences for tests of attention: their q, K and V are functions of (sequence, position), so a
 * row can be computed in any company, by any path, and must come out with the same bits. Each run
 * lays the pages anew: what a run's rows must not see is NaN there (keys behind the sequence's end,
 * before the window, other layers, unused heads' bytes) or not there at all.
 */
#ifndef CUDASIM_TESTS_ATTN_WORLD_H
#define CUDASIM_TESTS_ATTN_WORLD_H

#include "kernels/cuda/attn.h"

#include <stdbool.h>

#define ATTN_WORLD_SEQS 3u

struct attn_world {
	/* Of the caller. */
	uint32_t heads;
	uint32_t kv_heads;
	uint32_t head_dim;
	uint32_t page_tokens;
	uint32_t window;
	uint32_t tokens_max; /* of a sequence */
	bool tma;	     /* all pages may be read by TMA */
	bool fp16;	     /* out is */
	cudaError_t (*prefill)(cudaStream_t stream, const struct cuda_attention *a);
	/* Ours. */
	uint16_t *q; /* [seq][pos][head][dim] */
	uint16_t *k; /* [seq][kv head][pos][dim] */
	uint16_t *v;
};

/* A chunk of a sequence's rows, for one run. */
struct attn_chunk {
	uint32_t seq;
	uint32_t pos0;
	uint32_t rows;
	bool decode;
};

void attn_world_init(struct attn_world *w);
void attn_world_fini(struct attn_world *w);
/* Elements of a row of q and out. */
uint32_t attn_world_row(const struct attn_world *w);
/* Computes the chunks in one run of each kernel: out is [row of the chunks][attn_world_row()]. */
void attn_world_run(const struct attn_world *w, const struct attn_chunk *chunks, uint32_t count,
		    uint16_t *out);
/* Fails unless the row of (seq, pos) is what the textbook says, up to rounding. */
void attn_world_check_row(const struct attn_world *w, uint32_t seq, uint32_t pos,
			  const uint16_t *row);

#endif
