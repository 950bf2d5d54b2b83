/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernels.h: the op table. The engine computes one step through these operations and knows no
 * device beneath them; cpu/ and cuda/ implement them, cpu/ref holds one plain twin of each.
 *
 * Exactness is part of the contract: every output element is accumulated in one fixed order that
 * depends on the shapes of the weights and on absolute token positions alone. The bits of a row do
 * not depend on which rows stand beside it, on the chunking, on the threads, or on whether its
 * prefix was computed here or came from the cache. Attention tiles over keys sit at absolute
 * positions. NUMERICS_REV rises whenever any KV bit changes.
 *
 * All operations of one kernels_ctx are called by one thread, run on its team, and have ended (on
 * the CPU) or are queued in order (on a device) when they return. None allocates.
 *
 * A step is: step_begin() with the batch, the operations in between with the batch that it gave
 * back, step_end(), step_wait(). A device may pad the batch to a shape it has a graph for, and may
 * replay that graph: then the operations are not called at all. What weights and activations lie in
 * comes from memory_new(), and only operations touch it. On an asynchronous device the next step
 * may begin before the last one was waited for.
 *
 * Shapes: m rows (tokens of the step), d hidden, h heads, hk kv heads, hd head_dim, f ffn, v vocab.
 * Activations that enter a GEMM have the type of the weights, bf16 or on some devices fp16
 * (halves); the residual stream and all reductions are fp32, queries, keys and values bf16.
 */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include <kvd_layout.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NUMERICS_REV 1
#define KERNEL_BANNED_MAX 8u
/* Among a batch's tokens: KERNEL_TOKEN_DRAWN | i is the token that the step before drew for its
 * i-th sampled row. The host need not have seen it. */
#define KERNEL_TOKEN_DRAWN 0x80000000u

struct kernels_ctx;
struct kernel_ops;

typedef uint16_t kernel_bf16;
typedef uint16_t kernel_half; /* of the kernel_type that the context says */

/* What products take. Sums are fp32 either way. */
enum kernel_type {
	KERNEL_BF16,
	KERNEL_FP16, /* what is beyond its range becomes its largest number */
};

/* A weight matrix [n][k] (n outputs), packed. The data is the owner's, 64-byte aligned. */
enum kernel_weight_kind {
	KERNEL_WEIGHT_PLAIN,
	KERNEL_WEIGHT_GATE_UP, /* n = 2 f: rows [0, f) gate, [f, 2 f) up; packed to meet */
};

struct kernel_weight {
	enum kernel_weight_kind kind;
	uint32_t n;
	uint32_t k;
	void *data;
	size_t bytes;
	enum kernel_type type;
};

enum kernel_gemm_out {
	KERNEL_OUT_F32,	   /* y f32 [m][ldy] = x W^T + bias */
	KERNEL_OUT_ADD,	   /* y f32 [m][ldy] += x W^T + bias: the residual stream */
	KERNEL_OUT_HALF,   /* y half [m][ldy] = x W^T + bias */
	KERNEL_OUT_SWIGLU, /* y half [m][ldy], n / 2 columns: silu(gate) * up; weight GATE_UP */
};

struct kernel_gemm {
	const struct kernel_weight *w;
	const kernel_half *x; /* [m][ldx], of the weight's type, as y */
	void *y;
	const float *bias; /* [n] or NULL */
	uint32_t m;
	uint32_t ldx;
	uint32_t ldy;
	enum kernel_gemm_out out;
};

/* One sequence's rows in a ragged batch: row0 .. row0 + rows - 1 are positions pos0 .. */
struct kernel_seq {
	uint32_t row0;
	uint32_t rows;
	uint32_t pos0;
	uint32_t query_only;   /* 1: K and V of these rows are in the pages already: do not store */
	const uint64_t *pages; /* address of block i's page; covers pos0 + rows tokens */
};

