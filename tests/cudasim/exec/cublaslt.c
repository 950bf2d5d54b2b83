/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuBLASLt for the simulator: descriptors, and products that join a stream as one work item.
 *
 * It has two algorithms, made so that code which relies on chance fails here. STRAIGHT sums K in
 * one go and needs no workspace; SPLIT sums parts of K apart, which gives other bits, and needs
 * (and overwrites) workspace. The heuristic puts SPLIT first for few columns when the preference
 * allows its workspace: whoever takes the first answer for each shape gets rows whose bits depend
 * on the batch.
 */
#include <cublasLt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cudasim/exec/exec.h"
#include "tests/cudasim/exec/gemm.h"

#define ALGO_STRAIGHT 6u
#define ALGO_SPLIT 21u
#define SPLITS_MAX 16u
#define FEW_COLUMNS 32u
#define ALIGNMENT 16u

struct cublasLtContext {
	int device;
};

struct cudasim_matrix_layout {
	cudaDataType_t type;
	cublasLtOrder_t order;
	uint64_t rows;
	uint64_t cols;
	int64_t ld;
	int32_t batch_count;
	int64_t batch_stride;
};

struct cudasim_matmul_desc {
	cublasComputeType_t compute;
	cudaDataType_t scale;
	cublasLtPointerMode_t pointer_mode;
	cublasOperation_t transa;
	cublasOperation_t transb;
	cublasLtEpilogue_t epilogue;
	const void *bias;
	int32_t bias_type; /* a cudaDataType_t, or -1: as D */
};

struct cudasim_matmul_preference {
	cublasLtMatmulSearch_t search;
	uint64_t workspace_bytes;
	uint32_t reduction_mask;
	uint32_t alignments[4];
};

/* What lies in a cublasLtMatmulAlgo_t. */
struct algo {
	uint32_t id;
	uint32_t tile;
	uint32_t splits;
	uint32_t reduction;
	uint32_t swizzle;
	uint32_t custom;
	uint32_t stages;
	uint16_t inner;
	uint16_t cluster;
};
_Static_assert(sizeof(struct algo) <= sizeof(cublasLtMatmulAlgo_t), "fits");

struct problem {
	struct gemm gemm;
	void *workspace;
	size_t workspace_bytes;
};

#define STATUSES(X)                                                                                \
	X(SUCCESS, "success")                                                                      \
	X(NOT_INITIALIZED, "the library is not initialized")                                       \
	X(ALLOC_FAILED, "the resource allocation failed")                                          \
	X(INVALID_VALUE, "an unsupported value or parameter was passed")                           \
	X(ARCH_MISMATCH, "the device lacks what the function needs")                               \
	X(MAPPING_ERROR, "an access to device memory failed")                                      \
	X(EXECUTION_FAILED, "the program failed to execute on the device")                         \
	X(INTERNAL_ERROR, "an internal operation failed")                                          \
	X(NOT_SUPPORTED, "the functionality is not supported")                                     \
	X(LICENSE_ERROR, "a license is missing")

const char *cublasLtGetStatusName(cublasStatus_t status)
{
	switch (status) {
#define X(name, words)                                                                             \
	case CUBLAS_STATUS_##name:                                                                 \
		return "CUBLAS_STATUS_" #name;
		STATUSES(X)
#undef X
	}
	return "unknown status";
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
	switch (status) {
#define X(name, words)                                                                             \
	case CUBLAS_STATUS_##name:                                                                 \
		return words;
		STATUSES(X)
#undef X
	}
	return "unknown status";
}

size_t cublasLtGetVersion(void)
{
	return 130000;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
	if (!handle)
		return CUBLAS_STATUS_INVALID_VALUE;
	*handle = calloc(1, sizeof(**handle));
	if (!*handle)
		return CUBLAS_STATUS_ALLOC_FAILED;
	(*handle)->device = sim_device();
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
	if (!handle)
		return CUBLAS_STATUS_NOT_INITIALIZED;
	free(handle);
	return CUBLAS_STATUS_SUCCESS;
}

