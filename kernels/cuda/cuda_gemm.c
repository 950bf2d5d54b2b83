/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products by cuBLASLt. The library prefers another algorithm for each number of rows, and
 * each sums in another order; here the bits of a row must not depend on the rows beside it. So one
 * algorithm is pinned for each shape of weights, the first of the library's proposals for
 * CUDA_GEMM_REFERENCE_ROWS rows that divides no sum among blocks (no split of K) and that takes
 * every number of rows up to rows_max. The proposals depend on the device and the library's version
 * alone, so two engines on one device choose alike.
 *
 * cuBLASLt thinks in columns: our y [m][n] is its n x m, the transposed weights times x.
 *
 * Used by the context's thread. A plan is made at the first product of its shape and lives as long
 * as the context.
 */
#include "kernels/cuda/cuda_gemm.h"
#include "base/bits.h"
#include "base/mutant.h"
#include <string.h>

/* Between a decode step's rows and a chunk's: a tile that wastes little on the one and is good
 * enough for the other. */
#define CUDA_GEMM_REFERENCE_ROWS 64u
#define CUDA_GEMM_PROPOSALS 64

cublasStatus_t cuda_gemm_init(struct cuda_gemm *g, cudaStream_t stream, void *workspace,
			      uint32_t rows_max)
{
	*g = (struct cuda_gemm){.stream = stream, .workspace = workspace, .rows_max = rows_max};
	return cublasLtCreate(&g->lt);
}

static void plan_fini(struct cuda_gemm_plan *p)
{
	if (p->desc)
		cublasLtMatmulDescDestroy(p->desc);
	if (p->w)
		cublasLtMatrixLayoutDestroy(p->w);
	if (p->x)
		cublasLtMatrixLayoutDestroy(p->x);
	if (p->y)
		cublasLtMatrixLayoutDestroy(p->y);
}

void cuda_gemm_fini(struct cuda_gemm *g)
{
	for (uint32_t i = 0; i < g->plan_count; i++)
		plan_fini(&g->plans[i]);
	if (g->lt)
		cublasLtDestroy(g->lt);
	*g = (struct cuda_gemm){0};
}

static struct cuda_product shape_of(const struct cuda_product *p)
{
	return (struct cuda_product){.in = p->in,
				     .out = p->out,
				     .n = p->n,
				     .k = p->k,
				     .ldw = p->ldw,
				     .ldx = p->ldx,
				     .ldy = p->ldy};
}

static bool plan_is(const struct cuda_gemm_plan *plan, const struct cuda_product *p)
{
	const struct cuda_product *s = &plan->shape;

	return s->n == p->n && s->k == p->k && s->ldw == p->ldw && s->ldx == p->ldx &&
	       s->ldy == p->ldy && s->in == p->in && s->out == p->out && !s->bias == !p->bias;
}

static cublasStatus_t make_desc(struct cuda_gemm_plan *plan)
{
	cublasOperation_t transposed = CUBLAS_OP_T;
	cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
	cublasStatus_t s = cublasLtMatmulDescCreate(&plan->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);

	if (s == CUBLAS_STATUS_SUCCESS)
		s = cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_TRANSA,
						   &transposed, sizeof(transposed));
	if (s == CUBLAS_STATUS_SUCCESS && plan->shape.bias)
		s = cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_EPILOGUE,
						   &epilogue, sizeof(epilogue));
	if (s == CUBLAS_STATUS_SUCCESS && plan->shape.bias)
		s = cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
						   &plan->shape.bias, sizeof(plan->shape.bias));
	return s;
}

static cublasStatus_t make_layouts(struct cuda_gemm_plan *plan, uint32_t rows)
{
	const struct cuda_product *p = &plan->shape;
	cublasStatus_t s = cublasLtMatrixLayoutCreate(&plan->w, p->in, p->k, p->n, p->ldw);

	if (s == CUBLAS_STATUS_SUCCESS)
		s = cublasLtMatrixLayoutCreate(&plan->x, p->in, p->k, rows, p->ldx);
	if (s == CUBLAS_STATUS_SUCCESS)
		s = cublasLtMatrixLayoutCreate(&plan->y, p->out, p->n, rows, p->ldy);
	return s;
}

static cublasStatus_t set_rows(const struct cuda_gemm_plan *plan, uint32_t rows)
{
	uint64_t columns = rows;
	cublasStatus_t s = cublasLtMatrixLayoutSetAttribute(plan->x, CUBLASLT_MATRIX_LAYOUT_COLS,
							    &columns, sizeof(columns));

	if (s == CUBLAS_STATUS_SUCCESS)
		s = cublasLtMatrixLayoutSetAttribute(plan->y, CUBLASLT_MATRIX_LAYOUT_COLS, &columns,
						     sizeof(columns));
	return s;
}

/* A sum that several blocks make parts of is added up in an order that depends on m. */
static bool sums_whole(const cublasLtMatmulAlgo_t *algo)
{
	if (KVD_MUTANT(gemm_unpinned))
		return true;
	int32_t split = 0;
	uint32_t reduction = 0;
	size_t written;

	return cublasLtMatmulAlgoConfigGetAttribute(algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &split,
						    sizeof(split),
						    &written) == CUBLAS_STATUS_SUCCESS &&
	       cublasLtMatmulAlgoConfigGetAttribute(algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
						    &reduction, sizeof(reduction),
						    &written) == CUBLAS_STATUS_SUCCESS &&
	       (split == 0 || split == 1) && reduction == CUBLASLT_REDUCTION_SCHEME_NONE;
}