struct kernel_rope_store {
	const float *qkv;      /* [m][(h + 2 hk) * hd]: all q heads, all k heads, all v heads */
	kernel_bf16 *q;	       /* [m][h * hd], rotated, scaled by nothing */
	const float *inv_freq; /* [rope_dim / 2] */
	const float *q_norm;   /* [hd] RMSNorm weight per head before RoPE, or NULL */
	const float *k_norm;
	float norm_eps;
	uint32_t heads;
	uint32_t rope_dim; /* <= hd; pairs are (i, i + rope_dim / 2): NEOX halves */
	uint32_t layer;	   /* of the page */
	const struct kvd_layout *layout;
	const struct kernel_seq *seqs;
	uint32_t seq_count;
};

struct kernel_attention {
	const kernel_bf16 *q; /* [m][h * hd] */
	kernel_half *out;     /* [m][h * hd] */
	uint32_t heads;	      /* a multiple of layout->kv_heads */
	float scale;	      /* on q.k; hd^-0.5 as a rule */
	uint32_t window;      /* a row sees this many last tokens, itself included; 0: all */
	uint32_t layer;
	const struct kvd_layout *layout;
	const struct kernel_seq *seqs; /* row at position p sees tokens 0 .. p */
	uint32_t seq_count;
};

/* Sampling of one row. temperature 0: argmax, the lowest id among equals. */
struct kernel_sample_params {
	float temperature;
	float top_p;	/* 1: off */
	float min_p;	/* 0: off */
	uint32_t top_k; /* 0: off */
	float uniform;	/* in [0, 1): the counter-based random number of (seed, position) */
	uint32_t banned_count;
	uint32_t banned[KERNEL_BANNED_MAX]; /* tokens that must not be drawn */
};

/* What a context must be able to do; its scratch is planned and allocated from this, once. */
struct kernels_limits {
	uint32_t rows_max; /* m */
	uint32_t k_max;	   /* largest GEMM depth */
	uint32_t n_max;	   /* largest GEMM width of a layer: gate and up together */
	uint32_t heads_max;
	uint32_t kv_heads;
	uint32_t head_dim_max;
	uint32_t vocab;
	uint32_t sampled_max;	/* rows with logits in one step */
	uint32_t sequences_max; /* in one step */
	uint32_t pages_max;	/* of one sequence */
	uint32_t page_tokens;
	bool graphs;	       /* record steps and replay them, where the device can */
	enum kernel_type type; /* of weights, and of what norm and attention put out */
};

/* One step's rows: several sequences side by side, without padding as the caller makes it. */
struct kernel_batch {
	const uint32_t *tokens; /* [rows], also KERNEL_TOKEN_DRAWN */
	const uint32_t *drawn;	/* the step before's out_tokens; a device has them where it drew */
	const struct kernel_seq *seqs;
	const uint32_t *sampled; /* [sampled_count] rows whose logits are wanted, ascending */
	const struct kernel_sample_params *params; /* [sampled_count]; NULL: nothing is drawn */
	uint32_t *out_tokens;			   /* [sampled_count], there after step_wait() */
	float *out_logprobs;			   /* [sampled_count], the same */
	uint32_t rows;
	uint32_t seq_count;
	uint32_t sampled_count;
};

enum kernel_step {
	KERNEL_STEP_RUN,    /* call the operations, then step_end() */
	KERNEL_STEP_REPLAY, /* they are recorded: step_end() alone */
};

struct kernel_counts {
	uint64_t graph_steps;
	uint64_t eager_steps;
	uint64_t padding_rows; /* computed for nothing, to fit a graph */
	uint32_t graphs;
};

struct kernel_ops {
	const char *name;	 /* "cpu-avx512bf16", "cpu-portable", "cuda:0 sm90", ... */
	const char *numerics_id; /* enters the format's identity */
	const char *layout;	 /* the page layout that store and attention use */
	uint8_t device_uuid[16]; /* whose memory operations read; zero: the host's */
	bool asynchronous;	 /* step_end() returns before the step is complete */
	bool fp16;		 /* it has KERNEL_FP16 */

	/* Zeroed memory for weights and activations, 256-byte aligned. NULL: there is not so much.
	 */
	void *(*memory_new)(const struct kernel_ops *ops, size_t bytes);
	void (*memory_free)(const struct kernel_ops *ops, void *memory, size_t bytes);
	/* Copies host bytes there, and has when it returns. Any thread. 0 or -EIO. */
	int (*memory_write)(const struct kernel_ops *ops, void *dst, const void *src, size_t bytes);
	/* What memory_new() can still give, in bytes; UINT64_MAX: ask the host. */
	uint64_t (*memory_room)(const struct kernel_ops *ops);

