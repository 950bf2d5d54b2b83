/* SPDX-License-Identifier: Apache-2.0 */
/* Plain C inner kernels, for any processor; they compile into vector code where there is some. */
#ifndef KERNELS_CPU_PORTABLE_PORTABLE_H
#define KERNELS_CPU_PORTABLE_PORTABLE_H

#include <kernels/cpu/isa.h>

#define PORTABLE_GEMM_ROWS 4u

extern const struct isa portable_isa;

void portable_gemm(const struct isa_gemm_part *part, void *scratch);
void portable_attn(const struct attn_tile *tile, uint32_t split, struct attn_partial *out,
		   void *scratch);
size_t portable_attn_scratch_bytes(uint32_t head_dim);

void portable_rows_rmsnorm(const float *x, const float *weight, float eps, kernel_bf16 *out,
			   uint32_t d);
void portable_rows_rope_angles(uint32_t pos, const float *inv_freq, uint32_t n, float *cosines,
			       float *sines);
void portable_rows_rope_head(const float *x, const float *norm, float eps, const float *cosines,
			     const float *sines, uint32_t pairs, uint32_t head_dim,
			     kernel_bf16 *out);
void portable_rows_store_v(const float *x, uint32_t head_dim, uint32_t t, kernel_bf16 *v);
void portable_rows_round(const float *x, float scale, uint32_t n, kernel_bf16 *out);
void portable_rows_embed(const struct kernel_weight *w, uint32_t token, float *x);
void portable_rows_exps(const float *x, uint32_t n, float max, float scale, float *out);

#endif
