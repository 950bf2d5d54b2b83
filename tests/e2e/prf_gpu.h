/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages in GPU memory, for a client whose "kernels" are the host's: what it computes goes there by
 * copies, and what it reads comes from there by copies. NULL stands for pages in host memory.
 */
#ifndef TESTS_E2E_PRF_GPU_H
#define TESTS_E2E_PRF_GPU_H

#include "tests/e2e/prf.h"
#include <kvd.h>

struct prf_gpu;

/* The GPU of that number in this process. 0, or -errno with words in error[size]. */
int prf_gpu_new(uint32_t ordinal, uint64_t page_bytes, struct prf_gpu **out, char *error,
		size_t size);
void prf_gpu_free(struct prf_gpu *g);
const struct kvd_map_ops *prf_gpu_map_ops(const struct prf_gpu *g);
/* kvd's number for this GPU (g NULL: for the host), once connected; or -errno with words. */
int prf_gpu_device(struct prf_gpu *g, struct kvd *k, char *error, size_t size);

/* As prf_write(), prf_wrong() and a copy of a whole page; complete when they return. */
void prf_gpu_write(struct prf_gpu *g, const struct prf_sequence *s, struct prf_page page,
		   uint32_t first, uint32_t end, uint64_t address);
uint32_t prf_gpu_wrong(struct prf_gpu *g, const struct prf_sequence *s, struct prf_page page,
		       uint32_t first, uint32_t end, uint64_t address);
void prf_gpu_copy(struct prf_gpu *g, uint64_t to, uint64_t from, uint64_t bytes);

#endif
