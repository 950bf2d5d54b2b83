/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One step of the model through the op table: a ragged batch of rows in, logits of the sampled
 * rows out. Knows pages only as addresses; knows neither kvd nor requests.
 */
#ifndef ENGINE_FORWARD_H
#define ENGINE_FORWARD_H

#include <engine/model/model.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct forward;

struct forward_limits {
	uint32_t rows_max;	/* tokens of one step */
	uint32_t sampled_max;	/* rows with logits in one step */
	uint32_t sequences_max; /* in one step */
	uint32_t context;	/* tokens of the longest sequence */
	uint32_t page_tokens;
	uint32_t threads;
	bool graphs; /* record steps and replay them, where the device can */
};

/* Of the pages that a model's keys and values lie in. */
struct kvd_layout forward_page_layout(const struct model *m, uint32_t page_tokens);

struct forward_plan_row {
	const char *name;
	size_t bytes;
};

/* Bytes of every buffer, before anything is allocated; rows end with {NULL, total}. Static memory
 * of the calling thread. */
const struct forward_plan_row *forward_plan(const struct model *m, const struct forward_limits *l);

/* Allocates everything, and records what the device wants recorded. 0, -ENOMEM, -EIO, -errno. */
int forward_new(const struct model *m, const struct forward_limits *l, struct forward **out);
void forward_free(struct forward *f);
const struct kvd_layout *forward_layout(const struct forward *f);
struct kernels_ctx *forward_ctx(struct forward *f);

/*
 * Starts one step; what the batch points to stays as it is until forward_wait(). Where nothing can
 * be had at once (the CPU) forward_wait() does the work; on an asynchronous device one more step
 * may be submitted before that. Without params nothing is drawn. Never allocates.
 */
void forward_submit(struct forward *f, const struct kernel_batch *b);
/* The oldest step under way has ended: its pages and tokens are there, and its logits if no other
 * is under way. 0, or -EIO: see forward_failure(). */
int forward_wait(struct forward *f);
/* Waits for nothing: 0 while the device can be used, else -EIO like forward_wait(). */
int forward_check(struct forward *f);
/* Both, for who has nothing to do meanwhile. */
int forward_step(struct forward *f, const struct kernel_batch *b);
/* f32 [vocab] of the i-th sampled row, until the next call or step. */
const float *forward_logits(struct forward *f, uint32_t i);
/* What ended the device, in words. */
const char *forward_failure(const struct forward *f);

#endif