/* Where an attribute lies in its descriptor. */
struct field {
	int attr;
	size_t offset;
	size_t bytes;
};

static const struct field *find_field(const struct field *fields, size_t count, int attr,
				      size_t bytes)
{
	for (size_t i = 0; i < count; i++)
		if (fields[i].attr == attr)
			return fields[i].bytes == bytes ? &fields[i] : NULL;
	return NULL;
}

static cublasStatus_t set_field(void *object, const struct field *fields, size_t count, int attr,
				const void *value, size_t bytes)
{
	const struct field *f = find_field(fields, count, attr, bytes);

	if (!object || !value || !f)
		return CUBLAS_STATUS_INVALID_VALUE;
	memcpy((char *)object + f->offset, value, bytes);
	return CUBLAS_STATUS_SUCCESS;
}

#define FIELD(attr, type, member)                                                                  \
	{                                                                                          \
		attr, offsetof(type, member), sizeof(((type *)0)->member)                          \
	}
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type,
					  uint64_t rows, uint64_t cols, int64_t ld)
{
	if (!layout)
		return CUBLAS_STATUS_INVALID_VALUE;
	*layout = malloc(sizeof(**layout));
	if (!*layout)
		return CUBLAS_STATUS_ALLOC_FAILED;
	**layout = (struct cudasim_matrix_layout){type, CUBLASLT_ORDER_COL, rows, cols, ld, 1, 0};
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
	free(layout);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
						cublasLtMatrixLayoutAttribute_t attr,
						const void *value, size_t bytes)
{
	typedef struct cudasim_matrix_layout layout_t;
	static const struct field fields[] = {
		FIELD(CUBLASLT_MATRIX_LAYOUT_TYPE, layout_t, type),
		FIELD(CUBLASLT_MATRIX_LAYOUT_ORDER, layout_t, order),
		FIELD(CUBLASLT_MATRIX_LAYOUT_ROWS, layout_t, rows),
		FIELD(CUBLASLT_MATRIX_LAYOUT_COLS, layout_t, cols),
		FIELD(CUBLASLT_MATRIX_LAYOUT_LD, layout_t, ld),
		FIELD(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, layout_t, batch_count),
		FIELD(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, layout_t, batch_stride),
	};

	return set_field(layout, fields, COUNT(fields), (int)attr, value, bytes);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
					cudaDataType_t scale)
{
	if (!desc)
		return CUBLAS_STATUS_INVALID_VALUE;
	*desc = malloc(sizeof(**desc));
	if (!*desc)
		return CUBLAS_STATUS_ALLOC_FAILED;
	**desc = (struct cudasim_matmul_desc){
		.compute = compute,
		.scale = scale,
		.epilogue = CUBLASLT_EPILOGUE_DEFAULT,
		.bias_type = -1,
	};
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
	free(desc);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
					      cublasLtMatmulDescAttributes_t attr,
					      const void *value, size_t bytes)
{
	typedef struct cudasim_matmul_desc desc_t;
	static const struct field fields[] = {
		FIELD(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, desc_t, compute),
		FIELD(CUBLASLT_MATMUL_DESC_SCALE_TYPE, desc_t, scale),
		FIELD(CUBLASLT_MATMUL_DESC_POINTER_MODE, desc_t, pointer_mode),
		FIELD(CUBLASLT_MATMUL_DESC_TRANSA, desc_t, transa),
		FIELD(CUBLASLT_MATMUL_DESC_TRANSB, desc_t, transb),
		FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE, desc_t, epilogue),
		FIELD(CUBLASLT_MATMUL_DESC_BIAS_POINTER, desc_t, bias),
		FIELD(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, desc_t, bias_type),
	};

	return set_field(desc, fields, COUNT(fields), (int)attr, value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *pref)
{
	if (!pref)
		return CUBLAS_STATUS_INVALID_VALUE;
	*pref = malloc(sizeof(**pref));
	if (!*pref)
		return CUBLAS_STATUS_ALLOC_FAILED;
	**pref = (struct cudasim_matmul_preference){
		.reduction_mask = CUBLASLT_REDUCTION_SCHEME_MASK,
		.alignments = {256, 256, 256, 256},
	};
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t pref)
{
	free(pref);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t pref,
						    cublasLtMatmulPreferenceAttributes_t attr,
						    const void *value, size_t bytes)
{
	typedef struct cudasim_matmul_preference pref_t;
	static const struct field fields[] = {
		FIELD(CUBLASLT_MATMUL_PREF_SEARCH_MODE, pref_t, search),
		FIELD(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, pref_t, workspace_bytes),
		FIELD(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, pref_t, reduction_mask),
		FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, pref_t, alignments[0]),
		FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, pref_t, alignments[1]),
		FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, pref_t, alignments[2]),
		FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, pref_t, alignments[3]),
	};

	return set_field(pref, fields, COUNT(fields), (int)attr, value, bytes);
}

