/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model is the llama family's, with a norm of q and k, as engine/forward.c computes it; weights
 * are random numbers from fixed seeds.
 */
#include "tests/cudasim/tests/ops_world.h"
#include "tests/cudasim/tests/child.h"
#include "tests/test.h"

#include <base/bits.h>
#include <errno.h>
#include <math.h>

#define EPS 1e-5f

const struct kernel_ops *ops_world_table(void)
{
	char error[512];
	const struct kernel_ops *ops = kernels_open("cuda:0", error, sizeof(error));

	if (!ops)
		fprintf(stderr, "%s\n", error);
	CHECK(ops);
	return ops;
}

void *ops_world_put(const struct kernel_ops *ops, const void *data, size_t bytes)
{
	void *memory = ops->memory_new(ops, bytes);

	CHECK(memory && (uintptr_t)memory % 256 == 0);
	IS(ops->memory_write(ops, memory, data, bytes), 0);
	return memory;
}

float *ops_world_floats(uint64_t seed, size_t count, double range)
{
	float *x = malloc(count * sizeof(*x));

	CHECK(x);
	for (size_t i = 0; i < count; i++)
		x[i] = (float)((2 * test_uniform(&seed) - 1) * range);
	return x;
}

struct kernel_weight ops_world_weight(const struct kernel_ops *ops, uint64_t seed,
				      enum kernel_weight_kind kind, uint32_t n, uint32_t k,
				      enum kernel_type type)
{
	struct kernel_weight w = {
		.kind = kind, .n = n, .k = k, .bytes = ops->weight_bytes(kind, n, k), .type = type};
	float *rows = ops_world_floats(seed, (size_t)n * k, 2 / sqrt(k));
	uint32_t half = n > 64 ? 64 : n;

	w.data = ops->memory_new(ops, w.bytes);
	CHECK(w.data);
	ops->weight_pack(&w, 0, half, rows);
	if (n > half)
		ops->weight_pack(&w, half, n - half, rows + (size_t)half * k);
	free(rows);
	return w;
}

static float *put_norm(const struct kernel_ops *ops, uint64_t seed, uint32_t count)
{
	float *x = ops_world_floats(seed, count, 0.5);
	float *memory;

	for (uint32_t i = 0; i < count; i++)
		x[i] += 1;
	memory = ops_world_put(ops, x, count * sizeof(*x));
	free(x);
	return memory;
}

struct kernels_limits ops_world_limits(bool graphs)
{
	return (struct kernels_limits){
		.rows_max = OPS_ROWS_MAX,
		.k_max = OPS_HEADS * OPS_HEAD_DIM,
		.n_max = (OPS_HEADS + 2 * OPS_KV_HEADS) * OPS_HEAD_DIM,
		.heads_max = OPS_HEADS,
		.kv_heads = OPS_KV_HEADS,
		.head_dim_max = OPS_HEAD_DIM,
		.vocab = OPS_VOCAB,
		.sampled_max = OPS_SEQS,
		.sequences_max = OPS_SEQS,
		.pages_max = OPS_PAGES_MAX,
		.page_tokens = OPS_PAGE_TOKENS,
		.graphs = graphs,
	};
}

