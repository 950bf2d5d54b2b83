/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times on the device, matrix products, and memory of random values: a product of zeros is faster
 * than one of numbers. Everything is queued on one stream; errors end the program.
 */
#ifndef TOOLS_GPU_PERF_H
#define TOOLS_GPU_PERF_H

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

struct perf {
	cudaStream_t stream;
	cublasLtHandle_t lt;
	void *workspace;
	double round_ms; /* to measure for, at least */
};

/* c [m][n] = a [m][k] b, all rows one after the other; b is [n][k] if b_rows_are_k, else [k][n]. */
struct perf_product {
	uint32_t m, n, k;
	uint32_t lda, ldb, ldc;
	int b_rows_are_k;
	cudaDataType_t c_type; /* a and b are bf16 */
	cublasLtMatmulDesc_t desc;
	cublasLtMatrixLayout_t a, b, c;
	cublasLtMatmulAlgo_t algo;
};

void perf_init(struct perf *b, double round_ms);
void perf_fini(struct perf *b);
void *perf_new(size_t bytes);
/* bf16 in (-1, 1). */
void *perf_random(size_t bytes);
void perf_free(const void *p);
/* ms of one run(), the best of some rounds. */
double perf_ms(struct perf *b, void (*run)(struct perf *b, void *arg), void *arg);

/* The shape is filled in; finds an algorithm. */
void perf_product_init(struct perf *b, struct perf_product *p);
void perf_product_fini(struct perf_product *p);
void perf_product_run(struct perf *b, const struct perf_product *p, const void *a,
		      const void *right, void *c);

/* Attention of one head as the textbook writes it: the scores are stored. */
struct perf_standard {
	uint32_t tokens, heads, kv_heads, head_dim;
	float scale;
	const uint16_t *q; /* [tokens][heads][head_dim] */
	const uint16_t *k; /* [kv_heads][tokens][head_dim] */
	const uint16_t *v;
	uint16_t *out;	   /* as q */
	float *scores;	   /* [tokens][tokens] */
	uint16_t *weights; /* the same shape */
	struct perf_product scores_of, values_of;
};

void perf_standard_init(struct perf *b, struct perf_standard *s);
void perf_standard_fini(struct perf_standard *s);
void perf_standard_run(struct perf *b, void *arg);

#endif