static const struct field algo_fields[] = {
	FIELD(CUBLASLT_ALGO_CONFIG_ID, struct algo, id),
	FIELD(CUBLASLT_ALGO_CONFIG_TILE_ID, struct algo, tile),
	FIELD(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, struct algo, splits),
	FIELD(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, struct algo, reduction),
	FIELD(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, struct algo, swizzle),
	FIELD(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, struct algo, custom),
	FIELD(CUBLASLT_ALGO_CONFIG_STAGES_ID, struct algo, stages),
	FIELD(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, struct algo, inner),
	FIELD(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, struct algo, cluster),
};

cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t *algo,
						    cublasLtMatmulAlgoConfigAttributes_t attr,
						    const void *value, size_t bytes)
{
	if (attr == CUBLASLT_ALGO_CONFIG_ID)
		return CUBLAS_STATUS_INVALID_VALUE;
	return set_field(algo, algo_fields, COUNT(algo_fields), (int)attr, value, bytes);
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
						    cublasLtMatmulAlgoConfigAttributes_t attr,
						    void *value, size_t bytes, size_t *written)
{
	const struct field *f = find_field(algo_fields, COUNT(algo_fields), (int)attr, bytes);

	if (!algo || !value || !f)
		return CUBLAS_STATUS_INVALID_VALUE;
	memcpy(value, (const char *)algo + f->offset, bytes);
	if (written)
		*written = bytes;
	return CUBLAS_STATUS_SUCCESS;
}

static bool known_type(cudaDataType_t type)
{
	return type == CUDA_R_32F || type == CUDA_R_16F || type == CUDA_R_16BF;
}

static enum gemm_type type_of(cudaDataType_t type)
{
	return type == CUDA_R_32F ? GEMM_F32 : type == CUDA_R_16F ? GEMM_F16 : GEMM_BF16;
}

static bool known_types(cublasComputeType_t compute, cudaDataType_t scale, cudaDataType_t a,
			cudaDataType_t b, cudaDataType_t c, cudaDataType_t d)
{
	return (compute == CUBLAS_COMPUTE_32F || compute == CUBLAS_COMPUTE_32F_PEDANTIC) &&
	       scale == CUDA_R_32F && known_type(a) && a == b && known_type(d) && c == d &&
	       (d == a || d == CUDA_R_32F);
}

cublasStatus_t cublasLtMatmulAlgoGetIds(cublasLtHandle_t handle, cublasComputeType_t compute,
					cudaDataType_t scale, cudaDataType_t a, cudaDataType_t b,
					cudaDataType_t c, cudaDataType_t d, int requested,
					int ids[], int *returned)
{
	static const int all[] = {ALGO_STRAIGHT, ALGO_SPLIT};

	if (!handle || !ids || !returned || requested < 1)
		return CUBLAS_STATUS_INVALID_VALUE;
	if (!known_types(compute, scale, a, b, c, d))
		return CUBLAS_STATUS_NOT_SUPPORTED;
	*returned = requested < (int)COUNT(all) ? requested : (int)COUNT(all);
	memcpy(ids, all, (size_t)*returned * sizeof(*ids));
	return CUBLAS_STATUS_SUCCESS;
}

