/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespaces: names, access secrets, floors and ceilings.
 *
 * Invariants: names are unique. The secret is compared in a time that depends on its length alone.
 * Floor and ceiling are divided among the devices as the pools' sizes are, and a floor's part is
 * rounded down to whole slabs: less than a slab cannot be kept for anybody. The core's thread only.
 */
#include "kvd/core/space.h"

#include "kvd/core/bank.h"
#include "kvd/core/index.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int find_name(const struct core *core, const char *name)
{
	for (uint32_t s = 0; s < core->space_count; s++)
		if (strcmp(core->spaces[s].name, name) == 0)
			return (int)s;
	return -ENOENT;
}

static void divide(struct core *core, struct space *s, const struct core_space_args *args)
{
	bool usual = args->floor_bytes == UINT64_MAX;
	uint64_t all = core_pool_bytes(&core->cfg);

	s->ceiling_bytes = args->ceiling_bytes ? args->ceiling_bytes : all;
	for (uint32_t d = 0; d < core->cfg.device_count; d++) {
		uint64_t floor = bank_part(core, d, args->floor_bytes);
		s->on[d].floor_bytes = usual ? UINT64_MAX : floor;
		s->on[d].ceiling_bytes = bank_part(core, d, s->ceiling_bytes);
	}
}

int space_add(struct core *core, const struct core_space_args *args)
{
	if (!args->name || args->name[0] == '\0' || strlen(args->name) >= KVD_NAME_MAX ||
	    args->secret_bytes > sizeof(args->secret))
		return -EINVAL;
	if (find_name(core, args->name) >= 0)
		return -EEXIST;
	if (core->space_count == core->cfg.spaces_max)
		return -ENOSPC;
	struct space *s = &core->spaces[core->space_count];
	snprintf(s->name, sizeof(s->name), "%s", args->name);
	memcpy(s->access, args->secret, args->secret_bytes);
	s->access_bytes = args->secret_bytes;
	index_seed(s, args->key_seed);
	divide(core, s, args);
	return (int)core->space_count++;
}

int space_find(const struct core *core, const char *name, const uint8_t *secret,
	       uint32_t secret_bytes)
{
	int found = find_name(core, name[0] ? name : "default");
	uint8_t differs = 0;

	if (found < 0)
		return found;
	const struct space *s = &core->spaces[found];
	if (secret_bytes != s->access_bytes)
		return -EACCES;
	for (uint32_t i = 0; i < secret_bytes; i++)
		differs |= (uint8_t)(secret[i] ^ s->access[i]);
	return differs ? -EACCES : found;
}

uint64_t space_floor_bytes(const struct core *core, uint32_t space, uint32_t device)
{
	const struct space_part *part = &core->spaces[space].on[device];
	uint64_t slab = core->banks[device].slab_bytes_min;
	uint64_t floor = part->floor_bytes;

	if (floor == UINT64_MAX)
		floor = core->cfg.pool_bytes[device] / core->space_count / 2;
	floor = BITS_MIN(floor, part->ceiling_bytes);
	return floor / slab * slab;
}

uint32_t space_part(const struct core *core, uint32_t rows)
{
	return BITS_MAX(rows / core->space_count, 1);
}

uint64_t space_evictable_bytes(const struct core *core, uint32_t space, uint32_t device)
{
	uint64_t bytes = 0;

	for (uint32_t g = 0; g < core->geometry_count; g++)
		if (core->geometries[g].device == device)
			bytes += machine_shelf(core, space, g)->evictable *
				 core->geometries[g].stride_bytes;
	return bytes;
}

void space_stat(const struct core *core, uint32_t space, struct kvd_space_stat *out)
{
	const struct space *s = &core->spaces[space];

	*out = (struct kvd_space_stat){
		.space = space,
		.sessions = s->sessions,
		.nodes = s->nodes,
		.pages = s->used_pages,
		.ceiling_bytes = s->ceiling_bytes,
		.prompt_tokens = s->prompt_tokens,
		.cached_tokens = s->cached_tokens,
		.evicted_pages = s->evicted_pages,
		.refused_requests = s->refused_requests,
	};
	for (uint32_t d = 0; d < core->cfg.device_count; d++) {
		out->bytes += s->on[d].used_bytes;
		out->floor_bytes += space_floor_bytes(core, space, d);
	}
	memcpy(out->name, s->name, sizeof(out->name));
}
