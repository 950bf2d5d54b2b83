/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products by cuBLASLt, with one algorithm for each shape of weights. */
#ifndef KERNELS_CUDA_CUDA_GEMM_H
#define KERNELS_CUDA_CUDA_GEMM_H

#include <cublasLt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Shapes of weights, each with and without bias and for each type of result. */
#define CUDA_GEMM_PLANS 32u
#define CUDA_GEMM_WORKSPACE_BYTES ((size_t)8 << 20)

/* Every matrix begins at a multiple of it; its rows need not. */
#define CUDA_GEMM_ALIGN 16u

/* y [m][ldy] = x [m][ldx] w^T, w [n][ldw]; plus bias f32 [n]; plus y, if `add`. Sums are f32. */
struct cuda_product {
	const void *w;
	const void *x;
	void *y;
	const float *bias;  /* or NULL */
	cudaDataType_t in;  /* CUDA_R_16BF or CUDA_R_16F */
	cudaDataType_t out; /* CUDA_R_32F, or as `in` */
	uint32_t m;
	uint32_t n;
	uint32_t k;
	uint32_t ldw;
	uint32_t ldx;
	uint32_t ldy;
	bool add;
};

/* What was chosen for one shape, whatever m. */
struct cuda_gemm_plan {
	struct cuda_product shape; /* no addresses */
	cublasLtMatmulDesc_t desc;
	cublasLtMatrixLayout_t w;
	cublasLtMatrixLayout_t x;
	cublasLtMatrixLayout_t y;
	cublasLtMatmulAlgo_t algo;
};

struct cuda_gemm {
	cublasLtHandle_t lt;
	cudaStream_t stream;
	void *workspace; /* CUDA_GEMM_WORKSPACE_BYTES of the device, 256-byte aligned */
	uint32_t rows_max;
	uint32_t plan_count;
	struct cuda_gemm_plan plans[CUDA_GEMM_PLANS];
};

/* Zeroed or not before; fini() takes what init() left, and a zeroed one. */
cublasStatus_t cuda_gemm_init(struct cuda_gemm *g, cudaStream_t stream, void *workspace,
			      uint32_t rows_max);
void cuda_gemm_fini(struct cuda_gemm *g);
/* Queues one product. The first of a shape chooses its algorithm; no later one allocates. */
cublasStatus_t cuda_gemm_run(struct cuda_gemm *g, const struct cuda_product *p);

#endif