static void algo_fill(cublasLtMatmulAlgo_t *to, uint32_t id)
{
	struct algo a = {.id = id, .splits = 1};

	if (id == ALGO_SPLIT) {
		a.splits = 2;
		a.reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
	}
	memset(to, 0, sizeof(*to));
	memcpy(to, &a, sizeof(a));
}

cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t handle, cublasComputeType_t compute,
				      cudaDataType_t scale, cudaDataType_t a, cudaDataType_t b,
				      cudaDataType_t c, cudaDataType_t d, int id,
				      cublasLtMatmulAlgo_t *algo)
{
	if (!handle || !algo || (id != (int)ALGO_STRAIGHT && id != (int)ALGO_SPLIT))
		return CUBLAS_STATUS_INVALID_VALUE;
	if (!known_types(compute, scale, a, b, c, d))
		return CUBLAS_STATUS_NOT_SUPPORTED;
	algo_fill(algo, (uint32_t)id);
	return CUBLAS_STATUS_SUCCESS;
}

static struct gemm_matrix matrix_of(const struct cudasim_matrix_layout *l, const void *data,
				    bool transpose)
{
	size_t row = l->order == CUBLASLT_ORDER_COL ? 1 : (size_t)l->ld;
	size_t column = l->order == CUBLASLT_ORDER_COL ? (size_t)l->ld : 1;

	return (struct gemm_matrix){(void *)(uintptr_t)data, type_of(l->type),
				    transpose ? column : row, transpose ? row : column};
}

static bool layout_ok(const struct cudasim_matrix_layout *l)
{
	uint64_t least = l->order == CUBLASLT_ORDER_COL ? l->rows : l->cols;

	return l->rows && l->cols && l->ld >= (int64_t)least && l->batch_count == 1 &&
	       known_type(l->type);
}

/* Shapes and types; the pointers come later. */
static cublasStatus_t make_gemm(const struct cudasim_matmul_desc *desc,
				const struct cudasim_matrix_layout *a,
				const struct cudasim_matrix_layout *b,
				const struct cudasim_matrix_layout *c,
				const struct cudasim_matrix_layout *d, struct gemm *g)
{
	bool ta, tb;

	if (!desc || !a || !b || !c || !d)
		return CUBLAS_STATUS_INVALID_VALUE;
	if (!layout_ok(a) || !layout_ok(b) || !layout_ok(c) || !layout_ok(d))
		return CUBLAS_STATUS_INVALID_VALUE;
	if (!known_types(desc->compute, desc->scale, a->type, b->type, c->type, d->type) ||
	    desc->pointer_mode != CUBLASLT_POINTER_MODE_HOST)
		return CUBLAS_STATUS_NOT_SUPPORTED;
	ta = desc->transa != CUBLAS_OP_N;
	tb = desc->transb != CUBLAS_OP_N;
	*g = (struct gemm){.m = d->rows, .n = d->cols, .k = ta ? a->rows : a->cols, .splits = 1};
	if ((ta ? a->cols : a->rows) != g->m || (tb ? b->rows : b->cols) != g->n ||
	    (tb ? b->cols : b->rows) != g->k || c->rows != g->m || c->cols != g->n)
		return CUBLAS_STATUS_INVALID_VALUE;
	g->a = matrix_of(a, NULL, ta);
	g->b = matrix_of(b, NULL, tb);
	g->c = matrix_of(c, NULL, false);
	g->d = matrix_of(d, NULL, false);
	return CUBLAS_STATUS_SUCCESS;
}

static size_t workspace_of(const struct algo *a, const struct gemm *g)
{
	return a->splits > 1 ? a->splits * g->m * g->n * sizeof(float) : 0;
}

