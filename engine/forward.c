/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forward pass of the llama family, as a list of operations.
 *
 * Rows of several sequences stand side by side without padding; only attention and the page store
 * know where one sequence ends. All buffers are named in `build_plan` with the operations between
 * which they live, and share one arena allocated by forward_new(): a step allocates nothing and
 * cannot fail. The residual stream is f32; what enters a GEMM has the weights' type.
 *
 * Exactness comes from below (kernels.h): no operation here looks at more than its own row, so
 * that chunking, batching and threads cannot change a bit.
 *
 * One thread calls all of this; pages belong to the caller and stay valid until forward_wait().
 * Where the device is asynchronous, a second step may be submitted before the first was waited for:
 * the device computes one after the other, in the same buffers.
 */
#include "engine/forward.h"
#include "base/assert.h"
#include "base/bits.h"
#include "base/log.h"
#include "engine/plan.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum forward_buffer {
	BUF_X,	    /* f32 [m][d]: the residual stream */
	BUF_NORM,   /* half [m][d]: what enters qkv and gate_up */
	BUF_QKV,    /* f32 [m][(h + 2 hk) hd] */
	BUF_Q,	    /* bf16 [m][h hd]: rotated */
	BUF_ATT,    /* half [m][h hd] */
	BUF_ACT,    /* half [m][f]: silu(gate) * up */
	BUF_LAST,   /* f32 [s][d]: the residual rows that are sampled */
	BUF_HEAD,   /* half [s][d]: normalised, enters the head */
	BUF_LOGITS, /* f32 [s][v] */
	BUF_COUNT
};

/* The operations of a step in order; a layer's stand for all layers. */
enum forward_op {
	OP_EMBED,
	OP_ATTN_NORM,
	OP_QKV,
	OP_ROPE,
	OP_ATTENTION,
	OP_OUT,
	OP_FFN_NORM,
	OP_GATE_UP,
	OP_DOWN,
	OP_GATHER,
	OP_OUT_NORM,
	OP_HEAD,
	OP_SAMPLE
};

struct forward {
	const struct model *m;
	struct forward_limits limits;
	struct kvd_layout layout;
	struct kernels_ctx *ctx;
	void *arena;
	size_t arena_bytes;
	void *buf[BUF_COUNT];
	struct kernel_batch batch; /* of the step that was submitted last */
	uint32_t under_way;
};

static uint32_t qkv_width(const struct model_hparams *h)
{
	return (h->heads + 2 * h->kv_heads) * h->head_dim;
}

static size_t build_plan(const struct model_hparams *h, const struct forward_limits *l,
			 struct plan_buffer out[BUF_COUNT])
{
	size_t m = l->rows_max, s = l->sampled_max, q = (size_t)h->heads * h->head_dim;
	const struct plan_buffer buffers[BUF_COUNT] = {
		[BUF_X] = {"residual f32", m * h->hidden * 4, OP_EMBED, OP_GATHER, 0},
		[BUF_NORM] = {"normalised half", m * h->hidden * 2, OP_ATTN_NORM, OP_GATE_UP, 0},
		[BUF_QKV] = {"qkv f32", m * qkv_width(h) * 4, OP_QKV, OP_ROPE, 0},
		[BUF_Q] = {"q bf16", m * q * 2, OP_ROPE, OP_ATTENTION, 0},
		[BUF_ATT] = {"attention half", m * q * 2, OP_ATTENTION, OP_OUT, 0},
		[BUF_ACT] = {"activation half", m * h->ffn * 2, OP_GATE_UP, OP_DOWN, 0},
		[BUF_LAST] = {"sampled rows f32", s * h->hidden * 4, OP_GATHER, OP_OUT_NORM, 0},
		[BUF_HEAD] = {"head input half", s * h->hidden * 2, OP_OUT_NORM, OP_HEAD, 0},
		[BUF_LOGITS] = {"logits f32", s * h->vocab * 4, OP_HEAD, OP_SAMPLE, 0},
	};

	memcpy(out, buffers, sizeof(buffers));
	return plan_place(out, BUF_COUNT);
}

struct kvd_layout forward_page_layout(const struct model *m, uint32_t page_tokens)
{
	return (struct kvd_layout){.layers = m->h.layers,
				   .kv_heads = m->h.kv_heads,
				   .head_dim = m->h.head_dim,
				   .page_tokens = page_tokens,
				   .element_bytes = sizeof(kernel_bf16)};
}

static struct kernels_limits kernel_limits(const struct model *m, const struct forward_limits *l)
{
	const struct model_hparams *h = &m->h;
	uint32_t k_max = BITS_MAX(h->hidden, h->ffn);

