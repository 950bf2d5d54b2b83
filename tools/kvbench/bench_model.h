/* SPDX-License-Identifier: Apache-2.0 */
/* A model, its forward pass, and pages in private memory: what prefill and decode are timed on. */
#ifndef TOOLS_KVBENCH_BENCH_MODEL_H
#define TOOLS_KVBENCH_BENCH_MODEL_H

#include "tools/kvbench/bench.h"

#include <engine/forward.h>
#include <engine/model/model.h>

struct bench_model {
	struct model *model;
	struct forward *forward;
	uint64_t *pages;
	uint32_t page_count;
	void *memory;
	size_t memory_bytes;
	uint32_t *tokens;
	uint32_t token_max;
	uint32_t chunk_tokens;
};

/* Loads b->model, with room for token_max tokens. 0 or -errno after a message. */
int bench_model_open(struct bench_model *s, const struct bench *b, uint32_t token_max);
void bench_model_close(struct bench_model *s);
/* Computes tokens [pos, pos + count) in chunks; the last row's logits are computed too. 0, or
 * -errno after a message: the device has failed. */
int bench_model_prefill(struct bench_model *s, uint32_t pos, uint32_t count);
/* FLOPs of the linear layers for one token, the head not counted; of the head; of attention to
 * `depth` tokens. Multiply-adds count as two. */
double bench_model_linear_flop(const struct bench_model *s);
double bench_model_head_flop(const struct bench_model *s);
double bench_model_attention_flop(const struct bench_model *s, uint32_t depth);

#endif
