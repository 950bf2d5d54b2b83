/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From tensors in a map to packed weights. All that operations read lies in one piece of their
 * device's memory: frequencies, norms, then the matrices. Which tensor goes where is decided by
 * weights_list.c.
 *
 * The matrices are cut into strips of 64 rows, which may be packed in parallel. Threads take the
 * next strip from one counter, so that the memory needed on top is one strip of floats each. Only
 * the calling thread reports progress. The result does not depend on the number of threads.
 */
#include "engine/model/weights.h"

#include "engine/model/fail.h"
#include "engine/model/weights_list.h"

#include <base/atomic.h>
#include <base/bits.h>
#include <base/units.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>

#define STRIP_ROWS 64u
#define THREADS_MAX 16u
#define ARENA_ALIGN 256u

struct packer {
	const struct kernel_ops *ops;
	const struct weights_list *l;
	uint64_t next;	     /* strip, over all matrices; partner: every thread of this load */
	uint64_t done_bytes; /* of tensors */
	int status;	     /* set once by whoever fails first */
	char *error;
	pthread_mutex_t lock; /* of status and error */
	model_progress_fn *progress;
	void *progress_ctx;
};

/* --- the arena ---------------------------------------------------------------------------------
 */

/* Gives out memory from `base`, or only counts it while base is NULL. */
struct carver {
	uint8_t *base;
	size_t used;
};

static void *carve(struct carver *c, size_t bytes)
{
	size_t at = c->used;

	c->used += bits_align_up(bytes, ARENA_ALIGN);
	return c->base ? c->base + at : NULL;
}

static void carve_vectors(struct carver *c, struct model *m)
{
	const struct model_hparams *h = &m->h;

	m->inv_freq = carve(c, h->rope_dim / 2 * sizeof(float));
	m->out_norm = carve(c, h->hidden * sizeof(float));
	for (uint32_t i = 0; i < h->layers; i++) {
		m->layer[i].attn_norm = carve(c, h->hidden * sizeof(float));
		m->layer[i].ffn_norm = carve(c, h->hidden * sizeof(float));
	}
}

static void carve_weight(struct carver *c, const struct kernel_ops *ops,
			 enum kernel_weight_kind kind, uint32_t n, uint32_t k,
			 struct kernel_weight *w)
{
	size_t bytes = ops->weight_bytes(kind, n, k);

	*w = (struct kernel_weight){
		.kind = kind, .n = n, .k = k, .data = carve(c, bytes), .bytes = bytes};
}

static void carve_weights(struct carver *c, struct model *m)
{
	const struct model_hparams *h = &m->h;
	uint32_t q = h->heads * h->head_dim;
	uint32_t qkv = q + 2 * h->kv_heads * h->head_dim;

	for (uint32_t i = 0; i < h->layers; i++) {
		struct model_layer *l = &m->layer[i];

		carve_weight(c, m->ops, KERNEL_WEIGHT_PLAIN, qkv, h->hidden, &l->qkv);
		carve_weight(c, m->ops, KERNEL_WEIGHT_PLAIN, h->hidden, q, &l->out);
		carve_weight(c, m->ops, KERNEL_WEIGHT_GATE_UP, 2 * h->ffn, h->hidden, &l->gate_up);
		carve_weight(c, m->ops, KERNEL_WEIGHT_PLAIN, h->hidden, h->ffn, &l->down);
	}
	carve_weight(c, m->ops, KERNEL_WEIGHT_PLAIN, h->vocab, h->hidden, &m->embed);
	if (!h->tied)
		carve_weight(c, m->ops, KERNEL_WEIGHT_PLAIN, h->vocab, h->hidden, &m->head);
}

static int arena_new(struct model *m, char *error)
{
	struct carver c = {0};
	char size[32];

	m->layer = calloc(m->h.layers, sizeof(*m->layer));
	if (!m->layer)
		return fail_with(error, MODEL_ERROR_MAX, -ENOMEM, "no memory to load a model");
	carve_vectors(&c, m);
	size_t vector_bytes = c.used;
	carve_weights(&c, m);
	m->weight_bytes = c.used - vector_bytes;
	m->arena_bytes = c.used;
	m->arena = m->ops->memory_new(m->ops, m->arena_bytes);
	if (!m->arena)
		return fail_with(error, MODEL_ERROR_MAX, -ENOMEM, "no memory for weights of %s",
				 units_format_bytes(m->arena_bytes, size, sizeof(size)));
	c = (struct carver){.base = m->arena};
	carve_vectors(&c, m);
	carve_weights(&c, m);
	return 0;
}

