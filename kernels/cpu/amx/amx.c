/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the AMX kernels. */
#include "kernels/cpu/amx/amx.h"

#include <kernels/cpu/avx512/avx512.h>

const struct isa amx_isa = {
	.gemm_rows = AMX_GEMM_ROWS,
	.gemm_scratch_bytes = AMX_GEMM_SCRATCH,
	.gemm = amx_gemm,
	.attn_scratch_bytes = amx_attn_scratch_bytes,
	.attn = amx_attn,
	.rmsnorm = avx512_rows_rmsnorm,
	.rope_angles = avx512_rows_rope_angles,
	.rope_head = avx512_rows_rope_head,
	.store_v = avx512_rows_store_v,
	.round = avx512_rows_round,
	.embed = avx512_rows_embed,
	.exps = avx512_rows_exps,
};
