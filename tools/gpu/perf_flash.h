/* SPDX-License-Identifier: Apache-2.0 */
/* What attention over pages needs in device memory, for sequences of one length. */
#ifndef TOOLS_GPU_PERF_FLASH_H
#define TOOLS_GPU_PERF_FLASH_H

#include "kernels/cuda/attn.h"
#include "tools/gpu/perf.h"

struct perf_flash {
	uint32_t heads, kv_heads, head_dim;
	uint32_t tokens; /* of a sequence */
	uint32_t sequences;
	/* Either whole prompts, or the last token of each. */
	int decode;
	cudaError_t (*run)(cudaStream_t stream, const struct cuda_attention *a);
	/* Ours. */
	struct cuda_attention a;
	void *pool;
	size_t pool_bytes;
};

#define PERF_FLASH_PAGE_TOKENS 64u

void perf_flash_init(struct perf_flash *f);
void perf_flash_fini(struct perf_flash *f);
void perf_flash_run(struct perf *b, void *arg);
/* Copies K and V of sequence 0 out of its pages, as perf_standard wants them. */
void perf_flash_unpage(const struct perf_flash *f, uint16_t *k, uint16_t *v);

#endif