/* --- packing -----------------------------------------------------------------------------------
 */

static void packer_fail(struct packer *p, const struct gguf_tensor *t)
{
	pthread_mutex_lock(&p->lock);
	if (!p->status)
		fail_with(p->error, MODEL_ERROR_MAX, -EINVAL,
			  "tensor \"%.*s\" holds a value that is not finite: the file is damaged",
			  (int)t->name.bytes, t->name.text);
	atomic_store_release(&p->status, -EINVAL); /* partner: packer_run() */
	pthread_mutex_unlock(&p->lock);
}

static bool all_finite(const float *v, uint64_t count)
{
	uint32_t bad = 0;

	for (uint64_t i = 0; i < count; i++) {
		uint32_t bits;

		memcpy(&bits, &v[i], sizeof(bits));
		bad |= (bits & 0x7f800000u) == 0x7f800000u;
	}
	return !bad;
}

/* Where row `row` of the model lies in the tensor: see FAMILY_QK_INTERLEAVED. */
static uint32_t stored_row(const struct weights_piece *p, uint32_t row)
{
	if (!p->interleaved)
		return row;
	uint32_t half = p->interleaved / 2;
	uint32_t in_head = row % p->interleaved;

	return row - in_head + in_head % half * 2 + in_head / half;
}

static void read_row(const struct weights_piece *p, uint32_t row, float *dst)
{
	const struct gguf_tensor *t = p->tensor;
	uint64_t blocks = t->ne[0] / p->type->block_elements;

	p->type->row(t->data + stored_row(p, row) * blocks * p->type->block_bytes, blocks, dst);
}

static void pack_strip(struct packer *p, const struct weights_matrix *m, uint32_t row0,
		       float *buffer)
{
	uint32_t k = m->w->k;
	uint32_t end = BITS_MIN(row0 + STRIP_ROWS, m->w->n);
	uint32_t piece = 0, first = 0;

	for (uint32_t row = row0; row < end; row++) {
		while (row - first >= m->piece[piece].rows)
			first += m->piece[piece++].rows;
		float *dst = buffer + (uint64_t)(row - row0) * k;
		read_row(&m->piece[piece], row - first, dst);
		if (!all_finite(dst, k))
			packer_fail(p, m->piece[piece].tensor);
		atomic_add_relaxed(&p->done_bytes,
				   m->piece[piece].tensor->bytes / m->piece[piece].rows);
	}
	p->ops->weight_pack(m->w, row0, end - row0, buffer);
}

static void packer_run(struct packer *p, bool reports, float *buffer)
{
	uint64_t first = 0;
	uint32_t i = 0;

	while (!atomic_load_acquire(&p->status)) { /* partner: packer_fail() */
		uint64_t strip = atomic_add_relaxed(&p->next, 1);

		while (i < p->l->matrix_count) {
			uint64_t strips = bits_div_ceil(p->l->matrix[i].w->n, STRIP_ROWS);

			if (strip - first < strips)
				break;
			first += strips;
			i++;
		}
		if (i == p->l->matrix_count)
			break;
		pack_strip(p, &p->l->matrix[i], (uint32_t)(strip - first) * STRIP_ROWS, buffer);
		if (reports && p->progress)
			p->progress(p->progress_ctx, atomic_load_relaxed(&p->done_bytes),
				    p->l->tensor_bytes);
	}
}

struct helper {
	struct packer *p;
	pthread_t thread;
	float *buffer;
};

static void *helper_main(void *arg)
{
	struct helper *h = arg;

	packer_run(h->p, false, h->buffer);
	return NULL;
}

static uint32_t cores(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		return 1;
	return BITS_MIN((uint32_t)CPU_COUNT(&set), THREADS_MAX);
}

