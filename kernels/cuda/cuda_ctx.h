/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The context behind struct kernels_ctx: streams, one block of device memory, one of pinned host
 * memory, the graphs, and where in a step it stands. All of it is made by cuda_ctx_new(); a step
 * allocates nothing.
 */
#ifndef KERNELS_CUDA_CUDA_CTX_H
#define KERNELS_CUDA_CUDA_CTX_H

#include <kernels/cuda/cuda_choice.h>
#include <kernels/cuda/cuda_gemm.h>
#include <kernels/cuda/launch.h>

#define CUDA_CTX_ALIGN 256u
#define CUDA_CTX_SLOTS 3u /* staging blocks */
#define CUDA_CTX_GRAPHS 64u

/* How many of everything a batch has, or a graph is made for: what its grids follow from. */
struct cuda_shape {
	uint32_t rows;
	uint32_t seqs;
	uint32_t tiles;
	uint32_t decodes;
	uint32_t sampled;
	uint32_t splits; /* of the longest sequence of `decodes` */
};

/*
 * A step's block in pinned memory, and where its results arrive. It is written by the host only
 * while the device has nothing to do with it: not busy.
 */
struct cuda_slot {
	uint8_t *staging;
	uint32_t *drawn;      /* [sampled_max] tokens, and logprobs behind the shape's tokens */
	cudaEvent_t copied;   /* the block is in device memory */
	cudaEvent_t done;     /* the step is complete and its results are here */
	uint32_t *out_tokens; /* the caller's; NULL: nothing was asked */
	float *out_logprobs;
	uint32_t sampled_count; /* of the caller */
	uint32_t sampled;	/* of the shape */
	bool busy;
};

enum cuda_ctx_state {
	CUDA_CTX_IDLE,
	CUDA_CTX_EAGER,	 /* between step_begin() and step_end(): the operations queue kernels */
	CUDA_CTX_REPLAY, /* a graph will */
	CUDA_CTX_RECORD, /* a graph is being recorded */
};

struct cuda_graph {
	struct cuda_shape shape;
	cudaGraphExec_t exec; /* NULL: not recorded (yet) */
};

struct kernels_ctx {
	const struct kernel_ops *ops;
	int ordinal;
	struct kernels_limits limits;
	struct cuda_shape limit; /* the largest shape of a step */
	uint32_t tile_rows;
	uint32_t decode_rows;

	cudaStream_t compute;
	cudaStream_t in;      /* staging to device */
	cudaStream_t out;     /* results to host */
	cudaStream_t pages;   /* copies of pages */
	cudaEvent_t computed; /* the last step's kernels are through: its block may change */
	struct cuda_gemm gemm;
	struct cuda_choice choice;

	uint8_t *device; /* one allocation; the parts lie in it */
	uint8_t *block;	 /* the step's batch */
	uint32_t *drawn; /* [2 * sampled_max]: tokens, then logprobs, of the shape's count each */
	float *scratch;	 /* f32 [rows_max][n_max]: products that another kernel finishes */
	float *partials; /* attention's */

	uint8_t *pinned;
	size_t pinned_bytes;
	bool registered;
	float *view; /* [vocab], pinned */
	struct cuda_slot slots[CUDA_CTX_SLOTS];
	uint32_t next_slot;
	struct cuda_slot
		*last_slot; /* of the step before; its `done`: results have left the device */

	struct cuda_graph graphs[CUDA_CTX_GRAPHS]; /* ascending */
	uint32_t graph_count;
	uint32_t graph_next; /* to be recorded: one above it; 0: all are */
	bool warmed;	     /* every kernel has run once */

	/* The step between begin and end. */
	enum cuda_ctx_state state;
	struct cuda_shape shape;
	struct cuda_batch batch;
	struct cuda_slot *slot;
	struct cuda_graph *graph;

	struct kernel_counts counts;
	bool failed;
	char words[320];
};

/*
 * True: go on. False: the context has failed, now or before, and does nothing any more; the first
 * failure's words are kept.
 */
bool cuda_ctx_check(struct kernels_ctx *ctx, cudaError_t e, const char *what);
bool cuda_ctx_check_gemm(struct kernels_ctx *ctx, cublasStatus_t s, const struct cuda_product *p);
/* Makes the device this thread's. False: the context has failed. */
bool cuda_ctx_enter(struct kernels_ctx *ctx);

/* The operations of the table that are the context's. */
int cuda_ctx_new(const struct kernel_ops *ops, const struct kernels_limits *limits,
		 uint32_t threads, struct kernels_ctx **out);
