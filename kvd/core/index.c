/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hashing of blocks, and the hash table of nodes: open addressing with linear probing in memory
 * of twice as many slots as nodes, deletion by shifting back, so that there are no tombstones and
 * no rehash.
 *
 * Invariants: every full node is in the table once, partial nodes and roots never are. A slot
 * holds enough of the hash to find its home without reading the node. The core's thread only.
 */
#include "kvd/core/index.h"

#include "kvd/core/arena.h"
#include "kvd/core/mutant.h"

#define XXH_STATIC_LINKING_ONLY
#include <string.h>
#include <xxhash.h>

void index_init(struct core *core)
{
	for (uint64_t i = 0; i <= core->index_mask; i++)
		core->index[i].node = CORE_NONE;
}

void index_seed(struct space *space, const uint8_t key_seed[16])
{
	XXH3_generateSecret(space->secret, sizeof(space->secret), key_seed, 16);
}

static void keyed_hash(const struct space *space, const void *data, size_t size, uint64_t out[2])
{
	XXH128_hash_t h = XXH3_128bits_withSecret(data, size, space->secret, sizeof(space->secret));

	out[0] = h.low64 & MUTANT_HASH_MASK;
	out[1] = h.high64 & MUTANT_HASH_MASK;
}

void index_root(const struct space *space, const struct format *format, uint64_t out_hash[2])
{
	keyed_hash(space, format->identity, sizeof(format->identity), out_hash);
}

