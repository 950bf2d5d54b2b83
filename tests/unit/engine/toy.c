/* SPDX-License-Identifier: Apache-2.0 */
/* See toy.h. Shapes are odd on purpose: a vocabulary that is no multiple of a tile, GQA of 2. */
#include "tests/unit/engine/toy.h"
#include "base/bits.h"
#include "tests/test.h"
#include <math.h>

#define LAYERS 2u
#define HIDDEN 64u
#define FFN 160u
#define HEADS 4u
#define KV_HEADS 2u
#ifndef HEAD_DIM
#define HEAD_DIM 16u /* GPUs want 64 */
#endif
#define VOCAB 203u
#define CONTEXT 1024u
#define QKV ((HEADS + 2 * KV_HEADS) * HEAD_DIM)

static float *random_f32(size_t count, float scale, uint64_t *seed)
{
	float *v = malloc(count * sizeof(*v));

	for (size_t i = 0; i < count; i++) {
		float x = (float)(2 * test_uniform(seed) - 1) * scale;

		v[i] = kernel_bf16_to_f32(kernel_f32_to_bf16(x));
	}
	return v;
}

/* In memory of the table's device. */
static void *put(const struct kernel_ops *ops, float *src, size_t count)
{
	void *memory = ops->memory_new(ops, count * sizeof(*src));

	assert_non_null(memory);
	assert_int_equal(ops->memory_write(ops, memory, src, count * sizeof(*src)), 0);
	free(src);
	return memory;
}

static float *pack(const struct kernel_ops *ops, struct kernel_weight *w,
		   enum kernel_weight_kind kind, uint32_t n, uint32_t k, uint64_t *seed)
{
	float *src = random_f32((size_t)n * k, 1.7f / sqrtf((float)k), seed);

	w->kind = kind;
	w->n = n;
	w->k = k;
	w->bytes = ops->weight_bytes(kind, n, k);
	w->data = ops->memory_new(ops, w->bytes);
	assert_non_null(w->data);
	ops->weight_pack(w, 0, n, src);
	return src;
}

static float *norm_weight(const struct kernel_ops *ops, uint64_t *seed)
{
	float *v = malloc(HIDDEN * sizeof(*v));

	for (uint32_t i = 0; i < HIDDEN; i++)
		v[i] = 0.8f + 0.4f * (float)test_uniform(seed);
	return put(ops, v, HIDDEN);
}

static void set_hparams(struct model *m, uint64_t seed)
{
	m->h = (struct model_hparams){.arch = "llama",
				      .name = "toy",
				      .layers = LAYERS,
				      .hidden = HIDDEN,
				      .ffn = FFN,
				      .heads = HEADS,
				      .kv_heads = KV_HEADS,
				      .head_dim = HEAD_DIM,
				      .vocab = VOCAB,
				      .context = CONTEXT,
				      .rope_dim = HEAD_DIM,
				      .rope_theta = 10000,
				      .norm_eps = 1e-5f,
				      .tied = true};
	memcpy(m->digest, &seed, sizeof(seed));
	float *inv_freq = malloc(HEAD_DIM / 2 * sizeof(*inv_freq));
	for (uint32_t i = 0; i < HEAD_DIM / 2; i++)
		inv_freq[i] = powf(10000, -2.0f * (float)i / HEAD_DIM);
	m->inv_freq = put(m->ops, inv_freq, HEAD_DIM / 2);
}

struct toy *toy_new(const struct kernel_ops *ops, uint64_t seed)
{
	struct toy *t = calloc(1, sizeof(*t));
	struct model *m = &t->model;

	m->ops = ops;
	set_hparams(m, seed);
	m->layer = calloc(LAYERS, sizeof(*m->layer));
	float **all = calloc(4 * LAYERS, sizeof(*all));
	t->qkv = all;
	t->out = all + LAYERS;
	t->gate_up = all + 2 * LAYERS;
	t->down = all + 3 * LAYERS;
	for (uint32_t i = 0; i < LAYERS; i++) {
		struct model_layer *l = &m->layer[i];

		t->qkv[i] = pack(ops, &l->qkv, KERNEL_WEIGHT_PLAIN, QKV, HIDDEN, &seed);
		t->out[i] =
			pack(ops, &l->out, KERNEL_WEIGHT_PLAIN, HIDDEN, HEADS * HEAD_DIM, &seed);
		t->gate_up[i] =
			pack(ops, &l->gate_up, KERNEL_WEIGHT_GATE_UP, 2 * FFN, HIDDEN, &seed);
		t->down[i] = pack(ops, &l->down, KERNEL_WEIGHT_PLAIN, HIDDEN, FFN, &seed);
		l->attn_norm = norm_weight(ops, &seed);
		l->ffn_norm = norm_weight(ops, &seed);
	}
	t->embed = pack(ops, &m->embed, KERNEL_WEIGHT_PLAIN, VOCAB, HIDDEN, &seed);
	m->head = m->embed;
	m->out_norm = norm_weight(ops, &seed);
	return t;
}

static void drop(const struct kernel_ops *ops, struct kernel_weight *w)
{
	ops->memory_free(ops, w->data, w->bytes);
}

static void drop_floats(const struct kernel_ops *ops, float *v, size_t count)
{
	ops->memory_free(ops, v, count * sizeof(*v));
}

