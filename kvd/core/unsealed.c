/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The open block of a lease: tokens that kvd knows and no node holds.
 *
 * Invariants: open_count <= page_tokens. The open block stands right behind the path; a lease for
 * which that is not so any more is private_only, and keeps no tokens. token_count counts all that
 * were ever told, kept or not. The core's thread only.
 */
#include "kvd/core/unsealed.h"

#include "kvd/core/arena.h"

#include <errno.h>
#include <string.h>

#define UNSEALED_TOKENS_MAX (1u << 30)

int unsealed_room(const struct core *core, uint32_t lease, uint32_t token_count)
{
	uint64_t end = (uint64_t)core->leases[lease].token_count + token_count;

	return end <= UNSEALED_TOKENS_MAX ? 0 : -E2BIG;
}

uint32_t unsealed_fill(struct core *core, uint32_t lease, const uint32_t *tokens, uint32_t count)
{
	struct lease *l = &core->leases[lease];
	uint32_t page_tokens = core->formats[l->format].page_tokens;
	uint32_t take = BITS_MIN(count, page_tokens - l->open_count);

	if (l->private_only || take == 0)
		return 0;
	if (l->open_tokens == CORE_NONE)
		l->open_tokens = arena_alloc(core, page_tokens);
	if (l->open_tokens == CORE_NONE) {
		l->private_only = true;
		return 0;
	}
	memcpy(arena_words(core, l->open_tokens) + l->open_count, tokens, take * sizeof(*tokens));
	l->open_count += take;
	l->token_count += take;
	return take;
}

void unsealed_append(struct core *core, uint32_t lease, const uint32_t *tokens, uint32_t count)
{
	struct lease *l = &core->leases[lease];
	uint32_t taken = unsealed_fill(core, lease, tokens, count);

	l->token_count += count - taken;
	l->private_only |= taken < count;
}

bool unsealed_key(const struct core *core, uint32_t lease, uint32_t valid, struct index_key *out)
{
	const struct lease *l = &core->leases[lease];
	const struct format *format = &core->formats[l->format];

	if (l->private_only || l->open_count < valid || valid == 0)
		return false;
	out->tokens = arena_words(core, l->open_tokens);
	out->token_count = valid;
	out->extra_count = 0;
	for (uint32_t i = 0; i < l->open_extra_count; i++) {
		const uint32_t *extra = arena_words(core, l->open_extras) + i * INDEX_EXTRA_WORDS;
		if (extra[0] < valid)
			memcpy(out->extras + out->extra_count++ * INDEX_EXTRA_WORDS, extra,
			       INDEX_EXTRA_WORDS * sizeof(*extra));
	}
	index_hash(&core->spaces[format->space], core->nodes[l->last].hash, out);
	return true;
}

void unsealed_next(struct core *core, uint32_t lease)
{
	struct lease *l = &core->leases[lease];

	l->open_count = 0;
	l->open_extra_count = 0;
	arena_free(core, l->open_extras);
	l->open_extras = CORE_NONE;
}

bool unsealed_copy(struct core *core, uint32_t from, uint32_t to, uint32_t count)
{
	const struct lease *f = &core->leases[from];
	struct lease *t = &core->leases[to];
	uint32_t extras = 0;

	if (count == 0)
		return true;
	if (unsealed_fill(core, to, arena_words(core, f->open_tokens), count) < count)
		return false;
	while (extras < f->open_extra_count &&
	       arena_words(core, f->open_extras)[extras * INDEX_EXTRA_WORDS] < count)
		extras++;
	if (extras == 0)
		return true;
	t->open_extras = arena_alloc(core, extras * INDEX_EXTRA_WORDS);
	if (t->open_extras == CORE_NONE)
		return false;
	memcpy(arena_words(core, t->open_extras), arena_words(core, f->open_extras),
	       extras * INDEX_EXTRA_WORDS * sizeof(uint32_t));
	t->open_extra_count = extras;
	return true;
}
