/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a model on pages of its own: no daemon, so that the figure is the kernels' alone. */
#include "tools/kvbench/bench_model.h"

#include <base/bits.h>
#include <engine/model/gguf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BENCH_MODEL_PAGE_TOKENS 64u
#define BENCH_MODEL_CHUNK_CPU 512u
#define BENCH_MODEL_CHUNK_DEVICE 2048u /* fewer do not keep a GPU busy */

static int bench_model_load(struct bench_model *s, const struct bench *b)
{
	char error[MODEL_ERROR_MAX];
	struct gguf *file;

	if (!b->model) {
		fprintf(stderr, "kvbench: name a GGUF file with --model or $KVD_MODEL\n");
		return -EINVAL;
	}
	const struct kernel_ops *ops = bench_kernels(b);
	if (!ops)
		return -ENODEV;
	int err = gguf_open(b->model, &file, error, sizeof(error));
	if (!err) {
		err = model_load(file, ops, MODEL_DTYPE_AUTO, NULL, NULL, &s->model, error);
		gguf_close(file);
	}
	if (err)
		fprintf(stderr, "kvbench: %s: %s\n", b->model, error);
	return err;
}

static int bench_model_pages(struct bench_model *s, uint32_t token_max)
{
	uint64_t page_bytes = kvd_layout_page_bytes(forward_layout(s->forward));

	s->page_count = (uint32_t)bits_div_ceil(token_max, BENCH_MODEL_PAGE_TOKENS);
	s->token_max = token_max;
	s->pages = calloc(s->page_count, sizeof(*s->pages));
	s->tokens = calloc(token_max, sizeof(*s->tokens));
	s->memory_bytes = s->page_count * bits_align_up(page_bytes, 4096);
	s->memory = s->model->ops->memory_new(s->model->ops, s->memory_bytes);
	if (!s->pages || !s->tokens || !s->memory)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->page_count; i++)
		s->pages[i] = (uint64_t)(uintptr_t)s->memory + i * bits_align_up(page_bytes, 4096);
	for (uint32_t i = 0; i < token_max; i++)
		s->tokens[i] = (i * 2654435761u >> 7) % s->model->h.vocab;
	return 0;
}

int bench_model_open(struct bench_model *s, const struct bench *b, uint32_t token_max)
{
	struct forward_limits limits = {.sampled_max = 1,
					.sequences_max = 1,
					.context = token_max,
					.page_tokens = BENCH_MODEL_PAGE_TOKENS,
					.threads = b->threads,
					.graphs = true};

	*s = (struct bench_model){0};
	int err = bench_model_load(s, b);
	if (!err) {
		bool device = s->model->ops->asynchronous;

		s->chunk_tokens = device ? BENCH_MODEL_CHUNK_DEVICE : BENCH_MODEL_CHUNK_CPU;
		if (b->rows)
			s->chunk_tokens = BITS_MIN(b->rows, token_max);
		limits.rows_max = s->chunk_tokens;
		err = forward_new(s->model, &limits, &s->forward);
	}
	if (!err)
		err = bench_model_pages(s, token_max);
	if (err)
		bench_model_close(s);
	return err;
}

void bench_model_close(struct bench_model *s)
{
	forward_free(s->forward);
	if (s->model)
		s->model->ops->memory_free(s->model->ops, s->memory, s->memory_bytes);
	model_free(s->model);
	free(s->pages);
	free(s->tokens);
	*s = (struct bench_model){0};
}

int bench_model_prefill(struct bench_model *s, uint32_t pos, uint32_t count)
{
	for (uint32_t done = 0; done < count;) {
		uint32_t rows = BITS_MIN(count - done, s->chunk_tokens), last = rows - 1;
		struct kernel_seq seq = {.rows = rows, .pos0 = pos + done, .pages = s->pages};
		const struct kernel_batch batch = {.tokens = s->tokens + pos + done,
						   .rows = rows,
						   .seqs = &seq,
						   .seq_count = 1,
						   .sampled = &last,
						   .sampled_count = done + rows == count};

		int err = forward_step(s->forward, &batch);

		if (err) {
			fprintf(stderr, "kvbench: %s\n", forward_failure(s->forward));
			return err;
		}
		if (batch.sampled_count)
			bench_use(forward_logits(s->forward, 0));
		done += rows;
	}
	return 0;
}

double bench_model_linear_flop(const struct bench_model *s)
{
	const struct model_layer *l = &s->model->layer[0];
	double weights = (double)l->qkv.n * l->qkv.k + (double)l->out.n * l->out.k +
			 (double)l->gate_up.n * l->gate_up.k + (double)l->down.n * l->down.k;

	return 2 * weights * s->model->h.layers;
}

double bench_model_head_flop(const struct bench_model *s)
{
	return 2.0 * s->model->h.vocab * s->model->h.hidden;
}

double bench_model_attention_flop(const struct bench_model *s, uint32_t depth)
{
	const struct model_hparams *h = &s->model->h;

	return 4.0 * h->layers * h->heads * h->head_dim * depth;
}
