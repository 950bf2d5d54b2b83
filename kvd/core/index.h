/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index.h: finding a node by what its block is. A block's hash is a 128-bit XXH3 of its parent's
 * hash, its tokens and its extras, keyed by the namespace. The hash only finds candidates: parent,
 * tokens and extras are compared before anything is called a hit.
 */
#ifndef KVD_CORE_INDEX_H
#define KVD_CORE_INDEX_H

#include "kvd/core/machine.h"

#define INDEX_EXTRA_WORDS 5u /* position in the block, digest */

struct index_slot {
	uint32_t tag; /* low word of the hash; its home is tag & mask */
	uint32_t node;
};

/* What makes a block what it is. */
struct index_key {
	uint64_t hash[2];
	const uint32_t *tokens;
	uint32_t token_count;
	uint32_t extra_count;
	uint32_t extras[KVD_EXTRAS_PER_BLOCK * INDEX_EXTRA_WORDS];
};

/* The tokens of a request and what stands behind some of them, checked. */
struct index_prompt {
	const uint32_t *tokens;
	uint32_t token_count;
	const struct kvd_extra *extras; /* by position */
	uint32_t extra_count;
	uint32_t page_tokens;
};

void index_init(struct core *core);
/* Makes the space's hash secret from its key seed, and a format's root hash from its identity. */
void index_seed(struct space *space, const uint8_t key_seed[16]);
void index_root(const struct space *space, const struct format *format, uint64_t out_hash[2]);

/* Fills tokens and extras of block `block`, which may be the last and not full; no hash. */
void index_block(const struct index_prompt *prompt, uint32_t block, struct index_key *out);
/* The hash of a block, given its parent's. */
void index_hash(const struct space *space, const uint64_t parent_hash[2], struct index_key *key);

/* The node of that parent and key, sealed or building; or CORE_NONE. */
uint32_t index_find(const struct core *core, uint32_t parent, const struct index_key *key);
/* The node of the format with that hash whose slot in the file tier has that generation. */
uint32_t index_find_stored(const struct core *core, uint32_t format, const uint64_t hash[2],
			   uint64_t generation);
/* The first node that could have that hash, for prefetching; or CORE_NONE. Reads no node. */
uint32_t index_candidate(const struct core *core, const uint64_t hash[2]);
void index_prefetch(const struct core *core, const uint64_t hash[2]);
void index_insert(struct core *core, uint32_t node);
void index_remove(struct core *core, uint32_t node);

/*
 * Remembers for WHY that a hash left the index, and whether its pages went to quarantine; and a
 * word about it for the eviction policy.
 */
void index_ghost_add(struct core *core, const uint64_t hash[2], bool quarantined, uint32_t uses);
/* 0: not known; else the cause, KVD_WHY_EVICTED or KVD_WHY_QUARANTINED. */
uint32_t index_ghost_find(const struct core *core, const uint64_t hash[2]);
/* The policy's word. False: the hash is not remembered. */
bool index_ghost_uses(const struct core *core, const uint64_t hash[2], uint32_t *out);

#endif
