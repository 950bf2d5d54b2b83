/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arena.h: where the index keeps token ids: spans of 16, 32, 64 or 128 words, from preallocated
 * memory. A span is named by a number; CORE_NONE is none.
 */
#ifndef KVD_CORE_ARENA_H
#define KVD_CORE_ARENA_H

#include "kvd/core/machine.h"

#define ARENA_CHUNK_WORDS 128u

struct arena_chunk {
	uint32_t prev;
	uint32_t next;
	uint8_t size_class;
	uint8_t used; /* a bit a span */
	uint8_t taken;
	uint8_t reserved;
};

void arena_init(struct core *core);
/* A span of at least `words` <= 128, or CORE_NONE. */
uint32_t arena_alloc(struct core *core, uint32_t words);
/* CORE_NONE is fine. */
void arena_free(struct core *core, uint32_t span);

static inline uint32_t *arena_words(const struct core *core, uint32_t span)
{
	return core->arena + (size_t)span * 16;
}

#endif
