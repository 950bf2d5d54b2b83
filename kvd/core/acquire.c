/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ACQUIRE: match, follow, admit, load, build. Until admission has succeeded the lease is new: it
 * has pins, no row and no nodes, and is freed without a trace if there is no memory. Cold nodes
 * are the end of the path until then; then those that are loaded have a haul as their builder,
 * and the lease computes the rest.
 *
 * The request is one step whatever its size: it touches each of its blocks once. The core's
 * thread only.
 */
#include "kvd/core/acquire.h"

#include "kvd/core/admit.h"
#include "kvd/core/arena.h"
#include "kvd/core/block.h"
#include "kvd/core/call.h"
#include "kvd/core/copy.h"
#include "kvd/core/evict.h"
#include "kvd/core/follow.h"
#include "kvd/core/grant.h"
#include "kvd/core/haul.h"
#include "kvd/core/lease.h"
#include "kvd/core/match.h"
#include "kvd/core/move.h"
#include "kvd/core/node.h"
#include "kvd/core/tail.h"

#include <errno.h>
#include <string.h>

/* A lease in a ticket that was called answers nothing until it is claimed, if it ever is. */
static bool builder_sleeps(const struct core *core, uint32_t node)
{
	const struct lease *builder = &core->leases[core->nodes[node].builder];

	return builder->life == LEASE_TICKET && builder->row_state == KVD_LEASE_CALL;
}

/*
 * Pins the cached prefix, then the nodes that others are building; build_from is the end of what
 * they are really going to build.
 */
static void match_and_follow(struct core *core, struct lease *l, const struct index_prompt *prompt)
{
	uint32_t blocks = prompt->token_count / prompt->page_tokens;
	struct index_key key;
	bool slept = false;

	l->last = match_sealed(core, l->format, prompt);
	for (uint32_t n = l->last; n != l->format; n = core->nodes[n].parent) {
		node_pin(core, n, l->session);
		core->nodes[n].hits++;
	}
	l->ready = l->build_from = core->nodes[l->last].depth;
	while (core->nodes[l->last].depth < blocks) {
		match_next(core, l->last, prompt, &key);
		uint32_t node = index_find(core, l->last, &key);
		if (node == CORE_NONE || core->nodes[node].state == NODE_COLD)
			return;
		node_pin(core, node, l->session);
		l->last = node;
		slept = slept || builder_sleeps(core, node);
		if (!slept)
			l->build_from = core->nodes[node].depth;
	}
}

/* The cold nodes behind the path are its end, too. */
static void match_cold(struct core *core, struct lease *l, const struct index_prompt *prompt)
{
	uint32_t blocks = prompt->token_count / prompt->page_tokens;
	struct index_key key;

	while (core->has_tiers && core->nodes[l->last].depth < blocks) {
		match_next(core, l->last, prompt, &key);
		uint32_t node = index_find(core, l->last, &key);
		if (node == CORE_NONE || core->nodes[node].state != NODE_COLD)
			return;
		node_pin(core, node, l->session);
		core->nodes[node].hits++;
		l->last = node;
	}
}

/* Building nodes for the rest of the full blocks, as far as the index has room. */
static void build(struct core *core, uint32_t lease, const struct index_prompt *prompt)
{
	struct lease *l = &core->leases[lease];
	uint32_t blocks = prompt->token_count / prompt->page_tokens;
	struct index_key key;

	while (core->nodes[l->last].depth < blocks && !l->private_only) {
		match_next(core, l->last, prompt, &key);
		uint32_t node = node_new(core, l->last, &key, 0);
		if (node == CORE_NONE) {
			l->private_only = true;
			return;
		}
		node_pin(core, node, l->session);
		core->nodes[node].builder = lease;
		l->last = node;
	}
}

