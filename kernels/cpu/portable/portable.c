/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the plain C kernels. */
#include "kernels/cpu/portable/portable.h"

const struct isa portable_isa = {
	.gemm_rows = PORTABLE_GEMM_ROWS,
	.gemm = portable_gemm,
	.attn_scratch_bytes = portable_attn_scratch_bytes,
	.attn = portable_attn,
	.rmsnorm = portable_rows_rmsnorm,
	.rope_angles = portable_rows_rope_angles,
	.rope_head = portable_rows_rope_head,
	.store_v = portable_rows_store_v,
	.round = portable_rows_round,
	.embed = portable_rows_embed,
	.exps = portable_rows_exps,
};
