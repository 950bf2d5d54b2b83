/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuBLASLt thinks in columns: what it calls the left matrix is our right one, and our rows are its
 * columns. Each product takes the first algorithm that the library proposes for its shape.
 */
#include "tools/gpu/perf.h"
#include "tools/gpu/probe.h"
#include <stdlib.h>

#define WORKSPACE_BYTES (32u << 20)
#define RANDOM_BYTES (4u << 20)
#define ROUNDS 3

static void check(cublasStatus_t s, const char *what)
{
	if (s != CUBLAS_STATUS_SUCCESS)
		probe_fail("%s: %s", what, cublasLtGetStatusName(s));
}

void perf_init(struct perf *b, double round_ms)
{
	b->round_ms = round_ms;
	probe_check(cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking), "a stream");
	check(cublasLtCreate(&b->lt), "cublasLtCreate");
	b->workspace = perf_new(WORKSPACE_BYTES);
}

void perf_fini(struct perf *b)
{
	perf_free(b->workspace);
	check(cublasLtDestroy(b->lt), "cublasLtDestroy");
	probe_check(cudaStreamDestroy(b->stream), "a stream");
}

void *perf_new(size_t bytes)
{
	void *p;

	probe_check(cudaMalloc(&p, bytes), "cudaMalloc");
	return p;
}

void perf_free(const void *p)
{
	probe_check(cudaFree((void *)(uintptr_t)p), "cudaFree");
}

void *perf_random(size_t bytes)
{
	char *p = perf_new(bytes);
	size_t piece = bytes < RANDOM_BYTES ? bytes : RANDOM_BYTES;
	uint16_t *host = malloc(piece + 1);
	uint64_t state = 1;

	if (!host)
		probe_fail("no memory");
	for (size_t i = 0; i < piece / 2; i++) {
		union {
			float value;
			uint32_t bits;
		} x;

		state = state * 6364136223846793005ull + 1442695040888963407ull;
		x.value = (float)(int32_t)(state >> 32) * 0x1p-31f;
		host[i] = (uint16_t)(x.bits >> 16);
	}
	for (size_t at = 0; at < bytes; at += piece)
		probe_check(cudaMemcpy(p + at, host, bytes - at < piece ? bytes - at : piece,
				       cudaMemcpyHostToDevice),
			    "cudaMemcpy");
	free(host);
	return p;
}

double perf_ms(struct perf *b, void (*run)(struct perf *b, void *arg), void *arg)
{
	cudaEvent_t begin, end;
	double best = 0;
	unsigned count = 1;

	probe_check(cudaEventCreate(&begin), "an event");
	probe_check(cudaEventCreate(&end), "an event");
	for (int round = -1; round < ROUNDS; round++) {
		float ms;

		probe_check(cudaEventRecord(begin, b->stream), "an event");
		for (unsigned i = 0; i < count; i++)
			run(b, arg);
		probe_check(cudaEventRecord(end, b->stream), "an event");
		probe_check(cudaStreamSynchronize(b->stream), "the stream");
		probe_check(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
		double each = (double)ms / count;
		if (round < 0) /* warm, and how many fill a round */
			count = each < b->round_ms ? (unsigned)(b->round_ms / (each + 1e-3)) + 1
						   : 1;
		else if (round == 0 || each < best)
			best = each;
	}
	probe_check(cudaEventDestroy(begin), "an event");
	probe_check(cudaEventDestroy(end), "an event");
	return best;
}

void perf_product_init(struct perf *b, struct perf_product *p)
{
	const cublasOperation_t op = p->b_rows_are_k ? CUBLAS_OP_T : CUBLAS_OP_N;
	const uint64_t room = WORKSPACE_BYTES;
	cublasLtMatmulPreference_t wish;
	cublasLtMatmulHeuristicResult_t found;
	int count = 0;

	check(cublasLtMatmulDescCreate(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), "a product");
	check(cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &op, sizeof(op)),
	      "a product");
	check(cublasLtMatrixLayoutCreate(&p->b, CUDA_R_16BF, p->b_rows_are_k ? p->k : p->n,
					 p->b_rows_are_k ? p->n : p->k, p->ldb),
	      "a matrix");
	check(cublasLtMatrixLayoutCreate(&p->a, CUDA_R_16BF, p->k, p->m, p->lda), "a matrix");
	check(cublasLtMatrixLayoutCreate(&p->c, p->c_type, p->n, p->m, p->ldc), "a matrix");
	check(cublasLtMatmulPreferenceCreate(&wish), "a preference");
	check(cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
						   &room, sizeof(room)),
	      "a preference");
	check(cublasLtMatmulAlgoGetHeuristic(b->lt, p->desc, p->b, p->a, p->c, p->c, wish, 1,
					     &found, &count),
	      "an algorithm");
	if (count < 1)
		probe_fail("cuBLASLt has no algorithm for %u x %u x %u", p->m, p->n, p->k);
	p->algo = found.algo;
	cublasLtMatmulPreferenceDestroy(wish);
}

void perf_product_fini(struct perf_product *p)
{
	cublasLtMatmulDescDestroy(p->desc);
	cublasLtMatrixLayoutDestroy(p->a);
	cublasLtMatrixLayoutDestroy(p->b);
	cublasLtMatrixLayoutDestroy(p->c);
}

void perf_product_run(struct perf *b, const struct perf_product *p, const void *a,
		      const void *right, void *c)
{
	const float one = 1, zero = 0;

	check(cublasLtMatmul(b->lt, p->desc, &one, right, p->b, a, p->a, &zero, c, p->c, c, p->c,
			     &p->algo, b->workspace, WORKSPACE_BYTES, b->stream),
	      "a product");
}