/* What stands behind the last full block is kept: it begins a block that may be published. */
static void keep_rest(struct core *core, struct lease *l, const struct index_prompt *prompt)
{
	uint32_t block = prompt->token_count / prompt->page_tokens;
	uint32_t rest = prompt->token_count % prompt->page_tokens;
	struct index_key key;

	if (rest == 0 || l->private_only)
		return;
	index_block(prompt, block, &key);
	l->open_tokens = arena_alloc(core, prompt->page_tokens);
	if (key.extra_count > 0)
		l->open_extras = arena_alloc(core, key.extra_count * INDEX_EXTRA_WORDS);
	if (l->open_tokens == CORE_NONE || (key.extra_count > 0 && l->open_extras == CORE_NONE)) {
		l->private_only = true;
		return;
	}
	memcpy(arena_words(core, l->open_tokens), key.tokens, rest * sizeof(uint32_t));
	l->open_count = rest;
	l->open_extra_count = key.extra_count;
	if (key.extra_count > 0)
		memcpy(arena_words(core, l->open_extras), key.extras,
		       key.extra_count * INDEX_EXTRA_WORDS * sizeof(uint32_t));
}

static void count_tokens(struct core *core, const struct call *call, const struct lease *l,
			 uint32_t followed, uint32_t tail_tokens)
{
	struct session *s = &core->sessions[call->session];
	struct space *space = &core->spaces[s->space];
	uint32_t page_tokens = core->formats[l->format].page_tokens;
	uint64_t cached = (uint64_t)l->ready * page_tokens;

	s->prompt_tokens += l->token_count;
	s->cached_tokens += cached;
	space->prompt_tokens += l->token_count;
	space->cached_tokens += cached;
	core->counters[KVD_C_ACQUIRES]++;
	core->counters[KVD_C_PROMPT_TOKENS] += l->token_count;
	core->counters[KVD_C_CACHED_TOKENS] += cached;
	core->counters[KVD_C_FOLLOWED_TOKENS] += (uint64_t)followed * page_tokens;
	core->counters[KVD_C_TAIL_TOKENS] += tail_tokens;
}

/* What an ACQUIRE has found, beyond what its lease says. */
struct found {
	uint32_t warm;	 /* blocks that are sealed, or built by others who are awake */
	uint32_t cold;	 /* where the cold ones of the path begin */
	uint32_t loaded; /* and where those end that are to be loaded */
	uint32_t tail_tokens;
	uint64_t estimate_ns;
};

/*
 * The cold nodes of the path are loaded, or built by the lease. All are paid for by what is
 * promised to it.
 */
static void revive(struct core *core, struct call *call, uint32_t lease, const struct found *found)
{
	struct lease *l = &core->leases[lease];
	uint32_t end = BITS_MAX(found->loaded, found->cold);

	move_count(core, l->last, found->cold, end, found->estimate_ns);
	for (uint32_t n = l->last; core->nodes[n].depth > end; n = core->nodes[n].parent)
		node_revive(core, n, lease);
	if (end == found->cold)
		return;
	struct haul *h = machine_haul(
		core, haul_load(core, lease, node_at_depth(core, l->last, end), found->cold));
	h->for_request = true;
	h->estimate_ns = found->estimate_ns;
	uint64_t tokens = (uint64_t)(end - found->cold) * core->formats[l->format].page_tokens;
	core->sessions[call->session].cached_tokens += tokens;
	core->spaces[core->sessions[call->session].space].cached_tokens += tokens;
}

/* Admitted: takes the pages, makes the nodes, answers. */
static int admitted(struct core *core, struct call *call, uint32_t lease,
		    const struct index_prompt *prompt, const struct found *found)
{
	struct lease *l = &core->leases[lease];
	struct kvd_handle tail[KVD_PARTS_MAX];

	evict_used(core, node_at_depth(core, l->last, l->ready));
	if (found->tail_tokens > 0)
		evict_used_tail(core, l->tail);
	admit_promise(core, lease, l->blocks - found->warm);
	revive(core, call, lease, found);
	l->build_from = BITS_MAX(l->build_from, found->loaded);
	for (uint32_t b = l->build_from; b < l->blocks; b++)
		block_take(core, lease, b);
	follow_take_over(core, lease, l->build_from);
	build(core, lease, prompt);
	keep_rest(core, l, prompt);
	int rc = lease_enter(core, lease, call->session);
	ASSERT(rc == 0);
	follow_advance(core, lease);
	admit_spare(core, l->format);
	count_tokens(core, call, l, found->warm - l->ready, found->tail_tokens);
	if (found->tail_tokens > 0)
		copy_handles(core, &core->nodes[l->tail], core->formats[l->format].part_count,
			     tail);
	grant_fill(core, call, lease, 0, l->blocks, found->tail_tokens > 0 ? tail : NULL,
		   found->tail_tokens);
	return 0;
}

