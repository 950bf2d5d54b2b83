/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic under cublaslt.c: one product of matrices of any strides, on the processor. */
#ifndef CUDASIM_EXEC_GEMM_H
#define CUDASIM_EXEC_GEMM_H

#include <stddef.h>
#include <stdint.h>

enum gemm_type { GEMM_F32, GEMM_F16, GEMM_BF16 };

struct gemm_matrix {
	void *data;
	enum gemm_type type;
	/* Elements from one row, and from one column, to the next. */
	size_t row_stride;
	size_t column_stride;
};

/* d[m][n] = alpha * a[m][k] * b[k][n] + beta * c + bias, then max(0, .) with relu. */
struct gemm {
	size_t m, n, k;
	struct gemm_matrix a, b, c, d;
	float alpha, beta;
	const void *bias; /* NULL, or m elements */
	enum gemm_type bias_type;
	int relu;
	/* K is cut into so many parts, summed apart: other bits, as a device's split-K has. */
	unsigned int splits;
};

size_t gemm_type_bytes(enum gemm_type type);
/*
 * An element's bits depend on its row of a, its column of b, k and splits alone: not on m or n. 0,
 * or -ENOMEM.
 */
int gemm_run(const struct gemm *g);

#endif
