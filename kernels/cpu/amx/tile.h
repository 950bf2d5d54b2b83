/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tile instructions, as assembly that tells the compiler of the memory they touch (the
 * compilers' own intrinsics do not all say so). Tiles are named by number, 0 to 7. Each thread
 * loads a configuration before it uses tiles, and releases them when it is done, so that the kernel
 * need not save 8 KiB at every switch.
 */
#ifndef KERNELS_CPU_AMX_TILE_H
#define KERNELS_CPU_AMX_TILE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TILE_ROWS 16u  /* of a full tile */
#define TILE_BYTES 64u /* of a row */
#define TILE_PAIRS 16u /* of bf16 in a row: a depth of 32 */
#define TILE_DEPTH 32u

struct tile_config {
	uint8_t palette;
	uint8_t start_row;
	uint8_t reserved[14];
	uint16_t row_bytes[16];
	uint8_t rows[16];
};

#define TILE_ZERO(tile) __asm__ volatile("tilezero %%tmm" #tile ::)
#define TILE_LOAD(tile, base, stride)                                                              \
	__asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"(base), "r"((size_t)(stride))     \
			 : "memory")
#define TILE_STORE(tile, base, stride)                                                             \
	__asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(base), "r"((size_t)(stride)) \
			 : "memory")
/* sum[m][n] += sum over pairs of a[m][pair] . b[pair][n] */
#define TILE_DOT(sum, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #sum ::)

static inline void tile_release(void)
{
	__asm__ volatile("tilerelease" ::);
}

static inline void tile_configure(const struct tile_config *c)
{
	__asm__ volatile("ldtilecfg %0" ::"m"(*c));
}

/* All tiles full, but the rows of those whose bit is set. */
static inline void tile_configure_rows(uint32_t rows, uint32_t tiles_mask)
{
	struct tile_config c = {.palette = 1};

	for (int i = 0; i < 8; i++) {
		c.row_bytes[i] = TILE_BYTES;
		c.rows[i] = (uint8_t)(tiles_mask >> i & 1 ? rows : TILE_ROWS);
	}
	tile_configure(&c);
}

#endif
