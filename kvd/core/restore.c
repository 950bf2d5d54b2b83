/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What outlives the daemon: formats and the blocks of the file tier, given back at start and told
 * to whoever writes a checkpoint.
 *
 * Nothing that is given back is trusted: a block is taken only if its parent is there and its key
 * is the hash that its tokens have under the namespace's seed. Its bytes are checked when they are
 * loaded, like all.
 *
 * A generation that any record names is not given again, not even if the record is refused: another
 * one that was refused with it, or lost, may have named that slot as its parent's, and comes back
 * with the next start. The core's thread only.
 */
#include "kvd/core/core.h"

#include "kvd/core/format.h"
#include "kvd/core/index.h"
#include "kvd/core/machine.h"
#include "kvd/core/node.h"
#include "kvd/core/rest.h"
#include "kvd/core/tier.h"

#include <errno.h>
#include <string.h>

#define RESTORE_GENERATION_MAX (UINT64_MAX / 2) /* so that it never wraps */

int core_restore_format(struct core *core, const char *space, const struct kvd_format_wire *wire,
			const char *description)
{
	uint32_t format;

	for (uint32_t s = 0; s < core->space_count; s++) {
		if (strcmp(core->spaces[s].name, space) != 0)
			continue;
		int rc = format_add(core, s, wire, description, &format);
		return rc < 0 ? rc : (int)format;
	}
	return -ENOENT;
}

void core_format_wire(const struct core *core, uint32_t format, char space[KVD_NAME_MAX],
		      struct kvd_format_wire *out, char *description)
{
	const struct format *f = &core->formats[format];

	memcpy(space, core->spaces[f->space].name, KVD_NAME_MAX);
	*out = (struct kvd_format_wire){.page_tokens = f->page_tokens, .part_count = f->part_count};
	memcpy(out->identity, f->identity, sizeof(out->identity));
	memcpy(out->layout, f->layout, sizeof(out->layout));
	memcpy(out->parts, f->parts, sizeof(out->parts));
	memset(description, 0, KVD_DESCRIPTION_MAX);
	memcpy(description, f->description, sizeof(f->description));
	out->description_bytes = (uint32_t)strlen(description) + 1;
}

/* The parent that the record means, or CORE_NONE. */
static uint32_t find_parent(const struct core *core, const struct core_record *r)
{
	uint64_t hash[2];

	if (r->depth == 1)
		return r->format;
	memcpy(hash, r->parent_key, sizeof(hash));
	return index_find_stored(core, r->format, hash, r->parent_generation);
}

/* Fills the key of the block, hash and all. False: it is none, or not the record's. */
static bool fill_key(const struct core *core, uint32_t parent, const struct core_record *r,
		     struct index_key *out)
{
	const struct format *f = &core->formats[r->format];

	if (r->token_count != f->page_tokens || r->extra_count > KVD_EXTRAS_PER_BLOCK)
		return false;
	*out = (struct index_key){
		.tokens = r->tokens, .token_count = r->token_count, .extra_count = r->extra_count};
	for (uint32_t i = 0; i < r->extra_count * INDEX_EXTRA_WORDS; i++)
		out->extras[i] = r->extras[i];
	index_hash(&core->spaces[f->space], core->nodes[parent].hash, out);
	return memcmp(out->hash, r->key, sizeof(r->key)) == 0;
}

int core_restore(struct core *core, const struct core_record *r)
{
	struct index_key key;

	if (!r->put || r->slot.tier != CORE_TIER_FILE || r->format >= core->format_count ||
	    r->slot.generation == 0 || r->slot.generation > RESTORE_GENERATION_MAX ||
	    r->slot.bytes != tier_slot_bytes(core, &core->formats[r->format]))
		return -EINVAL;
	if (!MUTANT(FORGET_GENERATION))
		core->generation = BITS_MAX(core->generation, r->slot.generation);
	uint32_t parent = find_parent(core, r);
	if (parent == CORE_NONE)
		return -ENOENT;
	if (core->nodes[parent].depth + 1 != r->depth || !fill_key(core, parent, r, &key))
		return -EINVAL;
	if (index_find(core, parent, &key) != CORE_NONE)
		return -EEXIST;
	uint32_t slot = tier_take_at(core, &r->slot);
	if (slot == CORE_NONE)
		return -EEXIST;
	uint32_t node = node_found(core, parent, &key, (uint8_t)BITS_MIN(r->uses, 255u));
	if (node == CORE_NONE) {
		tier_free(core, CORE_TIER_FILE, slot);
		return -ENOSPC;
	}
	rest_found(core, node, CORE_TIER_FILE, slot, r->slot.generation);
	return 0;
}

bool core_records(const struct core *core, uint32_t area, uint32_t *cursor, uint32_t count,
		  void (*out)(void *ctx, const struct core_record *record), void *ctx)
{
	struct core_record record;
	uint32_t end = core->has_tiers ? core->node_slots : 0;

	for (; *cursor < end && count > 0; ++*cursor, count--) {
		const struct node *n = &core->nodes[*cursor];
		if (n->state == NODE_FREE || n->state == NODE_ROOT ||
		    !rest_in(core, *cursor, CORE_TIER_FILE))
			continue;
		rest_record(core, *cursor, &record);
		if (record.slot.area == area)
			out(ctx, &record);
	}
	return *cursor < end;
}
