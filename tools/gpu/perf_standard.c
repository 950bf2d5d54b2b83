/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Standard attention, to compare with: for each head a product that stores all scores, a softmax
 * over them, and a product with the values. It reads K and V side by side, not in pages.
 */
#include "tools/gpu/perf.h"
#include "tools/gpu/perf_softmax.h"
#include "tools/gpu/probe.h"

void perf_standard_init(struct perf *b, struct perf_standard *s)
{
	uint32_t n = s->tokens, row = s->heads * s->head_dim;

	s->scores = perf_new((size_t)n * n * sizeof(*s->scores));
	s->weights = perf_new((size_t)n * n * sizeof(*s->weights));
	s->out = perf_new((size_t)n * row * sizeof(*s->out));
	s->scores_of = (struct perf_product){.m = n,
					     .n = n,
					     .k = s->head_dim,
					     .lda = row,
					     .ldb = s->head_dim,
					     .ldc = n,
					     .b_rows_are_k = 1,
					     .c_type = CUDA_R_32F};
	s->values_of = (struct perf_product){.m = n,
					     .n = s->head_dim,
					     .k = n,
					     .lda = n,
					     .ldb = s->head_dim,
					     .ldc = row,
					     .c_type = CUDA_R_16BF};
	perf_product_init(b, &s->scores_of);
	perf_product_init(b, &s->values_of);
}

void perf_standard_fini(struct perf_standard *s)
{
	perf_product_fini(&s->scores_of);
	perf_product_fini(&s->values_of);
	perf_free(s->scores);
	perf_free(s->weights);
	perf_free(s->out);
}

void perf_standard_run(struct perf *b, void *arg)
{
	struct perf_standard *s = arg;
	size_t kv_head = (size_t)s->tokens * s->head_dim;

	for (uint32_t h = 0; h < s->heads; h++) {
		uint32_t of = h / (s->heads / s->kv_heads);

		perf_product_run(b, &s->scores_of, s->q + (size_t)h * s->head_dim,
				 s->k + of * kv_head, s->scores);
		probe_check(perf_softmax(b->stream, s->scores, s->weights, s->tokens, s->scale),
			    "softmax");
		perf_product_run(b, &s->values_of, s->weights, s->v + of * kv_head,
				 s->out + (size_t)h * s->head_dim);
	}
}
