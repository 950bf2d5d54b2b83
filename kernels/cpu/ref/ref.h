/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One plain twin per operation: single-threaded, in double, over the same packed weights and pages.
 * They say what the fast kernels must compute, up to rounding; only tests call them.
 */
#ifndef KERNELS_CPU_REF_REF_H
#define KERNELS_CPU_REF_REF_H

#include <kernels/kernels.h>

void ref_gemm(const struct kernel_gemm *g);
void ref_attn(const struct kernel_attention *a, enum kernel_type out);
void ref_norm(const float *x, const float *weight, float eps, kernel_half *out, uint32_t m,
	      uint32_t d, enum kernel_type type);
void ref_rope(const struct kernel_rope_store *r);
void ref_embed(const struct kernel_weight *w, const uint32_t *tokens, const uint32_t *drawn,
	       float *x, uint32_t m);
void ref_copy_rows(const float *x, const uint32_t *rows, uint32_t count, uint32_t d, float *out);
void ref_copy_page(uint64_t dst, uint64_t src, uint64_t bytes);
void ref_sample(const float *logits, uint32_t v, const struct kernel_sample_params *p,
		uint32_t *out_token, float *out_logprob);

double ref_swiglu(double gate, double up);
/* Element [row][k] of a packed weight. */
double ref_gemm_weight(const struct kernel_weight *w, uint32_t row, uint32_t k);

#endif
