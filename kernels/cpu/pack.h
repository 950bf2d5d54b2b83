/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packed weights: panels of 64 outputs in two halves, [panel][half][k / 2][32][2] bf16, so that one
 * 64-byte load holds one k pair of 16 outputs, and a half lies in one piece, evenly over the sets
 * of a cache. Missing outputs and the missing part of an odd k are zero. GATE_UP: the first half
 * holds 32 gate outputs, the second the up outputs that belong to them.
 */
#ifndef KERNELS_CPU_PACK_H
#define KERNELS_CPU_PACK_H

#include <base/bits.h>
#include <kernels/kernels.h>

#define PACK_PANEL 64u
#define PACK_HALF 32u

static inline uint32_t pack_panels(enum kernel_weight_kind kind, uint32_t n)
{
	if (kind == KERNEL_WEIGHT_GATE_UP)
		return (uint32_t)bits_div_ceil(n / 2, PACK_HALF);
	return (uint32_t)bits_div_ceil(n, PACK_PANEL);
}

/* Elements of one panel. */
static inline size_t pack_panel_elements(uint32_t k)
{
	return bits_align_up(k, 2) * PACK_PANEL;
}

/* Elements of half a panel: from a k pair of the first half to the same of the second. */
static inline size_t pack_half_elements(uint32_t k)
{
	return pack_panel_elements(k) / 2;
}

/* The element of the panel that holds (k, column) of a weight of depth `depth`. */
static inline size_t pack_index(uint32_t depth, uint32_t k, uint32_t column)
{
	return column / PACK_HALF * pack_half_elements(depth) +
	       ((size_t)(k / 2) * PACK_HALF + column % PACK_HALF) * 2 + k % 2;
}

/* Where output `row` of the weight lies: its panel, and its column there. */
static inline uint32_t pack_locate(enum kernel_weight_kind kind, uint32_t n, uint32_t row,
				   uint32_t *out_column)
{
	uint32_t up;

	if (kind == KERNEL_WEIGHT_PLAIN) {
		*out_column = row % PACK_PANEL;
		return row / PACK_PANEL;
	}
	up = row >= n / 2;
	row -= up * (n / 2);
	*out_column = row % PACK_HALF + up * PACK_HALF;
	return row / PACK_HALF;
}

static inline const kernel_bf16 *pack_panel(const struct kernel_weight *w, uint32_t panel)
{
	return (const kernel_bf16 *)w->data + panel * pack_panel_elements(w->k);
}

size_t pack_bytes(enum kernel_weight_kind kind, uint32_t n, uint32_t k);
void pack_rows(const struct kernel_weight *w, uint32_t row0, uint32_t rows, const float *src);

#endif
