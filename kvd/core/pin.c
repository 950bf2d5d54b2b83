/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PIN and UNPIN.
 *
 * Invariants: node.anchors counts the anchored nodes at and below it; anchored_bytes of a space on
 * a device is the sum of the blocks with anchors there. The core's thread only.
 */
#include "kvd/core/pin.h"

#include "kvd/core/call.h"
#include "kvd/core/match.h"
#include "kvd/core/node.h"

/* Blocks of the path that no PIN holds yet. */
static uint64_t new_blocks(const struct core *core, uint32_t node)
{
	uint64_t blocks = 0;

	for (; core->nodes[node].state == NODE_SEALED; node = core->nodes[node].parent)
		blocks += core->nodes[node].anchors == 0;
	return blocks;
}

/* A quarter of what the space may have, on each device. */
static bool too_many(const struct core *core, const struct format *f, uint64_t blocks)
{
	for (uint32_t d = 0; d < core->cfg.device_count; d++) {
		const struct space_part *part = &core->spaces[f->space].on[d];
		uint64_t bytes = part->anchored_bytes + blocks * f->device_bytes[d];
		if ((f->devices >> d & 1) && bytes > part->ceiling_bytes / 4)
			return true;
	}
	return false;
}

static void count_block(struct core *core, const struct format *f, int sign)
{
	for (uint32_t d = 0; d < core->cfg.device_count; d++)
		core->spaces[f->space].on[d].anchored_bytes +=
			(uint64_t)(int64_t)sign * f->device_bytes[d];
}

static void anchor(struct core *core, uint32_t node)
{
	const struct format *f = &core->formats[core->nodes[node].format];

	core->nodes[node].flags |= NODE_ANCHOR;
	for (uint32_t n = node; core->nodes[n].state == NODE_SEALED; n = core->nodes[n].parent) {
		if (core->nodes[n].anchors++ == 0)
			count_block(core, f, 1);
		node_pin(core, n, CORE_NONE);
	}
}

static void unanchor(struct core *core, uint32_t node)
{
	const struct format *f = &core->formats[core->nodes[node].format];

	core->nodes[node].flags &= (uint8_t)~NODE_ANCHOR;
	for (uint32_t n = node; core->nodes[n].state == NODE_SEALED; n = core->nodes[n].parent) {
		if (--core->nodes[n].anchors == 0)
			count_block(core, f, -1);
		node_unpin(core, n, CORE_NONE);
	}
}

int pin_run(struct core *core, struct call *call)
{
	struct index_prompt prompt;
	int rc = call_prompt(core, call, 0, &prompt);

	if (rc < 0)
		return rc;
	uint32_t node = match_sealed(core, call->req->format, &prompt);
	if (core->nodes[node].state != NODE_SEALED)
		return KVD_MISS;
	const struct format *f = &core->formats[call->req->format];
	uint64_t blocks = new_blocks(core, node);
	if (too_many(core, f, blocks)) {
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