static cublasStatus_t algo_of(const cublasLtMatmulAlgo_t *from, struct algo *out)
{
	memcpy(out, from, sizeof(*out));
	if (out->id != ALGO_STRAIGHT && out->id != ALGO_SPLIT)
		return CUBLAS_STATUS_INVALID_VALUE;
	if (out->splits < 1 || out->splits > SPLITS_MAX)
		return CUBLAS_STATUS_NOT_SUPPORTED;
	if (out->splits > 1 &&
	    (out->id != ALGO_SPLIT || out->reduction == CUBLASLT_REDUCTION_SCHEME_NONE))
		return CUBLAS_STATUS_NOT_SUPPORTED;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
				       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
				       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
				       const cublasLtMatmulAlgo_t *algo,
				       cublasLtMatmulHeuristicResult_t *result)
{
	struct algo parts;
	struct gemm g;
	cublasStatus_t s;

	if (!handle || !algo || !result)
		return CUBLAS_STATUS_INVALID_VALUE;
	s = make_gemm(desc, a, b, c, d, &g);
	if (s == CUBLAS_STATUS_SUCCESS)
		s = algo_of(algo, &parts);
	if (s != CUBLAS_STATUS_SUCCESS)
		return s;
	memset(result, 0, sizeof(*result));
	result->algo = *algo;
	result->workspaceSize = workspace_of(&parts, &g);
	result->wavesCount = 1;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
					      cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
					      cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
					      cublasLtMatmulPreference_t pref, int requested,
					      cublasLtMatmulHeuristicResult_t results[],
					      int *returned)
{
	uint32_t ids[2] = {ALGO_STRAIGHT, ALGO_SPLIT};
	struct gemm g;
	cublasStatus_t s;

	if (!handle || !pref || !results || !returned || requested < 1)
		return CUBLAS_STATUS_INVALID_VALUE;
	*returned = 0;
	s = make_gemm(desc, a, b, c, d, &g);
	if (s != CUBLAS_STATUS_SUCCESS)
		return s;
	if (g.n <= FEW_COLUMNS) {
		ids[0] = ALGO_SPLIT;
		ids[1] = ALGO_STRAIGHT;
	}
	for (int i = 0; i < 2 && *returned < requested; i++) {
		cublasLtMatmulHeuristicResult_t *r = &results[*returned];
		cublasLtMatmulAlgo_t algo;

		algo_fill(&algo, ids[i]);
		s = cublasLtMatmulAlgoCheck(handle, desc, a, b, c, d, &algo, r);
		if (s != CUBLAS_STATUS_SUCCESS)
			return s;
		if (r->workspaceSize <= pref->workspace_bytes &&
		    (ids[i] == ALGO_STRAIGHT ||
		     (pref->reduction_mask & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)))
			++*returned;
	}
	return CUBLAS_STATUS_SUCCESS;
}

/* A matrix lies in device memory, aligned; said on stderr, since the status says so little. */
static bool operand_ok(const char *name, const void *data, size_t bytes)
{
	if (data && (uintptr_t)data % ALIGNMENT == 0 && sim_is_device(data, bytes))
		return true;
	fprintf(stderr, "cudasim: cublasLtMatmul: %s (%p, %zu bytes) is not %s\n", name, data,
		bytes, (uintptr_t)data % ALIGNMENT ? "aligned to 16 bytes" : "device memory");
	return false;
}

static size_t layout_bytes(const struct cudasim_matrix_layout *l)
{
	bool column = l->order == CUBLASLT_ORDER_COL;
	uint64_t lines = column ? l->cols : l->rows, length = column ? l->rows : l->cols;

	return ((lines - 1) * (uint64_t)l->ld + length) * gemm_type_bytes(type_of(l->type));
}

