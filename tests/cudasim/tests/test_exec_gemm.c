/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuBLASLt's subset: products against plain loops over types, orders and transpositions; bits that
 * do not depend on the number of columns; the traps that it sets on purpose.
 */
#include <cublasLt.h>
#include <math.h>

#include "tests/cudasim/tests/exec_test.h"

struct shape {
	uint64_t m, n, k;
	cudaDataType type, out_type;
	bool ta, tb, row_order;
};

struct call {
	cublasLtHandle_t handle;
	cublasLtMatmulDesc_t desc;
	cublasLtMatrixLayout_t a, b, d;
	void *da, *db, *dd, *bias;
};

static float random_value(uint64_t *seed)
{
	/* Few bits, so that f16 and bf16 hold it and long sums stay near. */
	return (float)((int)(test_random(seed) % 33) - 16) / 16.0f;
}

static size_t type_bytes(cudaDataType type)
{
	return type == CUDA_R_32F ? 4 : 2;
}

static uint16_t half_of(float x, cudaDataType type)
{
	uint32_t bits;
	int exponent;
	float fraction;

	if (type == CUDA_R_16BF) {
		memcpy(&bits, &x, sizeof(bits));
		return (uint16_t)(bits >> 16);
	}
	if (x == 0)
		return 0;
	fraction = frexpf(fabsf(x), &exponent);
	return (uint16_t)((x < 0) << 15 | (exponent + 14) << 10 | ((int)(fraction * 2048) - 1024));
}

static void put(void *to, size_t index, float x, cudaDataType type)
{
	if (type == CUDA_R_32F)
		((float *)to)[index] = x;
	else
		((uint16_t *)to)[index] = half_of(x, type);
}

static float get(const void *from, size_t index, cudaDataType type)
{
	uint32_t bits;
	float x;
	uint16_t h;

	if (type == CUDA_R_32F)
		return ((const float *)from)[index];
	h = ((const uint16_t *)from)[index];
	if (type == CUDA_R_16BF) {
		bits = (uint32_t)h << 16;
		memcpy(&x, &bits, sizeof(x));
		return x;
	}
	x = h & 0x7c00 ? ldexpf((float)((h & 0x3ff) + 1024), (h >> 10 & 31) - 25)
		       : ldexpf((float)(h & 0x3ff), -24);
	return h & 0x8000 ? -x : x;
}

/* Element (r, c) of a matrix that is stored with rows x cols. */
static size_t at(const struct shape *s, uint64_t r, uint64_t c, uint64_t rows, uint64_t cols)
{
	return s->row_order ? r * cols + c : c * rows + r;
}

static cublasLtMatrixLayout_t new_layout(const struct shape *s, cudaDataType type, uint64_t rows,
					 uint64_t cols)
{
	cublasLtMatrixLayout_t l;
	cublasLtOrder_t order = CUBLASLT_ORDER_ROW;
	int64_t ld = (int64_t)(s->row_order ? cols : rows);

	assert_int_equal(cublasLtMatrixLayoutCreate(&l, type, rows, cols, ld), 0);
	if (s->row_order)
		assert_int_equal(cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_ORDER,
								  &order, sizeof(order)),
				 0);
	return l;
}

static void call_init(struct call *c, const struct shape *s)
{
	int32_t ta = s->ta ? CUBLAS_OP_T : CUBLAS_OP_N, tb = s->tb ? CUBLAS_OP_T : CUBLAS_OP_N;

	memset(c, 0, sizeof(*c));
	assert_int_equal(cublasLtCreate(&c->handle), 0);
	assert_int_equal(cublasLtMatmulDescCreate(&c->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), 0);
	assert_int_equal(cublasLtMatmulDescSetAttribute(c->desc, CUBLASLT_MATMUL_DESC_TRANSA, &ta,
							sizeof(ta)),
			 0);
	assert_int_equal(cublasLtMatmulDescSetAttribute(c->desc, CUBLASLT_MATMUL_DESC_TRANSB, &tb,
							sizeof(tb)),
			 0);
	c->a = new_layout(s, s->type, s->ta ? s->k : s->m, s->ta ? s->m : s->k);
	c->b = new_layout(s, s->type, s->tb ? s->n : s->k, s->tb ? s->k : s->n);
	c->d = new_layout(s, s->out_type, s->m, s->n);
}