static void make_model(struct ops_world *w)
{
	const struct kernel_ops *ops = w->ops;
	uint32_t q = OPS_HEADS * OPS_HEAD_DIM;
	uint32_t qkv = (OPS_HEADS + 2 * OPS_KV_HEADS) * OPS_HEAD_DIM;
	float inv_freq[OPS_HEAD_DIM / 2];

	w->embed = ops_world_weight(ops, 1, KERNEL_WEIGHT_PLAIN, OPS_VOCAB, OPS_HIDDEN, w->type);
	w->head = ops_world_weight(ops, 2, KERNEL_WEIGHT_PLAIN, OPS_VOCAB, OPS_HIDDEN, w->type);
	w->out_norm = put_norm(ops, 3, OPS_HIDDEN);
	for (uint32_t i = 0; i < ARRAY_LEN(inv_freq); i++)
		inv_freq[i] = (float)pow(10000, -(double)i / ARRAY_LEN(inv_freq));
	w->inv_freq = ops_world_put(ops, inv_freq, sizeof(inv_freq));
	for (uint32_t i = 0; i < OPS_LAYERS; i++) {
		struct ops_layer *l = &w->layers[i];
		uint64_t seed = 10 * (i + 1);

		l->qkv = ops_world_weight(ops, seed, KERNEL_WEIGHT_PLAIN, qkv, OPS_HIDDEN, w->type);
		l->out = ops_world_weight(ops, seed + 1, KERNEL_WEIGHT_PLAIN, OPS_HIDDEN, q,
					  w->type);
		l->gate_up = ops_world_weight(ops, seed + 2, KERNEL_WEIGHT_GATE_UP, 2 * OPS_FFN,
					      OPS_HIDDEN, w->type);
		l->down = ops_world_weight(ops, seed + 3, KERNEL_WEIGHT_PLAIN, OPS_HIDDEN, OPS_FFN,
					   w->type);
		l->attn_norm = put_norm(ops, seed + 4, OPS_HIDDEN);
		l->ffn_norm = put_norm(ops, seed + 5, OPS_HIDDEN);
		l->q_norm = put_norm(ops, seed + 6, OPS_HEAD_DIM);
		l->k_norm = put_norm(ops, seed + 7, OPS_HEAD_DIM);
	}
}

static void make_buffers(struct ops_world *w)
{
	uint32_t q = OPS_HEADS * OPS_HEAD_DIM;
	const size_t bytes[OPS_BUFFERS] = {
		[OPS_X] = OPS_ROWS_MAX * OPS_HIDDEN * 4,
		[OPS_NORM] = OPS_ROWS_MAX * OPS_HIDDEN * 2,
		[OPS_QKV] = OPS_ROWS_MAX * (OPS_HEADS + 2 * OPS_KV_HEADS) * OPS_HEAD_DIM * 4,
		[OPS_Q] = OPS_ROWS_MAX * q * 2,
		[OPS_ATT] = OPS_ROWS_MAX * q * 2,
		[OPS_ACT] = OPS_ROWS_MAX * OPS_FFN * 2,
		[OPS_LAST] = OPS_SEQS * OPS_HIDDEN * 4,
		[OPS_HEAD] = OPS_SEQS * OPS_HIDDEN * 2,
		[OPS_LOGITS] = OPS_SEQS * OPS_VOCAB * 4,
	};

	for (uint32_t i = 0; i < OPS_BUFFERS; i++)
		CHECK(w->buf[i] = w->ops->memory_new(w->ops, bytes[i]));
}

void ops_world_init(struct ops_world *w)
{
	ops_world_init_type(w, KERNEL_BF16);
}

void ops_world_init_type(struct ops_world *w, enum kernel_type type)
{
	static const uint32_t prompts[OPS_SEQS] = {70, 3, 33, 140, 16};
	uint64_t page_bytes, seed = 5;

	*w = (struct ops_world){.ops = ops_world_table(),
				.type = type,
				.layout = {.layers = OPS_LAYERS,
					   .kv_heads = OPS_KV_HEADS,
					   .head_dim = OPS_HEAD_DIM,
					   .page_tokens = OPS_PAGE_TOKENS,
					   .element_bytes = 2}};
	page_bytes = kvd_layout_page_bytes(&w->layout);
	make_model(w);
	make_buffers(w);
	CHECK(w->pool = w->ops->memory_new(w->ops, OPS_SEQS * OPS_PAGES_MAX * page_bytes));
	for (uint32_t s = 0; s < OPS_SEQS; s++) {
		struct ops_seq *seq = &w->seqs[s];

		/* Neighbours in a sequence are not neighbours in memory. */
		for (uint32_t i = 0; i < OPS_PAGES_MAX; i++)
			seq->pages[i] = (uint64_t)(uintptr_t)w->pool +
					((OPS_PAGES_MAX - 1 - i) * OPS_SEQS + s) * page_bytes;
		seq->token_count = prompts[s];
		for (uint32_t i = 0; i < seq->token_count; i++)
			seq->tokens[i] = (uint32_t)(test_random(&seed) % OPS_VOCAB);
	}
}