	/* See kernels_ctx_new(). ctx_bytes: what it would allocate, for the plan. */
	int (*ctx_new)(const struct kernel_ops *ops, const struct kernels_limits *limits,
		       uint32_t threads, struct kernels_ctx **out);
	void (*ctx_free)(struct kernels_ctx *ctx);
	size_t (*ctx_bytes)(const struct kernels_limits *limits, uint32_t threads);
	uint32_t (*ctx_threads)(const struct kernels_ctx *ctx);
	void (*ctx_counts)(const struct kernels_ctx *ctx, struct kernel_counts *out);

	/*
	 * The next shape to be recorded before the first step, largest first: run the operations
	 * on *out and call step_end(). false: all are there (on the CPU at once).
	 */
	bool (*step_prepare)(struct kernels_ctx *ctx, struct kernel_batch *out);
	/*
	 * The arrays of `in` stay valid until step_end(), where its results go until step_wait();
	 * *out is for the operations alone.
	 */
	enum kernel_step (*step_begin)(struct kernels_ctx *ctx, const struct kernel_batch *in,
				       struct kernel_batch *out);
	void (*step_end)(struct kernels_ctx *ctx);
	/*
	 * All steps but the last `left` are complete: pages are written, out_tokens and
	 * out_logprobs are there. 0, or -EIO: the device failed for good, and failure() has the
	 * words. Without a step to wait for it says just that.
	 */
	int (*step_wait)(struct kernels_ctx *ctx, uint32_t left);
	const char *(*failure)(const struct kernels_ctx *ctx);
	/* A row of the last step's logits, as the host reads it: when no step is under way, until
	 * the next call or step. */
	const float *(*view)(struct kernels_ctx *ctx, const float *row, uint32_t count);

	/* Bytes that a packed [n][k] takes. */
	size_t (*weight_bytes)(enum kernel_weight_kind kind, uint32_t n, uint32_t k);
	/*
	 * Packs rows [row0, row0 + rows) given as f32 [rows][k], rounded to nearest even.
	 * w->data must have been zeroed before the first call. Thread-safe for different rows only
	 * if they are 64 apart.
	 */
	void (*weight_pack)(const struct kernel_weight *w, uint32_t row0, uint32_t rows,
			    const float *src);

	void (*gemm)(struct kernels_ctx *ctx, const struct kernel_gemm *g);
	/* x f32 [m][d] = row kernel_token(tokens[i], drawn) of the PLAIN weight w [v][d] */
	void (*embed)(struct kernels_ctx *ctx, const struct kernel_weight *w,
		      const uint32_t *tokens, const uint32_t *drawn, float *x, uint32_t m);
	/* out half [m][d] = x / rms(x) * weight */
	void (*rmsnorm)(struct kernels_ctx *ctx, const float *x, const float *weight, float eps,
			kernel_half *out, uint32_t m, uint32_t d);
	/* Rotates q and k, rounds to bf16, writes q out and k, v into the pages. */
	void (*rope_store)(struct kernels_ctx *ctx, const struct kernel_rope_store *r);
	/* Flash attention over pages: exact, tiled, online softmax, fp32 accumulation. */
	void (*attention)(struct kernels_ctx *ctx, const struct kernel_attention *a);
	/* out f32 [count][d] = x f32 [rows[i]][d] */
	void (*gather)(struct kernels_ctx *ctx, const float *x, const uint32_t *rows,
		       uint32_t count, uint32_t d, float *out);
	/* out_tokens[i] from logits f32 [m][v]; out_logprobs[i] = its log softmax at temperature 1
	 * over all tokens, banned ones too */
	void (*sample)(struct kernels_ctx *ctx, const float *logits, uint32_t m, uint32_t v,
		       const struct kernel_sample_params *params, uint32_t *out_tokens,
		       float *out_logprobs);
	/* Of pages that no step under way writes; has ended when it returns. */
	void (*page_copy)(struct kernels_ctx *ctx, uint64_t dst, uint64_t src, uint64_t bytes);
};

