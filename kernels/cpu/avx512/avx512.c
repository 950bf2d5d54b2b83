/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the AVX-512 kernels. */
#include "kernels/cpu/avx512/avx512.h"

const struct isa avx512_isa = {
	.gemm_rows = AVX512_GEMM_ROWS,
	.gemm = avx512_gemm,
	.attn_scratch_bytes = avx512_attn_scratch_bytes,
	.attn = avx512_attn,
	.rmsnorm = avx512_rows_rmsnorm,
	.rope_angles = avx512_rows_rope_angles,
	.rope_head = avx512_rows_rope_head,
	.store_v = avx512_rows_store_v,
	.round = avx512_rows_round,
	.embed = avx512_rows_embed,
	.exps = avx512_rows_exps,
};