	return (struct kernels_limits){
		.rows_max = BITS_MAX(l->rows_max, l->sampled_max),
		.k_max = BITS_MAX(k_max, h->heads * h->head_dim),
		.n_max = BITS_MAX(2 * h->ffn, qkv_width(h)),
		.heads_max = h->heads,
		.kv_heads = h->kv_heads,
		.head_dim_max = h->head_dim,
		.vocab = h->vocab,
		.sampled_max = l->sampled_max,
		.sequences_max = l->sequences_max,
		.pages_max = bits_div_ceil(l->context, l->page_tokens),
		.page_tokens = l->page_tokens,
		.graphs = l->graphs,
		.type = m->type,
	};
}

const struct forward_plan_row *forward_plan(const struct model *m, const struct forward_limits *l)
{
	static __thread struct forward_plan_row rows[BUF_COUNT + 3];
	struct kernels_limits kl = kernel_limits(m, l);
	struct plan_buffer plan[BUF_COUNT];
	size_t arena = build_plan(&m->h, l, plan);
	size_t scratch = m->ops->ctx_bytes(&kl, l->threads);

	for (uint32_t i = 0; i < BUF_COUNT; i++)
		rows[i] = (struct forward_plan_row){plan[i].name, plan[i].bytes};
	rows[BUF_COUNT] = (struct forward_plan_row){"all of these, sharing memory", arena};
	rows[BUF_COUNT + 1] = (struct forward_plan_row){"kernel scratch", scratch};
	rows[BUF_COUNT + 2] = (struct forward_plan_row){NULL, arena + scratch};
	return rows;
}

static void gemm(struct forward *f, const struct kernel_weight *w, const void *x, void *y,
		 uint32_t rows, uint32_t ldy, enum kernel_gemm_out out)
{
	const struct kernel_gemm g = {
		.w = w, .x = x, .y = y, .m = rows, .ldx = w->k, .ldy = ldy, .out = out};

	f->m->ops->gemm(f->ctx, &g);
}

static void rope_store(struct forward *f, const struct kernel_batch *b, uint32_t layer)
{
	const struct model_hparams *h = &f->m->h;
	const struct kernel_rope_store r = {
		.qkv = f->buf[BUF_QKV],
		.q = f->buf[BUF_Q],
		.inv_freq = f->m->inv_freq,
		.norm_eps = h->norm_eps,
		.heads = h->heads,
		.rope_dim = h->rope_dim,
		.layer = layer,
		.layout = &f->layout,
		.seqs = b->seqs,
		.seq_count = b->seq_count,
	};

	f->m->ops->rope_store(f->ctx, &r);
}

static void attention(struct forward *f, const struct kernel_batch *b, uint32_t layer)
{
	const struct model_hparams *h = &f->m->h;
	const struct kernel_attention a = {
		.q = f->buf[BUF_Q],
		.out = f->buf[BUF_ATT],
		.heads = h->heads,
		.scale = 1.0f / __builtin_sqrtf((float)h->head_dim),
		.layer = layer,
		.layout = &f->layout,
		.seqs = b->seqs,
		.seq_count = b->seq_count,
	};

	f->m->ops->attention(f->ctx, &a);
}

static void layer(struct forward *f, const struct kernel_batch *b, uint32_t i)
{
	const struct model_layer *w = &f->m->layer[i];
	const struct kernel_ops *ops = f->m->ops;
	const struct model_hparams *h = &f->m->h;
	float *x = f->buf[BUF_X];
	void *norm = f->buf[BUF_NORM];

	ops->rmsnorm(f->ctx, x, w->attn_norm, h->norm_eps, norm, b->rows, h->hidden);
	gemm(f, &w->qkv, norm, f->buf[BUF_QKV], b->rows, qkv_width(h), KERNEL_OUT_F32);
	rope_store(f, b, i);
	attention(f, b, i);
	gemm(f, &w->out, f->buf[BUF_ATT], x, b->rows, h->hidden, KERNEL_OUT_ADD);
	ops->rmsnorm(f->ctx, x, w->ffn_norm, h->norm_eps, norm, b->rows, h->hidden);
	gemm(f, &w->gate_up, norm, f->buf[BUF_ACT], b->rows, h->ffn, KERNEL_OUT_SWIGLU);
	gemm(f, &w->down, f->buf[BUF_ACT], x, b->rows, h->hidden, KERNEL_OUT_ADD);
}