static bool takes_all_rows(const struct cuda_gemm *g, const struct cuda_gemm_plan *plan,
			   const cublasLtMatmulAlgo_t *algo)
{
	for (uint32_t rows = 1; rows <= g->rows_max; rows++) {
		cublasLtMatmulHeuristicResult_t result = {0};

		if (set_rows(plan, rows) != CUBLAS_STATUS_SUCCESS ||
		    cublasLtMatmulAlgoCheck(g->lt, plan->desc, plan->w, plan->x, plan->y, plan->y,
					    algo, &result) != CUBLAS_STATUS_SUCCESS ||
		    result.workspaceSize > CUDA_GEMM_WORKSPACE_BYTES)
			return false;
	}
	return true;
}

static cublasStatus_t propose(const struct cuda_gemm *g, const struct cuda_gemm_plan *plan,
			      cublasLtMatmulHeuristicResult_t *out, int *out_count)
{
	static const cublasLtMatmulPreferenceAttributes_t alignments[] = {
		CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
		CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
		CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
		CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
	const uint32_t alignment = CUDA_GEMM_ALIGN;
	size_t workspace_bytes = CUDA_GEMM_WORKSPACE_BYTES;
	uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_NONE;
	cublasLtMatmulPreference_t pref = NULL;
	cublasStatus_t s = cublasLtMatmulPreferenceCreate(&pref);

	*out_count = 0;
	if (s == CUBLAS_STATUS_SUCCESS)
		s = cublasLtMatmulPreferenceSetAttribute(pref,
							 CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
							 &workspace_bytes, sizeof(workspace_bytes));
	if (s == CUBLAS_STATUS_SUCCESS)
		s = cublasLtMatmulPreferenceSetAttribute(pref,
							 CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
							 &reduction, sizeof(reduction));
	for (size_t i = 0; i < ARRAY_LEN(alignments) && s == CUBLAS_STATUS_SUCCESS; i++)
		s = cublasLtMatmulPreferenceSetAttribute(pref, alignments[i], &alignment,
							 sizeof(alignment));
	if (s == CUBLAS_STATUS_SUCCESS)
		s = cublasLtMatmulAlgoGetHeuristic(g->lt, plan->desc, plan->w, plan->x, plan->y,
						   plan->y, pref, CUDA_GEMM_PROPOSALS, out,
						   out_count);
	if (pref)
		cublasLtMatmulPreferenceDestroy(pref);
	return s;
}

static cublasStatus_t choose(const struct cuda_gemm *g, struct cuda_gemm_plan *plan)
{
	cublasLtMatmulHeuristicResult_t proposals[CUDA_GEMM_PROPOSALS];
	int count;
	cublasStatus_t s = propose(g, plan, proposals, &count);

	if (s != CUBLAS_STATUS_SUCCESS)
		return s;
	for (int i = 0; i < count; i++) {
		if (proposals[i].state != CUBLAS_STATUS_SUCCESS ||
		    !sums_whole(&proposals[i].algo) || !takes_all_rows(g, plan, &proposals[i].algo))
			continue;
		plan->algo = proposals[i].algo;
		return CUBLAS_STATUS_SUCCESS;
	}
	return CUBLAS_STATUS_NOT_SUPPORTED;
}

static cublasStatus_t plan_make(struct cuda_gemm *g, const struct cuda_product *p)
{
	uint32_t reference = BITS_MIN(g->rows_max, CUDA_GEMM_REFERENCE_ROWS);

	if (KVD_MUTANT(gemm_unpinned))
		reference = p->m;
	struct cuda_gemm_plan plan = {.shape = shape_of(p)};
	cublasStatus_t s;

	/* Whether there is one is part of the shape; where it lies is said at each product. */
	plan.shape.bias = p->bias;
	s = make_desc(&plan);
	if (s == CUBLAS_STATUS_SUCCESS)
		s = make_layouts(&plan, reference);
	if (s == CUBLAS_STATUS_SUCCESS)
		s = choose(g, &plan);
	if (s == CUBLAS_STATUS_SUCCESS)
		g->plans[g->plan_count++] = plan;
	else
		plan_fini(&plan);
	return s;
}

static const struct cuda_gemm_plan *plan_find(const struct cuda_gemm *g,
					      const struct cuda_product *p)
{
	for (uint32_t i = 0; i < g->plan_count && !KVD_MUTANT(gemm_unpinned); i++)
		if (plan_is(&g->plans[i], p))
			return &g->plans[i];
	return NULL;
}

cublasStatus_t cuda_gemm_run(struct cuda_gemm *g, const struct cuda_product *p)
{
	const struct cuda_gemm_plan *plan = plan_find(g, p);
	const float one = 1, beta = p->add ? 1 : 0;
	cublasStatus_t s = CUBLAS_STATUS_SUCCESS;

	if (!plan) {
		if (g->plan_count == CUDA_GEMM_PLANS)
			return CUBLAS_STATUS_ALLOC_FAILED;
		s = plan_make(g, p);
		if (s != CUBLAS_STATUS_SUCCESS)
			return s;
		plan = &g->plans[g->plan_count - 1];
	}
	s = set_rows(plan, p->m);
	if (s == CUBLAS_STATUS_SUCCESS && p->bias)
		s = cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
						   &p->bias, sizeof(p->bias));
	if (s != CUBLAS_STATUS_SUCCESS)
		return s;
	return cublasLtMatmul(g->lt, plan->desc, &one, p->w, plan->w, p->x, plan->x, &beta, p->y,
			      plan->y, p->y, plan->y, &plan->algo, g->workspace,
			      CUDA_GEMM_WORKSPACE_BYTES, g->stream);
}
