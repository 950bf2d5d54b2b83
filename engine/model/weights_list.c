/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names and shapes of a llama model's tensors. Each one must be there, with exactly the shape
 * that the hparams imply, and no other tensor may be: one that is left over (a bias, a norm of
 * another kind) means that the model computes something that this engine would not.
 */
#include "engine/model/weights_list.h"

#include "engine/model/fail.h"
#include "engine/model/rope.h"

#include <base/assert.h>
#include <base/log.h>
#include <errno.h>
#include <stdlib.h>

#define LAYER_MATRICES 4u
#define LAYER_VECTORS 2u

struct finder {
	const struct gguf *g;
	struct weights_list *l;
	struct model *m;
	bool *used; /* by index in the file */
	char *error;
	int status; /* the first failure; later calls do nothing */
};

static const struct gguf_tensor *find(struct finder *f, const char *name, uint32_t k, uint32_t n)
{
	const struct gguf_tensor *t = gguf_tensor_find(f->g, name);
	uint32_t dims = n ? 2 : 1;

	if (f->status)
		return NULL;
	if (!t)
		f->status = fail_with(f->error, MODEL_ERROR_MAX, -EINVAL,
				      "tensor \"%s\" is missing", name);
	else if (t->dims != dims || t->ne[0] != k || (n && t->ne[1] != n))
		f->status = fail_with(f->error, MODEL_ERROR_MAX, -EINVAL,
				      "tensor \"%s\" has shape %llu x %llu, not %u x %u", name,
				      (unsigned long long)t->ne[0], (unsigned long long)t->ne[1], k,
				      n ? n : 1);
	if (f->status)
		return NULL;
	f->used[t - gguf_tensor_at(f->g, 0)] = true;
	return t;
}

static const char *layer_name(char out[64], uint32_t layer, const char *what)
{
	snprintf(out, 64, "blk.%u.%s.weight", layer, what);
	return out;
}

static struct weights_matrix *matrix(struct finder *f, struct kernel_weight *w, uint32_t n,
				     uint32_t k)
{
	struct weights_matrix *m = &f->l->matrix[f->l->matrix_count++];

	*m = (struct weights_matrix){.w = w};
	w->kind = KERNEL_WEIGHT_PLAIN;
	w->n = n;
	w->k = k;
	if (k > f->l->k_max)
		f->l->k_max = k;
	return m;
}

static void piece(struct finder *f, struct weights_matrix *m, const char *name, uint32_t rows,
		  uint32_t interleaved)
{
	const struct gguf_tensor *t = find(f, name, m->w->k, rows);

	if (!t)
		return;
	m->piece[m->pieces++] = (struct weights_piece){t, dequant_find(t->type), rows, interleaved};
	f->l->tensor_bytes += t->bytes;
}

static void vector(struct finder *f, float *dst, const char *name, uint32_t n)
{
	const struct gguf_tensor *t = find(f, name, n, 0);

	if (t && t->type != 0)
		f->status = fail_with(f->error, MODEL_ERROR_MAX, -ENOTSUP,
				      "tensor \"%s\" is not of type F32", name);
	f->l->vector[f->l->vector_count++] = (struct weights_vector){dst, t};
}

static void list_layer(struct finder *f, uint32_t i, uint32_t interleaved)
{
	const struct model_hparams *h = &f->m->h;
	struct model_layer *layer = &f->m->layer[i];
	uint32_t q = h->heads * h->head_dim, kv = h->kv_heads * h->head_dim;
	char name[64];

	struct weights_matrix *qkv = matrix(f, &layer->qkv, q + 2 * kv, h->hidden);
	piece(f, qkv, layer_name(name, i, "attn_q"), q, interleaved);
	piece(f, qkv, layer_name(name, i, "attn_k"), kv, interleaved);
	piece(f, qkv, layer_name(name, i, "attn_v"), kv, 0);
	struct weights_matrix *out = matrix(f, &layer->out, h->hidden, q);
	piece(f, out, layer_name(name, i, "attn_output"), h->hidden, 0);
	struct weights_matrix *gate_up = matrix(f, &layer->gate_up, 2 * h->ffn, h->hidden);
	layer->gate_up.kind = KERNEL_WEIGHT_GATE_UP;
	piece(f, gate_up, layer_name(name, i, "ffn_gate"), h->ffn, 0);
	piece(f, gate_up, layer_name(name, i, "ffn_up"), h->ffn, 0);
	struct weights_matrix *down = matrix(f, &layer->down, h->hidden, h->ffn);
	piece(f, down, layer_name(name, i, "ffn_down"), h->hidden, 0);
	vector(f, layer->attn_norm, layer_name(name, i, "attn_norm"), h->hidden);
	vector(f, layer->ffn_norm, layer_name(name, i, "ffn_norm"), h->hidden);
}

static void list_all(struct finder *f, const struct family *family)
{
	struct model *m = f->m;
	const struct model_hparams *h = &m->h;
	uint32_t interleaved = family->flags & FAMILY_QK_INTERLEAVED ? h->head_dim : 0;

	piece(f, matrix(f, &m->embed, h->vocab, h->hidden), "token_embd.weight", h->vocab, 0);
	if (!h->tied)
		piece(f, matrix(f, &m->head, h->vocab, h->hidden), "output.weight", h->vocab, 0);
	vector(f, m->out_norm, "output_norm.weight", h->hidden);
	for (uint32_t i = 0; i < h->layers; i++)
		list_layer(f, i, interleaved);
}

static void refuse_left_over(struct finder *f)
{
	char shown[80];

	for (uint32_t i = 0; !f->status && i < gguf_tensor_count(f->g); i++) {
		const struct gguf_tensor *t = gguf_tensor_at(f->g, i);

		if (f->used[i] || t == gguf_tensor_find(f->g, ROPE_TENSOR))
			continue;
		f->status = fail_with(f->error, MODEL_ERROR_MAX, -ENOTSUP,
				      "the model needs tensor \"%s\", which is not supported",
				      log_safe(t->name.text, t->name.bytes, shown, sizeof(shown)));
	}
}

int weights_list_init(struct weights_list *l, const struct gguf *g, const struct family *family,
		      struct model *m, char *error)
{
	struct finder f = {.g = g, .l = l, .m = m, .error = error};
	uint32_t matrices = m->h.layers * LAYER_MATRICES + 2;
	uint32_t vectors = m->h.layers * LAYER_VECTORS + 1;

	*l = (struct weights_list){
		.matrix = calloc(matrices, sizeof(*l->matrix)),
		.vector = calloc(vectors, sizeof(*l->vector)),
	};
	f.used = calloc(gguf_tensor_count(g) + 1u, sizeof(*f.used));
	if (l->matrix && l->vector && f.used) {
		list_all(&f, family);
		refuse_left_over(&f);
		ASSERT(l->matrix_count <= matrices && l->vector_count <= vectors);
	} else {
		f.status = fail_with(error, MODEL_ERROR_MAX, -ENOMEM, "no memory to load a model");
	}
	free(f.used);
	if (f.status)
		weights_list_fini(l);
	return f.status;
}

void weights_list_fini(struct weights_list *l)
{
	free(l->vector);
	free(l->matrix);
	*l = (struct weights_list){0};
}