/* Only rows that are sampled see the head: it is a fifth of a small model's work. */
static void head(struct forward *f, const struct kernel_batch *b)
{
	const struct model *m = f->m;
	uint32_t count = b->sampled_count;

	m->ops->gather(f->ctx, f->buf[BUF_X], b->sampled, count, m->h.hidden, f->buf[BUF_LAST]);
	m->ops->rmsnorm(f->ctx, f->buf[BUF_LAST], m->out_norm, m->h.norm_eps, f->buf[BUF_HEAD],
			count, m->h.hidden);
	gemm(f, &m->head, f->buf[BUF_HEAD], f->buf[BUF_LOGITS], count, m->h.vocab, KERNEL_OUT_F32);
	if (b->params)
		m->ops->sample(f->ctx, f->buf[BUF_LOGITS], count, m->h.vocab, b->params,
			       b->out_tokens, b->out_logprobs);
}

static void operations(struct forward *f, const struct kernel_batch *b)
{
	f->m->ops->embed(f->ctx, &f->m->embed, b->tokens, b->drawn, f->buf[BUF_X], b->rows);
	for (uint32_t i = 0; i < f->m->h.layers; i++)
		layer(f, b, i);
	if (b->sampled_count > 0)
		head(f, b);
}

/* Every shape that the device wants to have seen before the first request. */
static int record(struct forward *f)
{
	const struct kernel_ops *ops = f->m->ops;
	struct kernel_batch b;

	while (ops->step_prepare(f->ctx, &b)) {
		operations(f, &b);
		ops->step_end(f->ctx);
	}
	return ops->step_wait(f->ctx, 0);
}

int forward_new(const struct model *m, const struct forward_limits *l, struct forward **out)
{
	struct kernels_limits kl = kernel_limits(m, l);
	struct plan_buffer plan[BUF_COUNT];
	size_t bytes = build_plan(&m->h, l, plan);
	struct forward *f = calloc(1, sizeof(*f));
	int r = -ENOMEM;

	if (!f)
		return r;
	f->m = m;
	f->limits = *l;
	f->layout = forward_page_layout(m, l->page_tokens);
	f->arena_bytes = bytes;
	f->arena = m->ops->memory_new(m->ops, bytes);
	if (!f->arena)
		goto fail;
	for (uint32_t i = 0; i < BUF_COUNT; i++)
		f->buf[i] = (char *)f->arena + plan[i].out_offset;
	r = kernels_ctx_new(m->ops, &kl, l->threads, &f->ctx);
	if (r < 0)
		goto fail;
	r = record(f);
	if (r < 0) {
		/* The words end with the context, so they are said here. */
		log_error("engine", "%s", forward_failure(f));
		goto fail;
	}
	*out = f;
	return 0;
fail:
	forward_free(f);
	return r;
}

void forward_free(struct forward *f)
{
	if (!f)
		return;
	kernels_ctx_free(f->ctx);
	f->m->ops->memory_free(f->m->ops, f->arena, f->arena_bytes);
	free(f);
}

const struct kvd_layout *forward_layout(const struct forward *f)
{
	return &f->layout;
}

struct kernels_ctx *forward_ctx(struct forward *f)
{
	return f->ctx;
}

static void run(struct forward *f)
{
	struct kernel_batch given;

	if (f->m->ops->step_begin(f->ctx, &f->batch, &given) == KERNEL_STEP_RUN)
		operations(f, &given);
	f->m->ops->step_end(f->ctx);
}

void forward_submit(struct forward *f, const struct kernel_batch *b)
{
	ASSERT(b->rows > 0 && b->rows <= f->limits.rows_max);
	ASSERT(b->sampled_count <= f->limits.sampled_max);
	ASSERT(f->under_way <= f->m->ops->asynchronous);
	f->batch = *b;
	f->under_way++;
	if (f->m->ops->asynchronous)
		run(f);
}

int forward_wait(struct forward *f)
{
	ASSERT(f->under_way > 0);
	f->under_way--;
	if (!f->m->ops->asynchronous)
		run(f);
	return f->m->ops->step_wait(f->ctx, f->under_way);
}

int forward_check(struct forward *f)
{
	return f->m->ops->step_wait(f->ctx, UINT32_MAX);
}

int forward_step(struct forward *f, const struct kernel_batch *b)
{
	forward_submit(f, b);
	return forward_wait(f);
}

const float *forward_logits(struct forward *f, uint32_t i)
{
	const float *logits = f->buf[BUF_LOGITS];
	uint32_t vocab = f->m->h.vocab;

	return f->m->ops->view(f->ctx, logits + (size_t)i * vocab, vocab);
}

const char *forward_failure(const struct forward *f)
{
	return f->m->ops->failure(f->ctx);
}
