/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PIN and UNPIN.
 *
 * Invariants: node.anchors counts the anchored nodes at and below it; anchored_bytes of a space is
 * the sum of the blocks with anchors. The core's thread only.
 */
#include "kvd/core/pin.h"

#include "kvd/core/call.h"
#include "kvd/core/match.h"
#include "kvd/core/node.h"

/* Bytes of the path that no PIN holds yet. */
static uint64_t new_bytes(const struct core *core, uint32_t node, uint64_t *out_blocks)
{
	const struct format *f = &core->formats[core->nodes[node].format];

	*out_blocks = 0;
	for (; core->nodes[node].state == NODE_SEALED; node = core->nodes[node].parent)
		*out_blocks += core->nodes[node].anchors == 0;
	return *out_blocks * f->block_bytes;
}

static void anchor(struct core *core, uint32_t node)
{
	const struct format *f = &core->formats[core->nodes[node].format];

	core->nodes[node].flags |= NODE_ANCHOR;
	for (uint32_t n = node; core->nodes[n].state == NODE_SEALED; n = core->nodes[n].parent) {
		if (core->nodes[n].anchors++ == 0)
			core->spaces[f->space].anchored_bytes += f->block_bytes;
		node_pin(core, n, CORE_NONE);
	}
}

static void unanchor(struct core *core, uint32_t node)
{
	const struct format *f = &core->formats[core->nodes[node].format];

	core->nodes[node].flags &= (uint8_t)~NODE_ANCHOR;
	for (uint32_t n = node; core->nodes[n].state == NODE_SEALED; n = core->nodes[n].parent) {
		if (--core->nodes[n].anchors == 0)
			core->spaces[f->space].anchored_bytes -= f->block_bytes;
		node_unpin(core, n, CORE_NONE);
	}
}

int pin_run(struct core *core, struct call *call)
{
	struct index_prompt prompt;
	uint64_t blocks;
	int rc = call_prompt(core, call, 0, &prompt);

	if (rc < 0)
		return rc;
	uint32_t node = match_sealed(core, call->req->format, &prompt);
	if (core->nodes[node].state != NODE_SEALED)
		return KVD_MISS;
	const struct format *f = &core->formats[call->req->format];
	const struct space *space = &core->spaces[f->space];
	if (space->anchored_bytes + new_bytes(core, node, &blocks) > space->ceiling_bytes / 4) {
		call->full = (struct kvd_rep_full){.needed_pages = blocks * f->part_count};
		return KVD_FULL;
	}
	if (!(core->nodes[node].flags & NODE_ANCHOR))
		anchor(core, node);
	call->rep.at.cached_tokens = core->nodes[node].depth * prompt.page_tokens;
	return 0;
}

int pin_undo(struct core *core, struct call *call)
{
	struct index_prompt prompt;
	int rc = call_prompt(core, call, 0, &prompt);

	if (rc < 0)
		return rc;
	uint32_t node = match_sealed(core, call->req->format, &prompt);
	while (core->nodes[node].state == NODE_SEALED && !(core->nodes[node].flags & NODE_ANCHOR))
		node = core->nodes[node].parent;
	if (core->nodes[node].state != NODE_SEALED)
		return KVD_MISS;
	call->rep.at.cached_tokens = core->nodes[node].depth * prompt.page_tokens;
	unanchor(core, node);
	return 0;
}
