/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks: what cudaMalloc() takes from the machine, and cuts allocations from. */
#ifndef TESTS_CUDASIM_RT_ALLOC_H
#define TESTS_CUDASIM_RT_ALLOC_H

#include "tests/cudasim/rt_machine.h"

struct rt_chunk {
	struct rt_chunk *next;
	uint8_t *base;
	uint64_t bytes;
	int device;
	uint32_t blocks;
	bool shared;   /* small allocations come from it */
	bool exported; /* by IPC: other processes may write it */
	struct rt_segment segment;
};

/* A free under an import, or any other break of the rules: told, counted, fatal if strict. */
void rt_alloc_misuse(int device, const char *what);

#endif