static void call_fini(struct call *c)
{
	cublasLtMatrixLayoutDestroy(c->a);
	cublasLtMatrixLayoutDestroy(c->b);
	cublasLtMatrixLayoutDestroy(c->d);
	cublasLtMatmulDescDestroy(c->desc);
	cublasLtDestroy(c->handle);
	cudaFree(c->da);
	cudaFree(c->db);
	cudaFree(c->dd);
	cudaFree(c->bias);
}

static cublasStatus_t multiply(const struct call *c, float alpha, float beta,
			       const cublasLtMatmulAlgo_t *algo, void *workspace, size_t bytes)
{
	return cublasLtMatmul(c->handle, c->desc, &alpha, c->da, c->a, c->db, c->b, &beta, c->dd,
			      c->d, c->dd, c->d, algo, workspace, bytes, 0);
}

static void add_bias(struct call *c, const struct shape *s, const float *bias)
{
	uint32_t epilogue = CUBLASLT_EPILOGUE_RELU_BIAS;
	int32_t type = CUDA_R_32F;

	c->bias = device_new(bias, s->m * sizeof(*bias));
	assert_int_equal(cublasLtMatmulDescSetAttribute(c->desc, CUBLASLT_MATMUL_DESC_EPILOGUE,
							&epilogue, sizeof(epilogue)),
			 0);
	assert_int_equal(cublasLtMatmulDescSetAttribute(c->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
							&c->bias, sizeof(c->bias)),
			 0);
	assert_int_equal(cublasLtMatmulDescSetAttribute(
				 c->desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof(type)),
			 0);
}

static void check_result(const struct shape *s, const float *a, const float *b, const float *c,
			 const float *bias, const void *out)
{
	for (uint64_t i = 0; i < s->m; i++) {
		for (uint64_t j = 0; j < s->n; j++) {
			double sum = 0;
			float x;

			for (uint64_t k = 0; k < s->k; k++)
				sum += (double)a[i * s->k + k] * b[k * s->n + j];
			sum = 0.5 * sum + 2.0 * c[i * s->n + j] + bias[i];
			sum = sum > 0 ? sum : 0;
			x = get(out, at(s, i, j, s->m, s->n), s->out_type);
			/* Exact in floats; half a step of what D is stored in. */
			assert_true(fabs(x - sum) <=
				    (s->out_type == CUDA_R_32F ? 0 : fabs(sum) / 256));
		}
	}
}

static void check_shape(const struct shape *s, uint64_t seed)
{
	float *a = calloc(s->m * s->k, 4), *b = calloc(s->k * s->n, 4), *c = calloc(s->m * s->n, 4);
	float *bias = calloc(s->m, 4);
	void *ha = calloc(s->m * s->k, 4), *hb = calloc(s->k * s->n, 4),
	     *hd = calloc(s->m * s->n, 4);
	struct call call;

	call_init(&call, s);
	for (uint64_t i = 0; i < s->m; i++)
		for (uint64_t k = 0; k < s->k; k++) {
			float x = a[i * s->k + k] = random_value(&seed);

			put(ha, s->ta ? at(s, k, i, s->k, s->m) : at(s, i, k, s->m, s->k), x,
			    s->type);
		}
	for (uint64_t k = 0; k < s->k; k++)
		for (uint64_t j = 0; j < s->n; j++) {
			float x = b[k * s->n + j] = random_value(&seed);

			put(hb, s->tb ? at(s, j, k, s->n, s->k) : at(s, k, j, s->k, s->n), x,
			    s->type);
		}
	for (uint64_t i = 0; i < s->m; i++) {
		bias[i] = random_value(&seed);
		for (uint64_t j = 0; j < s->n; j++) {
			c[i * s->n + j] = random_value(&seed);
			put(hd, at(s, i, j, s->m, s->n), c[i * s->n + j], s->out_type);
		}
	}
	call.da = device_new(ha, s->m * s->k * type_bytes(s->type));
	call.db = device_new(hb, s->k * s->n * type_bytes(s->type));
	call.dd = device_new(hd, s->m * s->n * type_bytes(s->out_type));
	add_bias(&call, s, bias);
	assert_int_equal(multiply(&call, 0.5f, 2.0f, NULL, NULL, 0), CUBLAS_STATUS_SUCCESS);
	device_read(hd, call.dd, s->m * s->n * type_bytes(s->out_type));
	check_result(s, a, b, c, bias, hd);
	call_fini(&call);
	free(a);
	free(b);
	free(c);
	free(bias);
	free(ha);
	free(hb);
	free(hd);
}

