/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Magazines.
 *
 * Invariants: magazine_bytes of a group is the sum of the strides in its list, for each device, and
 * at most the ceiling there. The magazine of a group whose rank died does not move until the group
 * is gone: nobody knows who still writes. The core's thread only.
 */
#include "kvd/core/topup.h"

#include "kvd/core/admit.h"
#include "kvd/core/block.h"
#include "kvd/core/call.h"
#include "kvd/core/copy.h"
#include "kvd/core/format.h"
#include "kvd/core/group.h"
#include "kvd/core/mutant.h"
#include "kvd/core/pool.h"
#include "kvd/core/session.h"

#include <errno.h>
#include <string.h>

static struct group *group_of(const struct core *core, uint32_t session)
{
	return &core->groups[core->sessions[session].group];
}

static uint64_t ceiling_bytes(const struct core *core, const struct format *format, uint32_t device)
{
	uint64_t bytes = core->cfg.pool_bytes[device] / 1000 * core->cfg.magazine_permille;

	return BITS_MAX(bytes, format->device_bytes[device]);
}

/*
 * The first device on which so many blocks are above the ceiling, beside what the group has there;
 * CORE_NONE: on none.
 */
static uint32_t above_ceiling(const struct core *core, const struct format *format,
			      const struct group *group, uint64_t blocks)
{
	for (uint32_t d = 0; d < core->cfg.device_count; d++) {
		uint64_t has = group ? group->magazine_bytes[d] : 0;
		if ((format->devices >> d & 1) &&
		    has + blocks * format->device_bytes[d] > ceiling_bytes(core, format, d))
			return d;
	}
	return CORE_NONE;
}

static void count_page(const struct core *core, struct group *group, uint32_t page, int sign)
{
	group->magazine_bytes[machine_device(core, page)] +=
		(uint64_t)(int64_t)sign * machine_stride(core, page);
}

/* Takes the checked blocks one by one into the group's list and the reply. */
static void take_blocks(struct core *core, struct group *group, const struct format *format,
			uint32_t blocks)
{
	for (uint32_t i = 0; i < blocks * format->part_count; i++) {
		uint32_t part = i % format->part_count;
		uint32_t page = admit_take_page(core, format, part, STATE_TOPUP);
		core->pages[page].owner = (uint32_t)(group - core->groups);
		core->pages[page].part = (uint8_t)part;
		pool_list_append(core, &group->magazine, page, PAGE_MAGAZINE);
		count_page(core, group, page, 1);
		core->handles[i] = pool_handle(core, page);
	}
}

int topup_run(struct core *core, struct call *call)
{
	const struct kvd_req *req = call->req;
	struct group *group = group_of(core, call->session);

	if (!format_valid(core, req->format, core->sessions[call->session].space) || req->n == 0)
		return -EINVAL;
	const struct format *format = &core->formats[req->format];
	uint64_t pages = (uint64_t)req->n * format->part_count;
	if (req->out_bytes / sizeof(struct kvd_handle) < pages || pages > core->handles_max)
		return -EINVAL;
	if (above_ceiling(core, format, NULL, req->n) != CORE_NONE ||
	    admit_possible(core, req->format, req->n) < 0)
		return -E2BIG;
	uint32_t above = above_ceiling(core, format, group, req->n);
	if (group->ended || above != CORE_NONE) {
		admit_refuse(core, call, req->format, req->n, above);
		return KVD_FULL;
	}
	int rc = admit_check(core, call, req->format, req->n);
	if (rc != 0)
		return rc;
	take_blocks(core, group, format, req->n);
	admit_spare(core, req->format);
	call->rep.out_bytes = (uint32_t)(pages * sizeof(struct kvd_handle));
	call->rep.at.handle_count = (uint32_t)pages;
	call->payload = core->handles;
	return 0;
}

