/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matching a prompt against the index. The chain of hashes needs no memory but the prompt's, so
 * the hashes of a run of blocks are computed first while their slots, then their nodes, come into
 * the cache; only then is anything compared. The core's thread only.
 */
#include "kvd/core/match.h"

#include "kvd/core/arena.h"

#define MATCH_RUN 32u
#define MATCH_AHEAD 3u

static void prefetch_node(const struct core *core, const struct index_key *key)
{
	uint32_t node = index_candidate(core, key->hash);

	if (node == CORE_NONE)
		return;
	__builtin_prefetch(&core->nodes[node]);
	__builtin_prefetch((const char *)&core->nodes[node] + 64);
}

static void prefetch_tokens(const struct core *core, const struct index_key *key)
{
	uint32_t node = index_candidate(core, key->hash);

	if (node == CORE_NONE || core->nodes[node].tokens == CORE_NONE)
		return;
	const char *words = (const char *)arena_words(core, core->nodes[node].tokens);
	for (uint32_t at = 0; at < key->token_count * sizeof(uint32_t); at += 64)
		__builtin_prefetch(words + at);
}

/* One run of blocks from `block` on. Returns how many of them are sealed; out_node is the last. */
static uint32_t match_run(const struct core *core, uint32_t node, const struct index_prompt *prompt,
			  uint32_t block, uint32_t count, uint32_t *out_node)
{
	struct index_key keys[MATCH_RUN];
	const struct space *space = &core->spaces[core->formats[core->nodes[node].format].space];
	const uint64_t *parent_hash = core->nodes[node].hash;

	for (uint32_t i = 0; i < count; i++) {
		index_block(prompt, block + i, &keys[i]);
		index_hash(space, parent_hash, &keys[i]);
		index_prefetch(core, keys[i].hash);
		parent_hash = keys[i].hash;
	}
	for (uint32_t i = 0; i < count; i++)
		prefetch_node(core, &keys[i]);
	for (uint32_t i = 0; i < count; i++) {
		if (i + MATCH_AHEAD < count)
			prefetch_tokens(core, &keys[i + MATCH_AHEAD]);
		uint32_t found = index_find(core, node, &keys[i]);
		if (found == CORE_NONE || core->nodes[found].state != NODE_SEALED) {
			*out_node = node;
			return i;
		}
		node = found;
	}
	*out_node = node;
	return count;
}

uint32_t match_sealed(const struct core *core, uint32_t format, const struct index_prompt *prompt)
{
	uint32_t blocks = prompt->token_count / prompt->page_tokens;
	uint32_t node = format;

	for (uint32_t b = 0; b < blocks;) {
		uint32_t count = BITS_MIN(blocks - b, MATCH_RUN);
		uint32_t found = match_run(core, node, prompt, b, count, &node);
		if (found < count)
			break;
		b += found;
	}
	return node;
}

void match_next(const struct core *core, uint32_t node, const struct index_prompt *prompt,
		struct index_key *out)
{
	const struct format *format = &core->formats[core->nodes[node].format];

	index_block(prompt, core->nodes[node].depth, out);
	index_hash(&core->spaces[format->space], core->nodes[node].hash, out);
}