static void test_shapes(void **state)
{
	static const cudaDataType types[] = {CUDA_R_32F, CUDA_R_16F, CUDA_R_16BF};
	static const uint64_t sizes[][3] = {{1, 1, 1}, {37, 5, 19}, {8, 70, 64}, {65, 1, 130}};

	(void)state;
	for (size_t t = 0; t < 3; t++)
		for (size_t z = 0; z < 4; z++)
			for (unsigned int f = 0; f < 16; f++) {
				struct shape s = {sizes[z][0],
						  sizes[z][1],
						  sizes[z][2],
						  types[t],
						  f & 8 ? CUDA_R_32F : types[t],
						  f & 1,
						  f & 2,
						  f & 4};

				check_shape(&s, 100 * t + 10 * z + f + 1);
			}
}

#define M 48
#define N 40
#define K 200

static void floats_call(struct call *c, uint64_t n)
{
	struct shape s = {M, n, K, CUDA_R_32F, CUDA_R_32F, true, false, false};
	static float a[M * K], b[K * N];
	uint64_t seed = 77;

	for (size_t i = 0; i < M * K; i++)
		a[i] = (float)(test_uniform(&seed) - 0.5);
	for (size_t i = 0; i < K * N; i++)
		b[i] = (float)(test_uniform(&seed) - 0.5);
	call_init(c, &s);
	c->da = device_new(a, sizeof(a));
	c->db = device_new(b, K * n * sizeof(float));
	c->dd = device_new(NULL, M * n * sizeof(float));
}

/* A column is the same bits alone and beside any number of others. */
static void test_columns_do_not_matter(void **state)
{
	float all[M * N], some[M * N];

	(void)state;
	for (uint64_t n = N; n >= 1; n -= n > 8 ? 8 : 1) {
		struct call c;

		floats_call(&c, n);
		assert_int_equal(multiply(&c, 1, 0, NULL, NULL, 0), CUBLAS_STATUS_SUCCESS);
		device_read(n == N ? all : some, c.dd, M * n * sizeof(float));
		if (n < N)
			assert_memory_equal(all, some, M * n * sizeof(float));
		call_fini(&c);
	}
}

static int heuristic(const struct call *c, uint64_t workspace_bytes, uint32_t reductions,
		     cublasLtMatmulHeuristicResult_t results[4])
{
	cublasLtMatmulPreference_t pref;
	int count = 0;

	assert_int_equal(cublasLtMatmulPreferenceCreate(&pref), 0);
	assert_int_equal(
		cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
						     &workspace_bytes, sizeof(workspace_bytes)),
		0);
	assert_int_equal(cublasLtMatmulPreferenceSetAttribute(
				 pref, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions,
				 sizeof(reductions)),
			 0);
	assert_int_equal(cublasLtMatmulAlgoGetHeuristic(c->handle, c->desc, c->a, c->b, c->d, c->d,
							pref, 4, results, &count),
			 0);
	cublasLtMatmulPreferenceDestroy(pref);
	return count;
}

