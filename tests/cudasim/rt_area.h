/* SPDX-License-Identifier: Apache-2.0 */
/* What is live in device memory: allocations, imports and mappings, in the order of addresses. */
#ifndef TESTS_CUDASIM_RT_AREA_H
#define TESTS_CUDASIM_RT_AREA_H

#include "tests/cudasim/rt_machine.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rt_area_kind {
	RT_AREA_BLOCK,	/* cudaMalloc: of a chunk */
	RT_AREA_IMPORT, /* cudaIpcOpenMemHandle */
	RT_AREA_VMM,	/* cuMemMap */
};

struct rt_area {
	uint8_t *base;
	uint64_t bytes;
	enum rt_area_kind kind;
	int device;		   /* index in this process */
	uint32_t refs;		   /* IMPORT: opens without close */
	struct rt_chunk *chunk;	   /* BLOCK */
	struct rt_segment segment; /* IMPORT, VMM */
};

/* The registry owns the area from here on; NULL: no memory. */
struct rt_area *rt_area_add(const struct rt_area *area);
void rt_area_remove(struct rt_area *area);
/* The area that holds the address, or NULL. */
struct rt_area *rt_area_find(const void *at);
/* The first area at or behind the address, or NULL. */
struct rt_area *rt_area_next(const void *at);
/* Iterates over all: 0 to count - 1. */
size_t rt_area_count(void);
struct rt_area *rt_area_at(size_t index);

#endif