static void gemm(struct ops_world *w, const struct kernel_weight *weight, const void *x, void *y,
		 uint32_t rows, uint32_t ldy, enum kernel_gemm_out out)
{
	const struct kernel_gemm g = {
		.w = weight, .x = x, .y = y, .m = rows, .ldx = weight->k, .ldy = ldy, .out = out};

	w->ops->gemm(w->ctx, &g);
}

static void layer(struct ops_world *w, const struct kernel_batch *b, uint32_t i)
{
	const struct ops_layer *l = &w->layers[i];
	uint32_t qkv = (OPS_HEADS + 2 * OPS_KV_HEADS) * OPS_HEAD_DIM;
	const struct kernel_rope_store r = {.qkv = w->buf[OPS_QKV],
					    .q = w->buf[OPS_Q],
					    .inv_freq = w->inv_freq,
					    .q_norm = l->q_norm,
					    .k_norm = l->k_norm,
					    .norm_eps = EPS,
					    .heads = OPS_HEADS,
					    .rope_dim = OPS_HEAD_DIM,
					    .layer = i,
					    .layout = &w->layout,
					    .seqs = b->seqs,
					    .seq_count = b->seq_count};
	const struct kernel_attention a = {.q = w->buf[OPS_Q],
					   .out = w->buf[OPS_ATT],
					   .heads = OPS_HEADS,
					   .scale = 0.125f,
					   .layer = i,
					   .layout = &w->layout,
					   .seqs = b->seqs,
					   .seq_count = b->seq_count};

	w->ops->rmsnorm(w->ctx, w->buf[OPS_X], l->attn_norm, EPS, w->buf[OPS_NORM], b->rows,
			OPS_HIDDEN);
	gemm(w, &l->qkv, w->buf[OPS_NORM], w->buf[OPS_QKV], b->rows, qkv, KERNEL_OUT_F32);
	w->ops->rope_store(w->ctx, &r);
	w->ops->attention(w->ctx, &a);
	gemm(w, &l->out, w->buf[OPS_ATT], w->buf[OPS_X], b->rows, OPS_HIDDEN, KERNEL_OUT_ADD);
	w->ops->rmsnorm(w->ctx, w->buf[OPS_X], l->ffn_norm, EPS, w->buf[OPS_NORM], b->rows,
			OPS_HIDDEN);
	gemm(w, &l->gate_up, w->buf[OPS_NORM], w->buf[OPS_ACT], b->rows, OPS_FFN,
	     KERNEL_OUT_SWIGLU);
	gemm(w, &l->down, w->buf[OPS_ACT], w->buf[OPS_X], b->rows, OPS_HIDDEN, KERNEL_OUT_ADD);
}

static void operations(struct ops_world *w, const struct kernel_batch *b)
{
	const struct kernel_ops *ops = w->ops;
	uint32_t s = b->sampled_count;

	ops->embed(w->ctx, &w->embed, b->tokens, b->drawn, w->buf[OPS_X], b->rows);
	for (uint32_t i = 0; i < OPS_LAYERS; i++)
		layer(w, b, i);
	if (!s)
		return;
	ops->gather(w->ctx, w->buf[OPS_X], b->sampled, s, OPS_HIDDEN, w->buf[OPS_LAST]);
	ops->rmsnorm(w->ctx, w->buf[OPS_LAST], w->out_norm, EPS, w->buf[OPS_HEAD], s, OPS_HIDDEN);
	gemm(w, &w->head, w->buf[OPS_HEAD], w->buf[OPS_LOGITS], s, OPS_VOCAB, KERNEL_OUT_F32);
	if (b->params)
		ops->sample(w->ctx, w->buf[OPS_LOGITS], s, OPS_VOCAB, b->params, b->out_tokens,
			    b->out_logprobs);
}

int ops_world_start(struct ops_world *w, bool graphs)
{
	struct kernels_limits limits = ops_world_limits(graphs);
	struct kernel_batch b;
	int r;

	limits.type = w->type;
	r = kernels_ctx_new(w->ops, &limits, 1, &w->ctx);

	if (r < 0)
		return r;
	while (w->ops->step_prepare(w->ctx, &b)) {
		operations(w, &b);
		w->ops->step_end(w->ctx);
	}
	return w->ops->step_wait(w->ctx, 0);
}

