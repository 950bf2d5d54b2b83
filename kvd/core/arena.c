/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Token storage: chunks of 128 words, each cut into spans of one size class while it is in use.
 *
 * Invariants: a chunk is either in chunk_free, or full, or in the partial list of its class.
 * arena_tokens is the sum of the spans in use. Nothing here knows what a span means. The core's
 * thread only.
 */
#include "kvd/core/arena.h"

static uint32_t class_of(uint32_t words)
{
	uint32_t size_class = 0;

	while ((16u << size_class) < words)
		size_class++;
	ASSERT(size_class < 4);
	return size_class;
}

static uint8_t full_mask(uint32_t size_class)
{
	return (uint8_t)((1u << (8u >> size_class)) - 1);
}

static void push(struct core *core, uint32_t *head, uint32_t chunk)
{
	core->chunks[chunk].prev = CORE_NONE;
	core->chunks[chunk].next = *head;
	if (*head != CORE_NONE)
		core->chunks[*head].prev = chunk;
	*head = chunk;
}

static void unlink_chunk(struct core *core, uint32_t *head, uint32_t chunk)
{
	struct arena_chunk *c = &core->chunks[chunk];

	if (c->prev != CORE_NONE)
		core->chunks[c->prev].next = c->next;
	else
		*head = c->next;
	if (c->next != CORE_NONE)
		core->chunks[c->next].prev = c->prev;
}

void arena_init(struct core *core)
{
	core->chunk_free = CORE_NONE;
	for (uint32_t i = 0; i < ARRAY_LEN(core->chunk_partial); i++)
		core->chunk_partial[i] = CORE_NONE;
	for (uint32_t i = core->chunk_count; i-- > 0;)
		push(core, &core->chunk_free, i);
}

uint32_t arena_alloc(struct core *core, uint32_t words)
{
	uint32_t size_class = class_of(words);
	uint32_t *partial = &core->chunk_partial[size_class];
	uint32_t chunk = *partial;

	if (chunk == CORE_NONE) {
		chunk = core->chunk_free;
		if (chunk == CORE_NONE)
			return CORE_NONE;
		unlink_chunk(core, &core->chunk_free, chunk);
		core->chunks[chunk].size_class = (uint8_t)size_class;
		core->chunks[chunk].used = 0;
		core->chunks[chunk].taken = 1;
		push(core, partial, chunk);
	}
	struct arena_chunk *c = &core->chunks[chunk];
	uint32_t slot = (uint32_t)__builtin_ctz(~(uint32_t)c->used);
	c->used |= (uint8_t)(1u << slot);
	if (c->used == full_mask(size_class))
		unlink_chunk(core, partial, chunk);
	core->arena_tokens += 16u << size_class;
	return chunk * 8 + (slot << size_class);
}

void arena_free(struct core *core, uint32_t span)
{
	if (span == CORE_NONE)
		return;
	uint32_t chunk = span / 8;
	struct arena_chunk *c = &core->chunks[chunk];
	uint32_t slot = (span % 8) >> c->size_class;

	ASSERT_DEBUG(c->taken && c->used & 1u << slot);
	if (c->used == full_mask(c->size_class))
		push(core, &core->chunk_partial[c->size_class], chunk);
	c->used &= (uint8_t) ~(1u << slot);
	core->arena_tokens -= 16u << c->size_class;
	if (c->used == 0) {
		unlink_chunk(core, &core->chunk_partial[c->size_class], chunk);
		c->taken = 0;
		push(core, &core->chunk_free, chunk);
	}
}
