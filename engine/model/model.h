/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.h: a model in memory: what its file said (hparams), and its weights, packed for one op
 * table. Immutable after model_load(), shared by all threads.
 */
#ifndef ENGINE_MODEL_MODEL_H
#define ENGINE_MODEL_MODEL_H

#include <kernels/kernels.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_EOS_MAX 8u
#define MODEL_ERROR_MAX 512u

struct gguf;

struct model_hparams {
	char arch[32];
	char name[64];
	uint32_t layers;
	uint32_t hidden;
	uint32_t ffn;
	uint32_t heads;
	uint32_t kv_heads;
	uint32_t head_dim;
	uint32_t vocab;
	uint32_t context;
	uint32_t rope_dim;
	float rope_theta;
	float norm_eps;
	bool tied;
};

struct model_layer {
	struct kernel_weight qkv;     /* [(heads + 2 kv_heads) * head_dim][hidden] */
	struct kernel_weight out;     /* [hidden][heads * head_dim] */
	struct kernel_weight gate_up; /* [2 ffn][hidden], KERNEL_WEIGHT_GATE_UP */
	struct kernel_weight down;    /* [hidden][ffn] */
	float *attn_norm;	      /* [hidden], like all vectors in the device's memory */
	float *ffn_norm;	      /* [hidden] */
};

/* In which type to keep the weights, and so what products take. */
enum model_dtype {
	MODEL_DTYPE_AUTO, /* fp16 where the file's matrices are and the table can, else bf16 */
	MODEL_DTYPE_BF16,
	MODEL_DTYPE_FP16,
};

struct model {
	struct model_hparams h;
	const struct kernel_ops *ops;
	enum kernel_type type; /* of all weights */
	struct model_layer *layer;
	struct kernel_weight embed; /* [vocab][hidden] */
	struct kernel_weight head;  /* == embed when tied */
	float *out_norm;	    /* [hidden] */
	float *inv_freq;	    /* [rope_dim / 2], scaling already applied */
	uint8_t digest[16];	    /* XXH3-128 over every tensor's name, type, shape and bytes, and
				     * over all hparams that decide a KV bit */
	uint64_t file_bytes;
	uint64_t weight_bytes; /* packed, in memory */
	void *arena;	       /* of ops->memory_new(): all data, norms and frequencies */
	size_t arena_bytes;
};

/* Called now and then while loading, from the loading thread. done <= total, in bytes. */
typedef void model_progress_fn(void *ctx, uint64_t done, uint64_t total);

/*
 * Loads from an open GGUF file: checks that every tensor is there and has the right shape, then
 * dequantises and packs. 0 or -errno (-ENOTSUP: another architecture, or fp16 on a table without
 * it; -EINVAL: the file contradicts itself, -ENOMEM), with one sentence in error[MODEL_ERROR_MAX]
 * that says what to do.
 */
int model_load(const struct gguf *file, const struct kernel_ops *ops, enum model_dtype dtype,
	       model_progress_fn *progress, void *progress_ctx, struct model **out, char *error);
void model_free(struct model *m);

#endif