static cublasStatus_t add_epilogue(const struct cudasim_matmul_desc *desc,
				   const struct cudasim_matrix_layout *d, struct gemm *g)
{
	cudaDataType_t type = desc->bias_type < 0 ? d->type : (cudaDataType_t)desc->bias_type;

	g->relu = (desc->epilogue & CUBLASLT_EPILOGUE_RELU) != 0;
	if (!(desc->epilogue & CUBLASLT_EPILOGUE_BIAS))
		return CUBLAS_STATUS_SUCCESS;
	if (!known_type(type))
		return CUBLAS_STATUS_NOT_SUPPORTED;
	g->bias = desc->bias;
	g->bias_type = type_of(type);
	return operand_ok("bias", g->bias, g->m * gemm_type_bytes(g->bias_type))
		       ? CUBLAS_STATUS_SUCCESS
		       : CUBLAS_STATUS_INVALID_VALUE;
}

static void problem_run(void *arg)
{
	const struct problem *p = arg;

	if (p->workspace_bytes)
		memset(p->workspace, 0xff, p->workspace_bytes);
	if (gemm_run(&p->gemm) < 0)
		sim_abort_work(cudaErrorMemoryAllocation, "cublasLtMatmul: no host memory");
}

static cublasStatus_t push(const struct problem *from, cudaStream_t stream)
{
	struct problem *p = malloc(sizeof(*p));
	struct sim_work work = {problem_run, free, p, "cublasLtMatmul"};

	if (!p)
		return CUBLAS_STATUS_ALLOC_FAILED;
	*p = *from;
	return sim_stream_push(stream, &work) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
							     : CUBLAS_STATUS_EXECUTION_FAILED;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
			      const void *A, cublasLtMatrixLayout_t a, const void *B,
			      cublasLtMatrixLayout_t b, const void *beta, const void *C,
			      cublasLtMatrixLayout_t c, void *D, cublasLtMatrixLayout_t d,
			      const cublasLtMatmulAlgo_t *algo, void *workspace,
			      size_t workspaceSizeInBytes, cudaStream_t stream)
{
	struct problem p = {.workspace = workspace};
	cublasLtMatmulAlgo_t straight;
	struct algo parts;
	cublasStatus_t s;

	if (!handle)
		return CUBLAS_STATUS_NOT_INITIALIZED;
	s = alpha && beta ? make_gemm(desc, a, b, c, d, &p.gemm) : CUBLAS_STATUS_INVALID_VALUE;
	if (s == CUBLAS_STATUS_SUCCESS && !algo) {
		algo_fill(&straight, ALGO_STRAIGHT);
		algo = &straight;
	}
	if (s == CUBLAS_STATUS_SUCCESS)
		s = algo_of(algo, &parts);
	if (s == CUBLAS_STATUS_SUCCESS)
		s = add_epilogue(desc, d, &p.gemm);
	if (s != CUBLAS_STATUS_SUCCESS)
		return s;
	memcpy(&p.gemm.alpha, alpha, sizeof(float));
	memcpy(&p.gemm.beta, beta, sizeof(float));
	p.gemm.splits = parts.splits;
	p.workspace_bytes = workspace_of(&parts, &p.gemm);
	p.gemm.a.data = (void *)(uintptr_t)A;
	p.gemm.b.data = (void *)(uintptr_t)B;
	p.gemm.c.data = (void *)(uintptr_t)C;
	p.gemm.d.data = D;
	if (workspaceSizeInBytes < p.workspace_bytes)
		return CUBLAS_STATUS_INVALID_VALUE;
	if (p.workspace_bytes && !operand_ok("workspace", workspace, p.workspace_bytes))
		return CUBLAS_STATUS_INVALID_VALUE;
	if (!operand_ok("A", A, layout_bytes(a)) || !operand_ok("B", B, layout_bytes(b)) ||
	    !operand_ok("D", D, layout_bytes(d)) ||
	    (p.gemm.beta != 0 && !operand_ok("C", C, layout_bytes(c))))
		return CUBLAS_STATUS_INVALID_VALUE;
	return push(&p, stream);
}