void cuda_ctx_free(struct kernels_ctx *ctx);
size_t cuda_ctx_bytes(const struct kernels_limits *limits, uint32_t threads);
uint32_t cuda_ctx_threads(const struct kernels_ctx *ctx);
void cuda_ctx_counts(const struct kernels_ctx *ctx, struct kernel_counts *out);
const char *cuda_ctx_failure(const struct kernels_ctx *ctx);
const float *cuda_ctx_view(struct kernels_ctx *ctx, const float *row, uint32_t count);
void cuda_ctx_page_copy(struct kernels_ctx *ctx, uint64_t dst, uint64_t src, uint64_t bytes);

/* cuda_batch.c */
/*
 * Lays a batch of that shape out from base on. Returns the bytes before the page addresses, which
 * are its last part.
 */
size_t cuda_batch_place(const struct cuda_shape *shape, uint8_t *base, struct cuda_batch *out);
/* What `in` needs at least. */
struct cuda_shape cuda_batch_shape(const struct kernels_ctx *ctx, const struct kernel_batch *in);
/* Writes `in`, padded to the shape, to staging memory; returns the bytes to be copied. */
size_t cuda_batch_fill(const struct kernels_ctx *ctx, const struct kernel_batch *in,
		       const struct cuda_shape *shape, uint8_t *staging);
/* The batch as the operations see it: addresses of device memory. */
void cuda_batch_given(const struct kernels_ctx *ctx, bool drawn, struct kernel_batch *out);

/* cuda_graph.c */
/* Fills ctx->graphs with shapes; none is recorded yet. */
void cuda_graph_plan(struct kernels_ctx *ctx);
void cuda_graph_fini(struct kernels_ctx *ctx);
/* The recorded graph for a batch of that shape, or NULL: eager. */
struct cuda_graph *cuda_graph_find(struct kernels_ctx *ctx, const struct cuda_shape *need);
/* Begins to record the next one; false: there is none left. */
bool cuda_graph_record(struct kernels_ctx *ctx);
void cuda_graph_recorded(struct kernels_ctx *ctx);

/* cuda_step.c */
bool cuda_step_prepare(struct kernels_ctx *ctx, struct kernel_batch *out);
enum kernel_step cuda_step_begin(struct kernels_ctx *ctx, const struct kernel_batch *in,
				 struct kernel_batch *out);
void cuda_step_end(struct kernels_ctx *ctx);
int cuda_step_wait(struct kernels_ctx *ctx, uint32_t left);

/* cuda_memory.c */
void *cuda_memory_new(const struct kernel_ops *ops, size_t bytes);
void cuda_memory_free(const struct kernel_ops *ops, void *memory, size_t bytes);
int cuda_memory_write(const struct kernel_ops *ops, void *dst, const void *src, size_t bytes);
uint64_t cuda_memory_room(const struct kernel_ops *ops);
/* In words, for the current device: what was asked for in vain, what is free, what would fit. */
void cuda_memory_no_room(size_t asked, char *out, size_t size);
size_t cuda_memory_weight_bytes(enum kernel_weight_kind kind, uint32_t n, uint32_t k);
uint32_t cuda_memory_weight_ld(uint32_t k);
void cuda_memory_weight_pack(const struct kernel_weight *w, uint32_t row0, uint32_t rows,
			     const float *src);

/* cuda_ops.c */
void cuda_ops_gemm(struct kernels_ctx *ctx, const struct kernel_gemm *g);
void cuda_ops_embed(struct kernels_ctx *ctx, const struct kernel_weight *w, const uint32_t *tokens,
		    const uint32_t *drawn, float *x, uint32_t m);
void cuda_ops_rmsnorm(struct kernels_ctx *ctx, const float *x, const float *weight, float eps,
		      kernel_half *out, uint32_t m, uint32_t d);
void cuda_ops_rope_store(struct kernels_ctx *ctx, const struct kernel_rope_store *r);
void cuda_ops_attention(struct kernels_ctx *ctx, const struct kernel_attention *a);
void cuda_ops_gather(struct kernels_ctx *ctx, const float *x, const uint32_t *rows, uint32_t count,
		     uint32_t d, float *out);
void cuda_ops_sample(struct kernels_ctx *ctx, const float *logits, uint32_t m, uint32_t v,
		     const struct kernel_sample_params *params, uint32_t *out_tokens,
		     float *out_logprobs);

/* cuda_table.c */
int cuda_table_ordinal(const struct kernel_ops *ops);
/* A weight could not be written: the table's next context says so. Any thread. */
void cuda_table_fail(int ordinal);
bool cuda_table_failed(int ordinal);

#endif
