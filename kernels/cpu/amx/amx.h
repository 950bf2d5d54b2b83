/* SPDX-License-Identifier: Apache-2.0 */
/* Inner kernels for AMX bf16 tiles; what tiles do not help is the AVX-512 kernel. */
#ifndef KERNELS_CPU_AMX_AMX_H
#define KERNELS_CPU_AMX_AMX_H

#include <kernels/cpu/isa.h>

#define AMX_GEMM_ROWS 32u
#define AMX_GEMM_SCRATCH (2 * AMX_GEMM_ROWS * 64u * sizeof(float)) /* sums of two blocks */

extern const struct isa amx_isa;

void amx_gemm(const struct isa_gemm_part *part, void *scratch);
void amx_attn(const struct attn_tile *tile, uint32_t split, struct attn_partial *out,
	      void *scratch);
size_t amx_attn_scratch_bytes(uint32_t head_dim);

#endif