static void test_heuristic_depends_on_columns(void **state)
{
	cublasLtMatmulHeuristicResult_t few[4], many[4];
	float straight[M * 8], split[M * 8];
	struct call c, wide;
	void *workspace;

	(void)state;
	floats_call(&c, 8);
	floats_call(&wide, N);
	assert_int_equal(heuristic(&c, 1 << 20, CUBLASLT_REDUCTION_SCHEME_MASK, few), 2);
	assert_int_equal(heuristic(&wide, 1 << 20, CUBLASLT_REDUCTION_SCHEME_MASK, many), 2);
	assert_memory_equal(&few[0].algo, &many[1].algo, sizeof(few[0].algo));
	assert_memory_equal(&few[1].algo, &many[0].algo, sizeof(few[0].algo));
	assert_int_equal(heuristic(&c, 0, CUBLASLT_REDUCTION_SCHEME_MASK, many), 1);
	assert_int_equal(many[0].workspaceSize, 0);
	assert_int_equal(heuristic(&c, 1 << 20, CUBLASLT_REDUCTION_SCHEME_NONE, many), 1);
	assert_int_equal(many[0].workspaceSize, 0);
	assert_true(few[0].workspaceSize > 0);
	workspace = device_new(NULL, few[0].workspaceSize);
	assert_int_equal(multiply(&c, 1, 0, &few[1].algo, NULL, 0), CUBLAS_STATUS_SUCCESS);
	device_read(straight, c.dd, sizeof(straight));
	assert_int_equal(multiply(&c, 1, 0, &few[0].algo, workspace, few[0].workspaceSize),
			 CUBLAS_STATUS_SUCCESS);
	device_read(split, c.dd, sizeof(split));
	assert_memory_not_equal(straight, split, sizeof(split));
	for (size_t i = 0; i < M * 8; i++)
		assert_true(fabsf(straight[i] - split[i]) < 1e-4f);
	/* Too little workspace is refused; all that it may use is overwritten. */
	assert_int_equal(multiply(&c, 1, 0, &few[0].algo, workspace, few[0].workspaceSize - 1),
			 CUBLAS_STATUS_INVALID_VALUE);
	device_read(split, workspace, sizeof(float));
	assert_true(isnan(split[0]));
	cudaFree(workspace);
	call_fini(&c);
	call_fini(&wide);
}

static void test_refusals(void **state)
{
	static float host[M * K + 4];
	int ids[8], count = 0;
	cublasLtMatmulAlgo_t algo;
	struct call c;
	void *device;

	(void)state;
	floats_call(&c, 8);
	device = c.da;
	c.da = host;
	assert_int_equal(multiply(&c, 1, 0, NULL, NULL, 0), CUBLAS_STATUS_INVALID_VALUE);
	c.da = (char *)device + 4;
	assert_int_equal(multiply(&c, 1, 0, NULL, NULL, 0), CUBLAS_STATUS_INVALID_VALUE);
	c.da = device;
	assert_int_equal(cublasLtMatmulAlgoGetIds(c.handle, CUBLAS_COMPUTE_32F, CUDA_R_32F,
						  CUDA_R_16BF, CUDA_R_16BF, CUDA_R_16BF,
						  CUDA_R_16BF, 8, ids, &count),
			 0);
	assert_true(count >= 2);
	for (int i = 0; i < count; i++)
		assert_int_equal(cublasLtMatmulAlgoInit(c.handle, CUBLAS_COMPUTE_32F, CUDA_R_32F,
							CUDA_R_16BF, CUDA_R_16BF, CUDA_R_16BF,
							CUDA_R_16BF, ids[i], &algo),
				 0);
	assert_int_equal(cublasLtMatmulAlgoInit(c.handle, CUBLAS_COMPUTE_32F, CUDA_R_32F,
						CUDA_R_16BF, CUDA_R_16BF, CUDA_R_16BF, CUDA_R_16BF,
						12345, &algo),
			 CUBLAS_STATUS_INVALID_VALUE);
	assert_string_equal(cublasLtGetStatusName(CUBLAS_STATUS_NOT_SUPPORTED),
			    "CUBLAS_STATUS_NOT_SUPPORTED");
	call_fini(&c);
}

TEST_MAIN(cudasim_exec_gemm, cmocka_unit_test(test_shapes),
	  cmocka_unit_test(test_columns_do_not_matter),
	  cmocka_unit_test(test_heuristic_depends_on_columns), cmocka_unit_test(test_refusals))
