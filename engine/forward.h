/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One step of the model through the op table: a ragged batch of rows in, logits of the sampled
 * rows out. Knows pages only as addresses; knows neither kvd nor requests.
 */
#ifndef ENGINE_FORWARD_H
#define ENGINE_FORWARD_H

#include <engine/model/model.h>
#include <stddef.h>
#include <stdint.h>

struct forward;

struct forward_limits {
	uint32_t rows_max;	/* tokens of one step */
	uint32_t sampled_max;	/* rows with logits in one step */
	uint32_t page_tokens;
	uint32_t threads;
};

struct forward_batch {
	const uint32_t *tokens; /* [rows] */
	uint32_t rows;
	const struct kernel_seq *seqs;
	uint32_t seq_count;
	const uint32_t *sampled; /* rows whose logits are wanted, ascending */
	uint32_t sampled_count;
};

struct forward_plan_row {
	const char *name;
	size_t bytes;
};

/* Bytes of every buffer, before anything is allocated; rows end with {NULL, total}. Static memory
 * of the calling thread. */
const struct forward_plan_row *forward_plan(const struct model *m, const struct forward_limits *l);

int forward_new(const struct model *m, const struct forward_limits *l, struct forward **out);
void forward_free(struct forward *f);
const struct kvd_layout *forward_layout(const struct forward *f);
struct kernels_ctx *forward_ctx(struct forward *f);

/* Runs one step. Returns logits f32 [sampled_count][vocab], valid until the next step. Never fails,
 * never allocates. */
const float *forward_step(struct forward *f, const struct forward_batch *b);

#endif