/* A page of the group's magazine, by its handle. */
static int find_own(const struct core *core, uint32_t session, struct kvd_handle handle,
		    uint32_t *out_page)
{
	uint32_t page;
	int rc = pool_find(core, handle, core->sessions[session].space, &page);

	if (rc != 0)
		return rc;
	if (core->pages[page].list != PAGE_MAGAZINE ||
	    core->pages[page].owner != core->sessions[session].group)
		return KVD_STALE;
	*out_page = page;
	return 0;
}

int topup_find(const struct core *core, uint32_t session, struct kvd_handle handle,
	       const struct format *format, uint32_t part, uint32_t *out_page)
{
	uint32_t page;
	int rc = find_own(core, session, handle, &page);

	if (rc != 0)
		return rc;
	if (core->slabs[core->pages[page].slab].geometry != format->geometry[part])
		return KVD_STALE;
	*out_page = page;
	return 0;
}

static void leave_list(struct core *core, struct group *group, uint32_t page)
{
	pool_list_remove(core, &group->magazine, page);
	count_page(core, group, page, -1);
	core->pages[page].owner = CORE_NONE;
}

void topup_bind(struct core *core, uint32_t lease, uint32_t block, uint32_t part, uint32_t page)
{
	struct group *group = &core->groups[core->pages[page].owner];

	leave_list(core, group, page);
	if (MUTANT(STALE_TAG))
		count_page(core, group, page, 1);
	state_change(core, page, STATE_BIND);
	block_tag(core, lease, block, part, page);
	core->pages[page].shown = 1;
}

static void show_want_back(struct core *core, uint32_t session, uint32_t pages)
{
	struct session *s = &core->sessions[session];

	if (s->row.want_back_pages == pages)
		return;
	s->row.want_back_pages = pages;
	session_show_row(core, session);
}

int topup_return(struct core *core, struct call *call)
{
	const struct kvd_req *req = call->req;
	struct group *group = group_of(core, call->session);
	int rc = call_payload(core, call, (uint64_t)req->n * sizeof(struct kvd_handle));
	const struct kvd_handle *handles = (const void *)core->in;
	uint32_t page;

	if (rc < 0)
		return rc;
	/* Marked as shown: named once. A handle that comes twice is not the caller's any more. */
	for (uint32_t i = 0; i < req->n && rc == 0; i++) {
		rc = find_own(core, call->session, handles[i], &page);
		if (rc == 0 && core->pages[page].shown)
			rc = KVD_STALE;
		else if (rc == 0)
			core->pages[page].shown = 1;
	}
	for (uint32_t i = 0; i < req->n; i++) {
		if (find_own(core, call->session, handles[i], &page) != 0)
			continue;
		core->pages[page].shown = 0;
		if (rc != 0 || group->ended)
			continue;
		leave_list(core, group, page);
		pool_free(core, page, STATE_RETURN);
	}
	if (core->sessions[call->session].row.want_back_pages > 0)
		show_want_back(core, call->session, group->magazine.count);
	return rc;
}

void topup_end(struct core *core, uint32_t group)
{
	struct group *g = &core->groups[group];
	bool quiet = !group_unsafe(core, group) || MUTANT(FREE_QUARANTINE);
	uint32_t page;

	while ((page = g->magazine.head) != CORE_NONE && core->budget > 0) {
		core->budget--;
		leave_list(core, g, page);
		if (quiet)
			pool_free(core, page, STATE_RETURN);
		else
			copy_quarantine(core, page, group);
	}
}

static bool has_on(const struct group *group, uint32_t devices)
{
	uint64_t bytes = 0;

	for (; devices; devices &= devices - 1)
		bytes += group->magazine_bytes[__builtin_ctz(devices)];
	return bytes > 0;
}

void topup_want_back(struct core *core, uint32_t space, uint32_t devices)
{
	for (uint32_t s = 0; s < core->cfg.sessions_max; s++) {
		if (!core->sessions[s].open || core->sessions[s].space != space)
			continue;
		const struct group *group = group_of(core, s);
		if (devices == 0 || group->magazine.count == 0)
			show_want_back(core, s, 0);
		else if (has_on(group, devices))
			show_want_back(core, s, group->magazine.count);
	}
}
