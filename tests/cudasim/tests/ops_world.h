/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small model on the op table of the simulated GPU, and sequences that run through it. The same
 * story can be played in other batches, chunks or contexts; what comes of a sequence must not
 * differ in a bit. For roles: what fails ends the process (child.h).
 */
#ifndef TESTS_CUDASIM_TESTS_OPS_WORLD_H
#define TESTS_CUDASIM_TESTS_OPS_WORLD_H

#include <kernels/kernels.h>

#define OPS_LAYERS 2u
#define OPS_HIDDEN 96u
#define OPS_HEADS 4u
#define OPS_KV_HEADS 2u
#define OPS_HEAD_DIM 64u
#define OPS_FFN 136u
#define OPS_VOCAB 301u
#define OPS_PAGE_TOKENS 16u
#define OPS_PAGES_MAX 16u
#define OPS_TOKENS_MAX (OPS_PAGE_TOKENS * OPS_PAGES_MAX)
#define OPS_SEQS 5u
#define OPS_ROWS_MAX 160u

enum ops_buffer {
	OPS_X,
	OPS_NORM,
	OPS_QKV,
	OPS_Q,
	OPS_ATT,
	OPS_ACT,
	OPS_LAST,
	OPS_HEAD,
	OPS_LOGITS,
	OPS_BUFFERS
};

struct ops_layer {
	struct kernel_weight qkv, out, gate_up, down;
	float *attn_norm, *ffn_norm, *q_norm, *k_norm;
};

/* A sequence: its tokens, those behind the prompt drawn; how many are in pages. */
struct ops_seq {
	uint32_t tokens[OPS_TOKENS_MAX];
	float logprobs[OPS_TOKENS_MAX];
	uint32_t token_count;
	uint32_t done;
	uint32_t drawing; /* tokens that steps under way will add; */
	uint32_t draw;	  /* the last of them: which draw of its step */
	uint64_t pages[OPS_PAGES_MAX];
};

struct ops_world {
	const struct kernel_ops *ops;
	enum kernel_type type;
	struct kernels_ctx *ctx;
	struct kvd_layout layout;
	struct kernel_weight embed, head;
	struct ops_layer layers[OPS_LAYERS];
	float *out_norm, *inv_freq;
	void *buf[OPS_BUFFERS];
	uint8_t *pool;	       /* all pages */
	const uint32_t *drawn; /* where the last step's draws will be */
	struct ops_seq seqs[OPS_SEQS];
};

/* `rows` of a sequence in a step; the last one is drawn from if it is the last there is. */
struct ops_item {
	uint32_t seq;
	uint32_t rows;
};

/* The table of cuda:0, by its module. */
const struct kernel_ops *ops_world_table(void);
/* A copy in memory of the table's device. */
void *ops_world_put(const struct kernel_ops *ops, const void *data, size_t bytes);
/* Random numbers in (-range, range), in malloc()ed memory. */
float *ops_world_floats(uint64_t seed, size_t count, double range);
/* The same weight, packed for that table. */
struct kernel_weight ops_world_weight(const struct kernel_ops *ops, uint64_t seed,
				      enum kernel_weight_kind kind, uint32_t n, uint32_t k,
				      enum kernel_type type);
struct kernels_limits ops_world_limits(bool graphs);

/* Model, pages and prompts; then a context, which records its graphs. */
void ops_world_init(struct ops_world *w);
void ops_world_init_type(struct ops_world *w, enum kernel_type type);
int ops_world_start(struct ops_world *w, bool graphs);
void ops_world_fini(struct ops_world *w);

/* One step; params of a draw follow from sequence and position. 0 or -EIO. */
int ops_world_step(struct ops_world *w, const struct ops_item *items, uint32_t count);
/* Its two halves; out must stay until the wait. A token that a step under way draws may be a row of
 * the next step. */
struct ops_step {
	uint32_t tokens[OPS_ROWS_MAX];
	struct kernel_seq seqs[OPS_SEQS];
	uint32_t sampled[OPS_SEQS];
	struct kernel_sample_params params[OPS_SEQS];
	uint32_t drawn[OPS_SEQS];
	float logprobs[OPS_SEQS];
	uint32_t owner[OPS_SEQS]; /* of a draw */
	struct kernel_batch batch;
};
void ops_world_submit(struct ops_world *w, const struct ops_item *items, uint32_t count,
		      struct ops_step *step);
void ops_world_take(struct ops_world *w, const struct ops_step *step);

/* Prompts in mixed batches, then decode together. 0 or -EIO. */
int ops_world_play(struct ops_world *w);
/* The same story, each sequence by itself and in other chunks. */
int ops_world_play_alone(struct ops_world *w);
/* Tokens, log probabilities and pages are the same bits. */
void ops_world_same(const struct ops_world *a, const struct ops_world *b);
/* One number for all of that. */
uint64_t ops_world_digest(const struct ops_world *w);

#endif
