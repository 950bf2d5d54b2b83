/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places buffers with known lifetimes into one arena: two that are never alive together may share
 * bytes. Done once, before the first token.
 */
#ifndef ENGINE_PLAN_H
#define ENGINE_PLAN_H

#include <stddef.h>
#include <stdint.h>

#define PLAN_ALIGN 64u

struct plan_buffer {
	const char *name;
	size_t bytes;
	uint32_t first; /* alive in the closed interval [first, last] of the step's operations */
	uint32_t last;
	size_t out_offset; /* of PLAN_ALIGN */
};

/* Chooses every out_offset. Returns the bytes of the arena. */
size_t plan_place(struct plan_buffer *buffers, uint32_t count);

#endif
