/* SPDX-License-Identifier: Apache-2.0 */
/* Inner kernels for AVX-512 with dot products of bf16 pairs. */
#ifndef KERNELS_CPU_AVX512_AVX512_H
#define KERNELS_CPU_AVX512_AVX512_H

#include <kernels/cpu/isa.h>

#define AVX512_GEMM_ROWS 6u

extern const struct isa avx512_isa;

void avx512_gemm(const struct isa_gemm_part *part, void *scratch);
void avx512_attn(const struct attn_tile *tile, uint32_t split, struct attn_partial *out,
		 void *scratch);
size_t avx512_attn_scratch_bytes(uint32_t head_dim);

void avx512_rows_rmsnorm(const float *x, const float *weight, float eps, kernel_bf16 *out,
			 uint32_t d);
void avx512_rows_rope_angles(uint32_t pos, const float *inv_freq, uint32_t n, float *cosines,
			     float *sines);
void avx512_rows_rope_head(const float *x, const float *norm, float eps, const float *cosines,
			   const float *sines, uint32_t pairs, uint32_t head_dim, kernel_bf16 *out);
void avx512_rows_store_v(const float *x, uint32_t head_dim, uint32_t t, kernel_bf16 *v);
void avx512_rows_round(const float *x, float scale, uint32_t n, kernel_bf16 *out);
void avx512_rows_embed(const struct kernel_weight *w, uint32_t token, float *x);
void avx512_rows_exps(const float *x, uint32_t n, float max, float scale, float *out);

#endif