void toy_free(struct toy *t)
{
	const struct kernel_ops *ops = t->model.ops;

	for (uint32_t i = 0; i < LAYERS; i++) {
		struct model_layer *l = &t->model.layer[i];

		drop(ops, &l->qkv);
		drop(ops, &l->out);
		drop(ops, &l->gate_up);
		drop(ops, &l->down);
		drop_floats(ops, l->attn_norm, HIDDEN);
		drop_floats(ops, l->ffn_norm, HIDDEN);
		free(t->qkv[i]);
		free(t->out[i]);
		free(t->gate_up[i]);
		free(t->down[i]);
	}
	drop(ops, &t->model.embed);
	drop_floats(ops, t->model.inv_freq, HEAD_DIM / 2);
	drop_floats(ops, t->model.out_norm, HIDDEN);
	free(t->qkv);
	free(t->embed);
	free(t->model.layer);
	free(t);
}

/* --- the reference ------------------------------------------------------------------------------
 */

static void ref_norm(const double *x, const float *w, double *out)
{
	double sum = 0;

	for (uint32_t i = 0; i < HIDDEN; i++)
		sum += x[i] * x[i];
	for (uint32_t i = 0; i < HIDDEN; i++)
		out[i] = x[i] / sqrt(sum / HIDDEN + 1e-5) * w[i];
}

static void ref_matmul(const float *w, const double *x, uint32_t n, uint32_t k, double *out)
{
	for (uint32_t i = 0; i < n; i++) {
		out[i] = 0;
		for (uint32_t j = 0; j < k; j++)
			out[i] += (double)w[(size_t)i * k + j] * x[j];
	}
}

static void ref_rope(const struct model *m, double *head, uint32_t pos)
{
	for (uint32_t i = 0; i < HEAD_DIM / 2; i++) {
		double angle = (double)pos * m->inv_freq[i];
		double a = head[i], b = head[i + HEAD_DIM / 2];

		head[i] = a * cos(angle) - b * sin(angle);
		head[i + HEAD_DIM / 2] = b * cos(angle) + a * sin(angle);
	}
}

static void ref_head(const double *qkv, uint32_t row, uint32_t head, double *out)
{
	const double *q = qkv + (size_t)row * QKV + head * HEAD_DIM;
	uint32_t group = head / (HEADS / KV_HEADS);
	double *score = malloc((row + 1) * sizeof(*score)), sum = 0;

	for (uint32_t t = 0; t <= row; t++) {
		const double *k = qkv + (size_t)t * QKV + (HEADS + group) * HEAD_DIM;
		double dot = 0;

		for (uint32_t i = 0; i < HEAD_DIM; i++)
			dot += q[i] * k[i];
		score[t] = exp(dot / sqrt(HEAD_DIM));
		sum += score[t];
	}
	for (uint32_t i = 0; i < HEAD_DIM; i++)
		out[i] = 0;
	for (uint32_t t = 0; t <= row; t++) {
		const double *v = qkv + (size_t)t * QKV + (HEADS + KV_HEADS + group) * HEAD_DIM;

		for (uint32_t i = 0; i < HEAD_DIM; i++)
			out[i] += score[t] / sum * v[i];
	}
	free(score);
}

static void ref_attention(const struct toy *t, uint32_t layer, double *x, uint32_t rows)
{
	const struct model *m = &t->model;
	double *qkv = malloc((size_t)rows * QKV * sizeof(*qkv));
	double norm[HIDDEN], att[HEADS * HEAD_DIM], out[HIDDEN];

	for (uint32_t r = 0; r < rows; r++) {
		ref_norm(x + (size_t)r * HIDDEN, m->layer[layer].attn_norm, norm);
		ref_matmul(t->qkv[layer], norm, QKV, HIDDEN, qkv + (size_t)r * QKV);
		for (uint32_t h = 0; h < HEADS + KV_HEADS; h++)
			ref_rope(m, qkv + (size_t)r * QKV + h * HEAD_DIM, r);
	}
	for (uint32_t r = 0; r < rows; r++) {
		for (uint32_t h = 0; h < HEADS; h++)
			ref_head(qkv, r, h, att + h * HEAD_DIM);
		ref_matmul(t->out[layer], att, HIDDEN, HEADS * HEAD_DIM, out);
		for (uint32_t i = 0; i < HIDDEN; i++)
			x[(size_t)r * HIDDEN + i] += out[i];
	}
	free(qkv);
}

static void ref_ffn(const struct toy *t, uint32_t layer, double *x)
{
	double norm[HIDDEN], both[2 * FFN], act[FFN], out[HIDDEN];

	ref_norm(x, t->model.layer[layer].ffn_norm, norm);
	ref_matmul(t->gate_up[layer], norm, 2 * FFN, HIDDEN, both);
	for (uint32_t i = 0; i < FFN; i++)
		act[i] = both[i] / (1 + exp(-both[i])) * both[FFN + i];
	ref_matmul(t->down[layer], act, HIDDEN, FFN, out);
	for (uint32_t i = 0; i < HIDDEN; i++)
		x[i] += out[i];
}

void toy_logits(const struct toy *t, const uint32_t *tokens, uint32_t count, float *out)
{
	double *x = malloc((size_t)count * HIDDEN * sizeof(*x));
	double norm[HIDDEN], logits[VOCAB];

	for (uint32_t r = 0; r < count; r++) {
		for (uint32_t i = 0; i < HIDDEN; i++)
			x[(size_t)r * HIDDEN + i] = t->embed[(size_t)tokens[r] * HIDDEN + i];
	}
	for (uint32_t layer = 0; layer < LAYERS; layer++) {
		ref_attention(t, layer, x, count);
		for (uint32_t r = 0; r < count; r++)
			ref_ffn(t, layer, x + (size_t)r * HIDDEN);
	}
	ref_norm(x + (size_t)(count - 1) * HIDDEN, t->model.out_norm, norm);
	ref_matmul(t->embed, norm, VOCAB, HIDDEN, logits);
	for (uint32_t i = 0; i < VOCAB; i++)
		out[i] = (float)logits[i];
	free(x);
}
