/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of the DRAM tier: host memory that is all there before the first block is stored. */
#ifndef KVD_DRAM_H
#define KVD_DRAM_H

#include "kvd/devmem.h"
#include <stddef.h>
#include <stdint.h>

#define DRAM_SEGMENT_BYTES_MIN (2ull << 20)
#define DRAM_SEGMENT_BYTES_MAX (64ull << 20)

struct dram {
	int fd;
	uint8_t *map; /* NULL: there is none */
	uint64_t bytes;
	uint64_t segment_bytes;
};

/* What a tier of that size is cut into: a power of two. */
uint64_t dram_segment_bytes(uint64_t bytes);
/*
 * Allocates `bytes`, rounded down to whole segments, faults them in, on as many threads as there
 * are processors, and pins them for GPUs. Blocks, for as long as that takes; before the loop turns,
 * see devmem_pin(). 0, or -errno with words in error[size].
 */
int dram_init(struct dram *d, uint64_t bytes, struct devmem *devmem, char *error, size_t size);
/* After devmem_fini(). A zeroed struct is fine. */
void dram_fini(struct dram *d);

#endif
