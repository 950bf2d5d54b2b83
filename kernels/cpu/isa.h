/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one instruction set provides: the inner kernels, each for one thread. The op_*.c files
 * divide an operation among the team and call these; they are the same for all instruction sets.
 * A kernel's result for a row depends on that row alone, never on how the work was divided.
 */
#ifndef KERNELS_CPU_ISA_H
#define KERNELS_CPU_ISA_H

#include <kernels/cpu/attn.h>
#include <kernels/kernels.h>

#define ISA_STRING_(x) #x
#define ISA_STRING(x) ISA_STRING_(x)
/* "cpu-portable-r1": the numerics of a table, by its name. */
#define ISA_NUMERICS(name) name "-r" ISA_STRING(NUMERICS_REV)

/* Rows [row0, row0 + rows) of g times the panels [panel0, panel0 + panels). */
struct isa_gemm_part {
	const struct kernel_gemm *g;
	uint32_t row0;
	uint32_t rows;
	uint32_t panel0;
	uint32_t panels;
};

struct isa {
	/* Parts are best cut at multiples of gemm_rows rows. */
	uint32_t gemm_rows;
	size_t gemm_scratch_bytes;
	void (*gemm)(const struct isa_gemm_part *part, void *scratch);

	/* Attends to one split; the partial is written whole for the tile's rows. */
	size_t (*attn_scratch_bytes)(uint32_t head_dim);
	void (*attn)(const struct attn_tile *tile, uint32_t split, struct attn_partial *out,
		     void *scratch);

	void (*rmsnorm)(const float *x, const float *weight, float eps, kernel_bf16 *out,
			uint32_t d);
	/* cosines[i], sines[i] of pos * inv_freq[i] */
	void (*rope_angles)(uint32_t pos, const float *inv_freq, uint32_t n, float *cosines,
			    float *sines);
	/* One head: norm (or NULL), rotation of the first 2 * pairs dimensions, rounding. */
	void (*rope_head)(const float *x, const float *norm, float eps, const float *cosines,
			  const float *sines, uint32_t pairs, uint32_t head_dim, kernel_bf16 *out);
	/* Token t of a pair of values: v[2 * i + t] = x[i], rounded; the other stays. */
	void (*store_v)(const float *x, uint32_t head_dim, uint32_t t, kernel_bf16 *v);
	/* out[i] = x[i] * scale, rounded */
	void (*round)(const float *x, float scale, uint32_t n, kernel_bf16 *out);
	void (*embed)(const struct kernel_weight *w, uint32_t token, float *x);
	/* out[i] = exp((x[i] - max) * scale) */
	void (*exps)(const float *x, uint32_t n, float max, float scale, float *out);
};

#endif