/* The first extra at or behind token `pos`. */
static uint32_t first_extra(const struct index_prompt *prompt, uint64_t pos)
{
	uint32_t low = 0;
	uint32_t high = prompt->extra_count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;
		if (prompt->extras[mid].token_pos < pos)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

void index_block(const struct index_prompt *prompt, uint32_t block, struct index_key *out)
{
	uint32_t first = block * prompt->page_tokens;
	uint32_t left = prompt->token_count - first;

	out->tokens = prompt->tokens + first;
	out->token_count = BITS_MIN(left, prompt->page_tokens);
	out->extra_count = 0;
	if (prompt->extra_count == 0)
		return;
	uint64_t end = (uint64_t)first + prompt->page_tokens;
	for (uint32_t i = first_extra(prompt, first);
	     i < prompt->extra_count && prompt->extras[i].token_pos < end; i++) {
		uint32_t *words = out->extras + out->extra_count++ * INDEX_EXTRA_WORDS;
		words[0] = prompt->extras[i].token_pos - first;
		memcpy(words + 1, prompt->extras[i].digest, sizeof(prompt->extras[i].digest));
	}
}

void index_hash(const struct space *space, const uint64_t parent_hash[2], struct index_key *key)
{
	uint32_t words[4 + 128 + KVD_EXTRAS_PER_BLOCK * INDEX_EXTRA_WORDS];
	size_t at = 4;

	memcpy(words, parent_hash, 16);
	memcpy(words + at, key->tokens, key->token_count * sizeof(uint32_t));
	at += key->token_count;
	memcpy(words + at, key->extras, key->extra_count * INDEX_EXTRA_WORDS * sizeof(uint32_t));
	at += (size_t)key->extra_count * INDEX_EXTRA_WORDS;
	keyed_hash(space, words, at * sizeof(uint32_t), key->hash);
}

static bool same_block(const struct core *core, const struct node *node,
		       const struct index_key *key)
{
	if (MUTANT(SKIP_TOKENS))
		return true;
	if (node->valid_tokens != key->token_count || node->extra_count != key->extra_count)
		return false;
	if (memcmp(arena_words(core, node->tokens), key->tokens,
		   key->token_count * sizeof(uint32_t)) != 0)
		return false;
	return key->extra_count == 0 ||
	       memcmp(arena_words(core, node->extras), key->extras,
		      key->extra_count * INDEX_EXTRA_WORDS * sizeof(uint32_t)) == 0;
}

uint32_t index_find(const struct core *core, uint32_t parent, const struct index_key *key)
{
	uint32_t tag = (uint32_t)key->hash[0];

	for (uint32_t i = tag & core->index_mask; core->index[i].node != CORE_NONE;
	     i = (i + 1) & core->index_mask) {
		if (core->index[i].tag != tag)
			continue;
		const struct node *node = &core->nodes[core->index[i].node];
		if (node->hash[0] == key->hash[0] && node->hash[1] == key->hash[1] &&
		    node->parent == parent && same_block(core, node, key))
			return core->index[i].node;
	}
	return CORE_NONE;
}

uint32_t index_find_stored(const struct core *core, uint32_t format, const uint64_t hash[2],
			   uint64_t generation)
{
	uint32_t tag = (uint32_t)hash[0];

	for (uint32_t i = tag & core->index_mask; core->index[i].node != CORE_NONE;
	     i = (i + 1) & core->index_mask) {
		uint32_t at = core->index[i].node;
		const struct node *node = &core->nodes[at];
		if (core->index[i].tag == tag && node->hash[0] == hash[0] &&
		    node->hash[1] == hash[1] && node->format == format &&
		    (core->rests[at].generation[CORE_TIER_FILE] == generation ||
		     MUTANT(PARENT_BY_KEY)))
			return at;
	}
	return CORE_NONE;
}

uint32_t index_candidate(const struct core *core, const uint64_t hash[2])
{
	uint32_t tag = (uint32_t)hash[0];

	for (uint32_t i = tag & core->index_mask; core->index[i].node != CORE_NONE;
	     i = (i + 1) & core->index_mask)
		if (core->index[i].tag == tag)
			return core->index[i].node;
	return CORE_NONE;
}

void index_prefetch(const struct core *core, const uint64_t hash[2])
{
	__builtin_prefetch(&core->index[(uint32_t)hash[0] & core->index_mask]);
}

void index_insert(struct core *core, uint32_t node)
{
	uint32_t tag = (uint32_t)core->nodes[node].hash[0];
	uint32_t i = tag & core->index_mask;

	while (core->index[i].node != CORE_NONE)
		i = (i + 1) & core->index_mask;
	core->index[i] = (struct index_slot){.tag = tag, .node = node};
}

/* Fills the hole at `hole` with a later slot of its run that may stand there. */
static void shift_back(struct core *core, uint32_t hole)
{
	uint32_t mask = core->index_mask;

	for (uint32_t i = (hole + 1) & mask; core->index[i].node != CORE_NONE; i = (i + 1) & mask) {
		uint32_t home = core->index[i].tag & mask;
		if (((i - home) & mask) < ((i - hole) & mask))
			continue;
		core->index[hole] = core->index[i];
		hole = i;
	}
	core->index[hole].node = CORE_NONE;
}

void index_remove(struct core *core, uint32_t node)
{
	uint32_t i = (uint32_t)core->nodes[node].hash[0] & core->index_mask;

	while (core->index[i].node != node) {
		ASSERT(core->index[i].node != CORE_NONE);
		i = (i + 1) & core->index_mask;
	}
	shift_back(core, i);
}

/* A ghost is the hash's high word with its lowest bit used for the cause. */
static uint64_t ghost_slot(const struct core *core, const uint64_t hash[2])
{
	return (hash[0] >> 32 ^ hash[0]) & core->ghost_mask;
}

static bool ghost_is(uint64_t ghost, const uint64_t hash[2])
{
	return ghost != 0 && (ghost & ~1ull) == (hash[1] & ~1ull);
}

void index_ghost_add(struct core *core, const uint64_t hash[2], bool quarantined, uint32_t uses)
{
	uint64_t slot = ghost_slot(core, hash);

	core->ghosts[slot] = (hash[1] & ~1ull) | quarantined;
	core->ghost_uses[slot] = uses;
}

uint32_t index_ghost_find(const struct core *core, const uint64_t hash[2])
{
	uint64_t ghost = core->ghosts[ghost_slot(core, hash)];

	if (!ghost_is(ghost, hash))
		return 0;
	return ghost & 1 ? KVD_WHY_QUARANTINED : KVD_WHY_EVICTED;
}

bool index_ghost_uses(const struct core *core, const uint64_t hash[2], uint32_t *out)
{
	uint64_t slot = ghost_slot(core, hash);

	*out = core->ghost_uses[slot];
	return ghost_is(core->ghosts[slot], hash);
}
