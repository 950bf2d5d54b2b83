/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formats and geometries. A geometry is a page stride on a device and the slab that suits it;
 * formats of all namespaces share the list of geometries, never a slab.
 *
 * Invariants: formats and geometries are only ever added, by each namespace no more than its part.
 * A slab wastes at most 2 % where any size that fits the pool does. The core's thread only.
 */
#include "kvd/core/format.h"

#include "kvd/core/mutant.h"
#include "kvd/core/node.h"
#include "kvd/core/slab.h"
#include "kvd/core/space.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define FORMAT_PAGE_BYTES_MAX (1ull << 32)
#define FORMAT_WASTE_PARTS 50u

static bool wire_valid(const struct kvd_format_wire *wire)
{
	if (wire->page_tokens < 16 || wire->page_tokens > 128 || !bits_is_pow2(wire->page_tokens))
		return false;
	if (wire->part_count == 0 || wire->part_count > KVD_PARTS_MAX)
		return false;
	for (uint32_t i = 0; i < wire->part_count; i++) {
		const struct kvd_part_wire *p = &wire->parts[i];
		if (p->page_bytes == 0 || p->page_bytes > FORMAT_PAGE_BYTES_MAX || p->reserved)
			return false;
		if (!bits_is_pow2(p->align) || p->align > 4096)
			return false;
	}
	return true;
}

static bool devices_exist(const struct core *core, const struct kvd_format_wire *wire)
{
	for (uint32_t i = 0; i < wire->part_count; i++)
		if (wire->parts[i].device >= core->cfg.device_count)
			return false;
	return true;
}

static bool same_devices(const struct format *f, const struct kvd_format_wire *wire)
{
	for (uint32_t i = 0; i < wire->part_count; i++)
		if (f->parts[i].device != wire->parts[i].device)
			return false;
	return true;
}

static bool same_sizes(const struct format *f, const struct kvd_format_wire *wire)
{
	if (f->page_tokens != wire->page_tokens || f->part_count != wire->part_count)
		return false;
	for (uint32_t i = 0; i < wire->part_count; i++) {
		struct kvd_part_wire a = f->parts[i];
		struct kvd_part_wire b = wire->parts[i];
		a.device = b.device = 0;
		if (memcmp(&a, &b, sizeof(a)) != 0)
			return false;
	}
	return true;
}

/* The smallest slab that wastes little; the least wasteful one if none does. 0: not one page. */
static uint64_t slab_size(const struct core *core, uint64_t stride, uint32_t device)
{
	const struct bank *bank = &core->banks[device];
	uint64_t align = core->cfg.slab_align_bytes;
	uint64_t size = bits_align_up(BITS_MAX(bank->slab_bytes_min, stride), align);
	uint64_t best = 0;

	for (; size <= core->cfg.pool_bytes[device]; size += align) {
		if (size / stride > bank->end_page - bank->first_page)
			return best;
		if (size % stride * FORMAT_WASTE_PARTS <= size)
			return size;
		if (best == 0 || size % stride * best < best % stride * size)
			best = size;
	}
	return best;
}

/* Finds or makes the geometry. */
static int geometry_add(struct core *core, uint32_t space, uint64_t stride, uint32_t device,
			uint32_t *out)
{
	uint32_t own = 0;

	for (uint32_t g = 0; g < core->geometry_count; g++) {
		if (core->geometries[g].stride_bytes == stride &&
		    core->geometries[g].device == device) {
			*out = g;
			return 0;
		}
		own += core->geometries[g].space == space;
	}
	if (core->geometry_count == core->cfg.geometries_max ||
	    own >= space_part(core, core->cfg.geometries_max))
		return -ENOSPC;
	uint64_t size = slab_size(core, stride, device);
	if (size == 0)
		return -E2BIG;
	core->geometries[core->geometry_count] = (struct geometry){
		.stride_bytes = stride,
		.slab_bytes = size,
		.page_count = (uint32_t)(size / stride),
		.device = device,
		.space = space,
	};
	*out = core->geometry_count++;
	return 0;
}

static void copy_text(char *out, size_t size, const char *text, size_t text_bytes)
{
	size_t i = 0;

	for (; i < text_bytes && text[i] && i + 1 < size; i++)
		out[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
	out[i] = '\0';
}

static int format_new(struct core *core, uint32_t space, const struct kvd_format_wire *wire,
		      const char *description)
{
	struct format *f = &core->formats[core->format_count];
	uint32_t geometries = core->geometry_count;

	*f = (struct format){
		.space = space, .page_tokens = wire->page_tokens, .part_count = wire->part_count};
	for (uint32_t i = 0; i < wire->part_count; i++) {
		uint64_t stride = bits_align_up(
			wire->parts[i].page_bytes,
			BITS_MAX(core->cfg.page_align_bytes, (uint64_t)wire->parts[i].align));
		int rc = geometry_add(core, space, stride, wire->parts[i].device, &f->geometry[i]);
		if (rc < 0) {
			core->geometry_count = geometries;
			return rc;
		}
		f->block_bytes += stride;
		f->device_bytes[wire->parts[i].device] += stride;
		f->devices |= 1u << wire->parts[i].device;
	}
	memcpy(f->identity, wire->identity, sizeof(f->identity));
	memcpy(f->parts, wire->parts, sizeof(f->parts));
	copy_text(f->layout, sizeof(f->layout), wire->layout, sizeof(wire->layout));
	copy_text(f->description, sizeof(f->description), description ? description : "",
		  KVD_DESCRIPTION_MAX);
	node_root(core, core->format_count++);
	return 0;
}

int format_add(struct core *core, uint32_t space, const struct kvd_format_wire *wire,
	       const char *description, uint32_t *out_format)
{
	uint32_t own = 0;

	if (!wire_valid(wire))
		return -EINVAL;
	if (!devices_exist(core, wire))
		return -ENODEV;
	for (uint32_t i = 0; i < core->format_count; i++) {
		const struct format *f = &core->formats[i];
		own += f->space == space;
		if (f->space != space || memcmp(f->identity, wire->identity, 16) != 0)
			continue;
		if (!same_sizes(f, wire))
			return -EEXIST;
		if (!same_devices(f, wire))
			continue;
		*out_format = i;
		return 0;
	}
	if (core->format_count == core->cfg.formats_max ||
	    own >= space_part(core, core->cfg.formats_max))
		return -ENOSPC;
	int rc = format_new(core, space, wire, description);
	if (rc == 0)
		*out_format = core->format_count - 1;
	return rc;
}

bool format_valid(const struct core *core, uint32_t format, uint32_t space)
{
	return format < core->format_count &&
	       (core->formats[format].space == space || MUTANT(SKIP_SPACE));
}

void format_stat(const struct core *core, uint32_t format, struct kvd_format_stat *out)
{
	const struct format *f = &core->formats[format];

	*out = (struct kvd_format_stat){
		.format = format,
		.space = f->space,
		.page_tokens = f->page_tokens,
		.part_count = f->part_count,
		.block_bytes = f->block_bytes,
		.prefill_tokens_per_s = f->rate_tokens_per_s,
	};
	memcpy(out->identity, f->identity, sizeof(out->identity));
	memcpy(out->layout, f->layout, sizeof(out->layout));
	memcpy(out->description, f->description, sizeof(out->description));
}