/*
 * The table of a device: "cpu", "cpu:ISA" (amx, avx512bf16, portable), "cuda:N", or "auto": the
 * first GPU, else the CPU, and then error[size] says why. A table lives until the process ends.
 * NULL, and one sentence in error[size].
 */
const struct kernel_ops *kernels_open(const char *device, char *error, size_t size);

/*
 * The CPU's table: isa NULL chooses the best that this processor has; "amx", "avx512bf16",
 * "portable" force one. NULL when the processor lacks it.
 */
const struct kernel_ops *kernels_cpu(const char *isa);

/*
 * A context with a team of `threads` (0: one per core that this process may use; a device needs
 * none). 0 or -errno.
 */
static inline int kernels_ctx_new(const struct kernel_ops *ops, const struct kernels_limits *limits,
				  uint32_t threads, struct kernels_ctx **out)
{
	return ops->ctx_new(ops, limits, threads, out);
}

/* Every table's context begins with the address of its table. */
static inline const struct kernel_ops *kernels_ctx_ops(const struct kernels_ctx *ctx)
{
	return *(const struct kernel_ops *const *)ctx;
}

static inline void kernels_ctx_free(struct kernels_ctx *ctx)
{
	if (ctx)
		kernels_ctx_ops(ctx)->ctx_free(ctx);
}

static inline uint32_t kernels_ctx_threads(const struct kernels_ctx *ctx)
{
	return kernels_ctx_ops(ctx)->ctx_threads(ctx);
}

static inline uint32_t kernel_token(uint32_t token, const uint32_t *drawn)
{
	return token & KERNEL_TOKEN_DRAWN ? drawn[token & ~KERNEL_TOKEN_DRAWN] : token;
}

static inline float kernel_bf16_to_f32(kernel_bf16 v)
{
	union {
		uint32_t u;
		float f;
	} c = {.u = (uint32_t)v << 16};

	return c.f;
}

/* Round to nearest even; NaN stays a NaN. */
static inline kernel_bf16 kernel_f32_to_bf16(float v)
{
	union {
		float f;
		uint32_t u;
	} c = {.f = v};

	if ((c.u & 0x7fffffffu) > 0x7f800000u)
		return (kernel_bf16)(c.u >> 16 | 0x40);
	return (kernel_bf16)((c.u + 0x7fffu + (c.u >> 16 & 1)) >> 16);
}

static inline float kernel_fp16_to_f32(uint16_t v)
{
	union {
		uint32_t u;
		float f;
	} c = {.u = (uint32_t)(v & 0x7fff) << 13};

	if (c.u >= 0x0f800000u)
		c.u |= 0x7f800000u;
	else
		c.f *= 0x1p112f; /* lifts subnormals too: exact */
	c.u |= (uint32_t)(v & 0x8000) << 16;
	return c.f;
}

/* Round to nearest even; what is beyond the largest number becomes that; NaN stays a NaN. */
static inline uint16_t kernel_f32_to_fp16(float v)
{
	union {
		float f;
		uint32_t u;
	} c = {.f = v};
	uint32_t sign = c.u >> 16 & 0x8000;

	c.u &= 0x7fffffffu;
	if (c.u > 0x7f800000u)
		return (uint16_t)(sign | 0x7fff);
	if (c.u > 0x477fe000u)
		return (uint16_t)(sign | 0x7bff);
	if (c.u >= 0x38800000u)
		return (uint16_t)(sign | ((c.u - 0x38000000u + 0xfff + (c.u >> 13 & 1)) >> 13));
	/* Below the smallest normal number the sum's own rounding does it. */
	c.f += 0.5f;
	return (uint16_t)(sign | (c.u - 0x3f000000u));
}

static inline float kernel_half_to_f32(kernel_half v, enum kernel_type type)
{
	return type == KERNEL_FP16 ? kernel_fp16_to_f32(v) : kernel_bf16_to_f32(v);
}

static inline kernel_half kernel_f32_to_half(float v, enum kernel_type type)
{
	return type == KERNEL_FP16 ? kernel_f32_to_fp16(v) : kernel_f32_to_bf16(v);
}

#endif