static void free_weight(struct ops_world *w, struct kernel_weight *weight)
{
	w->ops->memory_free(w->ops, weight->data, weight->bytes);
}

void ops_world_fini(struct ops_world *w)
{
	kernels_ctx_free(w->ctx);
	free_weight(w, &w->embed);
	free_weight(w, &w->head);
	w->ops->memory_free(w->ops, w->out_norm, 0);
	w->ops->memory_free(w->ops, w->inv_freq, 0);
	for (uint32_t i = 0; i < OPS_LAYERS; i++) {
		struct ops_layer *l = &w->layers[i];
		struct kernel_weight *weights[] = {&l->qkv, &l->out, &l->gate_up, &l->down};
		float *norms[] = {l->attn_norm, l->ffn_norm, l->q_norm, l->k_norm};

		for (uint32_t n = 0; n < ARRAY_LEN(weights); n++)
			free_weight(w, weights[n]);
		for (uint32_t n = 0; n < ARRAY_LEN(norms); n++)
			w->ops->memory_free(w->ops, norms[n], 0);
	}
	for (uint32_t i = 0; i < OPS_BUFFERS; i++)
		w->ops->memory_free(w->ops, w->buf[i], 0);
	w->ops->memory_free(w->ops, w->pool, 0);
}

/* Every kind of draw, and each again in the same place whatever the batch. */
static struct kernel_sample_params params_of(uint32_t seq, uint32_t position)
{
	uint64_t seed = seq * 1000 + position;
	struct kernel_sample_params p = {.top_p = 1, .uniform = (float)test_uniform(&seed)};

	if (p.uniform >= 1)
		p.uniform = 0;
	if (seq == 0)
		return p;
	p.temperature = 0.9f;
	p.top_k = seq == 2 || seq == 4 ? 20 : 0;
	p.top_p = seq >= 3 ? 0.8f : 1;
	p.min_p = seq == 4 ? 0.05f : 0;
	p.banned_count = seq == 1;
	p.banned[0] = 7;
	return p;
}

void ops_world_submit(struct ops_world *w, const struct ops_item *items, uint32_t count,
		      struct ops_step *t)
{
	struct kernel_batch given;
	uint32_t rows = 0, drawn = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct ops_seq *seq = &w->seqs[items[i].seq];
		uint32_t tokens = seq->token_count + seq->drawing;
		bool again = seq->done == tokens;
		uint32_t pos0 = again ? seq->done - items[i].rows : seq->done;

		t->seqs[i] = (struct kernel_seq){.row0 = rows,
						 .rows = items[i].rows,
						 .pos0 = pos0,
						 .query_only = again,
						 .pages = seq->pages};
		for (uint32_t pos = pos0; pos < pos0 + items[i].rows; pos++)
			t->tokens[rows++] = pos < seq->token_count ? seq->tokens[pos]
								   : KERNEL_TOKEN_DRAWN | seq->draw;
		seq->done = pos0 + items[i].rows;
		if (seq->done < tokens)
			continue;
		seq->drawing++;
		seq->draw = drawn;
		t->owner[drawn] = items[i].seq;
		t->params[drawn] = params_of(items[i].seq, seq->done);
		t->sampled[drawn++] = rows - 1;
	}
	t->batch = (struct kernel_batch){.tokens = t->tokens,
					 .drawn = w->drawn,
					 .seqs = t->seqs,
					 .sampled = t->sampled,
					 .params = t->params,
					 .out_tokens = t->drawn,
					 .out_logprobs = t->logprobs,
					 .rows = rows,
					 .seq_count = count,
					 .sampled_count = drawn};
	if (w->ops->step_begin(w->ctx, &t->batch, &given) == KERNEL_STEP_RUN)
		operations(w, &given);
	w->ops->step_end(w->ctx);
	w->drawn = t->drawn;
}