/* Pins what there is of the prompt; says what shall be loaded. */
static void find(struct core *core, uint32_t lease, const struct index_prompt *prompt,
		 struct found *out)
{
	struct lease *l = &core->leases[lease];

	*out = (struct found){0};
	if (l->no_hit)
		return;
	match_and_follow(core, l, prompt);
	out->warm = l->build_from;
	out->cold = core->nodes[l->last].depth;
	match_cold(core, l, prompt);
	bool cold = core->nodes[l->last].depth > out->cold;
	if (!cold && out->warm == l->ready)
		out->tail_tokens = tail_pin(core, lease, prompt, out->warm);
	if (cold && out->warm == out->cold && haul_room(core))
		out->loaded = move_plan(core, l->last, out->cold, &out->estimate_ns);
}

int acquire_run(struct core *core, struct call *call)
{
	const struct kvd_req *req = call->req;
	struct index_prompt prompt;
	struct found found;
	int rc = call_prompt(core, call, req->m, &prompt);

	if (rc < 0)
		return rc;
	if (core->draining || core->groups[core->sessions[call->session].group].ended)
		return KVD_DRAINING;
	uint64_t blocks = bits_div_ceil(req->n, prompt.page_tokens) + (uint64_t)req->arg32;
	if (admit_possible(core, req->format, blocks) < 0)
		return -E2BIG;
	if (!lease_room(core, call->session))
		return -ENOSPC;
	uint32_t lease = lease_new(core, call->session, req->format);
	struct lease *l = &core->leases[lease];
	l->no_hit = l->private_only = req->flags & KVD_ACQUIRE_NO_HIT;
	l->token_count = req->n;
	l->blocks = (uint32_t)blocks;
	find(core, lease, &prompt, &found);
	rc = admit_check(core, call, req->format, blocks - found.warm);
	if (rc == 0)
		return admitted(core, call, lease, &prompt, &found);
	lease_abandon(core, lease);
	return rc;
}

/* The cold node that ends the chain of the prompt behind `warm`, or `warm`. */
static uint32_t last_cold(const struct core *core, uint32_t warm, const struct index_prompt *prompt)
{
	uint32_t blocks = prompt->token_count / prompt->page_tokens;
	struct index_key key;
	uint32_t node = warm;

	while (core->nodes[node].depth < blocks) {
		match_next(core, node, prompt, &key);
		uint32_t next = index_find(core, node, &key);
		if (next == CORE_NONE || core->nodes[next].state != NODE_COLD)
			break;
		node = next;
	}
	return node;
}

/*
 * By way of a lease that lives for this step only: it pins the path, so that what is admitted does
 * not count on the pages of the path itself, and there is one way to pay for pages. False: there is
 * no memory.
 */
static bool prefetch(struct core *core, struct call *call, uint32_t first, uint32_t end)
{
	uint32_t lease = lease_new(core, call->session, call->req->format);
	struct lease *l = &core->leases[lease];
	uint32_t blocks = core->nodes[end].depth - first;

	l->last = end;
	l->ready = first;
	for (uint32_t n = end; n != l->format; n = core->nodes[n].parent)
		node_pin(core, n, l->session);
	bool admitted = admit_check(core, call, l->format, blocks) == 0;
	if (admitted) {
		admit_promise(core, lease, blocks);
		haul_load(core, lease, end, first);
	}
	lease_abandon(core, lease);
	return admitted;
}

int acquire_prefetch(struct core *core, struct call *call)
{
	struct index_prompt prompt;
	uint64_t estimate_ns;
	int rc = call_prompt(core, call, call->req->m, &prompt);

	if (rc < 0)
		return rc;
	uint32_t warm = match_sealed(core, call->req->format, &prompt);
	uint32_t first = core->nodes[warm].depth;
	call->rep.at.cached_tokens = first * prompt.page_tokens;
	uint32_t cold = last_cold(core, warm, &prompt);
	if (cold == warm || core->draining || !haul_room(core) || !lease_room(core, call->session))
		return 0;
	uint32_t end = move_plan(core, cold, first, &estimate_ns);
	if (end > first && prefetch(core, call, first, node_at_depth(core, cold, end)))
		call->rep.aux = (uint64_t)(end - first) * prompt.page_tokens;
	return 0;
}
