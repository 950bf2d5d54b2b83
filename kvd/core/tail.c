/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tails: partial nodes, and common runs with the newest children of a node.
 *
 * Invariants: only sealed children count. A run ends before the first token that stands for
 * something else: extras are compared like tokens. A partial node is a leaf for ever. The core's
 * thread only.
 */
#include "kvd/core/tail.h"

#include "kvd/core/arena.h"
#include "kvd/core/mutant.h"
#include "kvd/core/node.h"

#include <string.h>

/* The first token position at which the extras of the two blocks differ. */
static uint32_t extras_agree(const struct core *core, const struct node *node,
			     const struct index_key *key)
{
	uint32_t i = 0;

	for (; i < node->extra_count && i < key->extra_count; i++) {
		const uint32_t *a = arena_words(core, node->extras) + i * INDEX_EXTRA_WORDS;
		const uint32_t *b = key->extras + i * INDEX_EXTRA_WORDS;
		if (memcmp(a, b, INDEX_EXTRA_WORDS * sizeof(*a)) != 0)
			return BITS_MIN(a[0], b[0]);
	}
	if (i < node->extra_count)
		return arena_words(core, node->extras)[i * INDEX_EXTRA_WORDS];
	return i < key->extra_count ? key->extras[i * INDEX_EXTRA_WORDS] : UINT32_MAX;
}

static uint32_t common_run(const struct core *core, const struct node *node,
			   const struct index_key *key)
{
	const uint32_t *tokens = arena_words(core, node->tokens);
	uint32_t end = BITS_MIN(node->valid_tokens, key->token_count);
	uint32_t run = 0;

	end = BITS_MIN(end, extras_agree(core, node, key));
	while (run < end && tokens[run] == key->tokens[run])
		run++;
	if (MUTANT(TAIL_OFF_BY_ONE) && (node->flags & NODE_PARTIAL) && run == node->valid_tokens &&
	    run < key->token_count)
		run++;
	if (MUTANT(TAIL_RUN_LONG) && run > 0 && run < key->token_count)
		run++;
	return run;
}

uint32_t tail_run(const struct core *core, uint32_t parent, const struct index_key *key,
		  uint32_t *out_node)
{
	uint32_t best = 0;
	uint32_t child = core->nodes[parent].first_child;

	for (uint32_t i = 0; i < CORE_TAIL_CHILDREN && child != CORE_NONE; i++) {
		const struct node *n = &core->nodes[child];
		uint32_t run = n->state == NODE_SEALED ? common_run(core, n, key) : 0;
		if (run > best) {
			best = run;
			*out_node = child;
		}
		child = n->next_sibling;
	}
	return best;
}

uint32_t tail_pin(struct core *core, uint32_t lease, const struct index_prompt *prompt,
		  uint32_t block)
{
	struct lease *l = &core->leases[lease];
	struct index_key key;
	uint32_t node = CORE_NONE;

	if ((uint64_t)block * prompt->page_tokens >= prompt->token_count)
		return 0;
	index_block(prompt, block, &key);
	uint32_t run = tail_run(core, l->last, &key, &node);
	if (run < KVD_TAIL_RUN_MIN)
		return 0;
	node_pin(core, node, l->session);
	core->nodes[node].hits++;
	l->tail = node;
	l->tail_block = block;
	return run;
}

/* Drops partial children without pins that the new tail makes useless. */
static void drop_shorter(struct core *core, uint32_t parent, const struct index_key *key)
{
	uint32_t child = core->nodes[parent].first_child;
	uint32_t next;

	for (uint32_t i = 0; i < CORE_TAIL_CHILDREN && child != CORE_NONE; i++, child = next) {
		const struct node *n = &core->nodes[child];
		next = n->next_sibling;
		if ((n->flags & NODE_PARTIAL) && n->pins == 0 &&
		    common_run(core, n, key) == n->valid_tokens)
			node_evict(core, child);
	}
}

bool tail_keep(struct core *core, uint32_t lease, const struct index_key *key,
	       const uint32_t *pages)
{
	const struct lease *l = &core->leases[lease];
	uint32_t same = CORE_NONE;

	if (tail_run(core, l->last, key, &same) >= key->token_count)
		return false;
	drop_shorter(core, l->last, key);
	uint32_t node = node_new(core, l->last, key, NODE_PARTIAL);
	if (node == CORE_NONE)
		return false;
	node_publish(core, node, pages, STATE_KEEP_TAIL);
	return true;
}