/* Helpers that cannot be had are done without: the caller's thread alone is enough. */
static int pack_all(struct packer *p)
{
	struct helper helper[THREADS_MAX];
	uint32_t helpers = 0, wanted = cores() - 1;
	size_t buffer_bytes = (size_t)STRIP_ROWS * p->l->k_max * sizeof(float);
	float *buffer = malloc(buffer_bytes);

	if (!buffer)
		return fail_with(p->error, MODEL_ERROR_MAX, -ENOMEM, "no memory to load weights");
	for (; helpers < wanted; helpers++) {
		struct helper *h = &helper[helpers];

		*h = (struct helper){.p = p, .buffer = malloc(buffer_bytes)};
		if (!h->buffer || pthread_create(&h->thread, NULL, helper_main, h)) {
			free(h->buffer);
			break;
		}
	}
	packer_run(p, true, buffer);
	for (uint32_t i = 0; i < helpers; i++) {
		pthread_join(helper[i].thread, NULL);
		free(helper[i].buffer);
	}
	free(buffer);
	if (!p->status && p->progress)
		p->progress(p->progress_ctx, p->l->tensor_bytes, p->l->tensor_bytes);
	return p->status;
}

static int copy_vector(const struct model *m, const struct weights_vector *v, float *buffer,
		       char *error)
{
	const struct gguf_tensor *t = v->tensor;

	dequant_find(t->type)->row(t->data, t->ne[0], buffer);
	if (!all_finite(buffer, t->ne[0]))
		return fail_with(error, MODEL_ERROR_MAX, -EINVAL,
				 "tensor \"%.*s\" holds a value that is not finite: the file "
				 "is damaged",
				 (int)t->name.bytes, t->name.text);
	if (m->ops->memory_write(m->ops, v->dst, buffer, t->ne[0] * sizeof(*buffer)) < 0)
		return fail_with(error, MODEL_ERROR_MAX, -EIO, "the device takes no weights");
	return 0;
}

static int copy_vectors(const struct model *m, const struct weights_list *l, char *error)
{
	float *buffer = malloc(m->h.hidden * sizeof(*buffer));
	int status = 0;

	if (!buffer)
		return fail_with(error, MODEL_ERROR_MAX, -ENOMEM, "no memory to load weights");
	for (uint32_t i = 0; !status && i < l->vector_count; i++)
		status = copy_vector(m, &l->vector[i], buffer, error);
	free(buffer);
	return status;
}

/* The type of all matrices: a product has one type for its two sides, and a step one for all. */
static int choose_type(struct model *m, const struct weights_list *l, enum model_dtype dtype,
		       char *error)
{
	bool all_fp16 = true;

	for (uint32_t i = 0; i < l->matrix_count; i++)
		for (uint32_t p = 0; p < l->matrix[i].pieces; p++)
			all_fp16 &= l->matrix[i].piece[p].tensor->type == DEQUANT_F16;
	if (dtype == MODEL_DTYPE_FP16 && !m->ops->fp16)
		return fail_with(error, MODEL_ERROR_MAX, -ENOTSUP,
				 "%s has products of bf16 only: --dtype bf16 or auto",
				 m->ops->name);
	m->type =
		dtype == MODEL_DTYPE_FP16 || (dtype == MODEL_DTYPE_AUTO && all_fp16 && m->ops->fp16)
			? KERNEL_FP16
			: KERNEL_BF16;
	for (uint32_t i = 0; i < l->matrix_count; i++)
		l->matrix[i].w->type = m->type;
	return 0;
}

int weights_load(const struct gguf *g, const struct family *family, struct model *m,
		 enum model_dtype dtype, model_progress_fn *progress, void *progress_ctx,
		 char *error)
{
	struct weights_list list;
	int status = arena_new(m, error);

	if (status)
		return status;
	status = weights_list_init(&list, g, family, m, error);
	if (status)
		return status;
	struct packer p = {.ops = m->ops,
			   .l = &list,
			   .error = error,
			   .lock = PTHREAD_MUTEX_INITIALIZER,
			   .progress = progress,
			   .progress_ctx = progress_ctx};
	status = choose_type(m, &list, dtype, error);
	if (!status)
		status = copy_vectors(m, &list, error);
	if (!status)
		status = pack_all(&p);
	if (m->h.tied)
		m->head = m->embed;
	weights_list_fini(&list);
	return status;
}