void ops_world_take(struct ops_world *w, const struct ops_step *t)
{
	for (uint32_t i = 0; i < t->batch.sampled_count; i++) {
		struct ops_seq *seq = &w->seqs[t->owner[i]];

		CHECK(t->drawn[i] < OPS_VOCAB && t->logprobs[i] <= 0);
		seq->logprobs[seq->token_count] = t->logprobs[i];
		seq->tokens[seq->token_count++] = t->drawn[i];
		seq->drawing--;
	}
}

int ops_world_step(struct ops_world *w, const struct ops_item *items, uint32_t count)
{
	static struct ops_step step;
	int r;

	ops_world_submit(w, items, count, &step);
	r = w->ops->step_wait(w->ctx, 0);
	if (r == 0)
		ops_world_take(w, &step);
	return r;
}

#define STEP(w, ...)                                                                               \
	ops_world_step(w, (const struct ops_item[]){__VA_ARGS__},                                  \
		       ARRAY_LEN(((const struct ops_item[]){__VA_ARGS__})))

int ops_world_play(struct ops_world *w)
{
	int r = STEP(w, {0, 70});

	if (r == 0)
		r = STEP(w, {1, 3}, {2, 33}, {0, 1});
	if (r == 0)
		r = STEP(w, {3, 50}, {0, 1}, {1, 1}, {2, 1});
	if (r == 0)
		r = STEP(w, {3, 90}, {4, 16}, {0, 1}, {1, 1}, {2, 1});
	for (int i = 0; i < 3 && r == 0; i++)
		r = STEP(w, {2, 1}, {0, 1}, {3, 1}, {1, 1}, {4, 1});
	return r;
}

int ops_world_play_alone(struct ops_world *w)
{
	static const uint32_t chunks[OPS_SEQS] = {32, 3, 1, 64, 7};
	static const uint32_t draws[OPS_SEQS] = {7, 6, 6, 4, 4};
	int r = 0;

	for (uint32_t s = 0; s < OPS_SEQS && r == 0; s++) {
		struct ops_seq *seq = &w->seqs[s];
		uint32_t end = seq->token_count + draws[s];

		while (seq->token_count < end && r == 0)
			r = STEP(w, {s, BITS_MIN(chunks[s], seq->token_count - seq->done)});
	}
	return r;
}

static uint8_t *pages_of(const struct ops_world *w, size_t *out_bytes)
{
	uint8_t *bytes;

	*out_bytes = OPS_SEQS * OPS_PAGES_MAX * kvd_layout_page_bytes(&w->layout);
	CHECK(bytes = malloc(*out_bytes));
	child_read(bytes, w->pool, *out_bytes);
	return bytes;
}

void ops_world_same(const struct ops_world *a, const struct ops_world *b)
{
	size_t bytes;
	uint8_t *pages_a = pages_of(a, &bytes), *pages_b = pages_of(b, &bytes);

	for (uint32_t s = 0; s < OPS_SEQS; s++) {
		const struct ops_seq *x = &a->seqs[s], *y = &b->seqs[s];

		IS(x->token_count, y->token_count);
		CHECK(memcmp(x->tokens, y->tokens, x->token_count * sizeof(*x->tokens)) == 0);
		CHECK(memcmp(x->logprobs, y->logprobs, x->token_count * sizeof(*x->logprobs)) == 0);
	}
	CHECK(memcmp(pages_a, pages_b, bytes) == 0);
	free(pages_a);
	free(pages_b);
}

static uint64_t add(uint64_t digest, const void *data, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		digest = (digest ^ ((const uint8_t *)data)[i]) * 0x100000001b3ull;
	return digest;
}

uint64_t ops_world_digest(const struct ops_world *w)
{
	uint64_t digest = 0xcbf29ce484222325ull;
	size_t bytes;
	uint8_t *pages = pages_of(w, &bytes);

	for (uint32_t s = 0; s < OPS_SEQS; s++) {
		const struct ops_seq *seq = &w->seqs[s];

		digest = add(digest, seq->tokens, seq->token_count * sizeof(*seq->tokens));
		digest = add(digest, seq->logprobs, seq->token_count * sizeof(*seq->logprobs));
	}
	digest = add(digest, pages, bytes);
	free(pages);
	return digest;
}
