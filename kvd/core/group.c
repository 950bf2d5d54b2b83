/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups and their quarantine.
 *
 * Invariants: writers of a group are processes whose session in it broke and of which nothing is
 * proven yet. Pages are in quarantine while there are writers or ranks. The magazine of a group
 * that has ended stays as it is until the last rank has left, since any of them may still write
 * there. A group's record lives while anything refers to it. Ids can be guessed, and a rank that
 * breaks ends its group: only the user who made a group may join it. The core's thread only.
 */
#include "kvd/core/group.h"

#include "kvd/core/copy.h"
#include "kvd/core/lease.h"
#include "kvd/core/pool.h"
#include "kvd/core/process.h"
#include "kvd/core/topup.h"

#include <errno.h>

static uint32_t words(const struct core *core)
{
	return (core->processes_max + 63) / 64;
}

static uint64_t *writers(const struct core *core, uint32_t group)
{
	return core->group_writers + (size_t)group * words(core);
}

static bool is_writer(const struct core *core, uint32_t group, uint32_t process)
{
	return writers(core, group)[process / 64] >> (process % 64) & 1;
}

static bool has_writers(const struct core *core, uint32_t group)
{
	uint64_t any = 0;

	for (uint32_t i = 0; i < words(core); i++)
		any |= writers(core, group)[i];
	return any != 0;
}

/* One user gets at most half of them: each may hold memory until a process has died. */
static int group_new(struct core *core, uint32_t space, uint32_t uid, uint32_t *out_group)
{
	uint32_t found = CORE_NONE;
	uint32_t same = 0;

	for (uint32_t g = core->groups_max; g-- > 0;) {
		if (core->groups[g].id == 0)
			found = g;
		else
			same += core->groups[g].uid == uid;
	}
	if (found == CORE_NONE || same >= core->groups_max / 2)
		return -EUSERS;
	struct group *g = &core->groups[found];
	*g = (struct group){.id = ++core->group_seq, .space = space, .uid = uid, .sessions = 1};
	pool_list_init(&g->magazine);
	pool_list_init(&g->quarantine);
	*out_group = found;
	return 0;
}

int group_join(struct core *core, uint64_t id, uint32_t space, uint32_t uid, uint32_t *out_group)
{
	if (id == 0)
		return group_new(core, space, uid, out_group);
	for (uint32_t g = 0; g < core->groups_max; g++) {
		struct group *group = &core->groups[g];
		if (group->id != id || group->space != space || group->uid != uid || group->ended ||
		    group->sessions == 0)
			continue;
		group->sessions++;
		*out_group = g;
		return 0;
	}
	return -ENOENT;
}

void group_break(struct core *core, uint32_t group, uint32_t process)
{
	struct group *g = &core->groups[group];

	if (!core->processes[process].dead)
		writers(core, group)[process / 64] |= 1ull << (process % 64);
	if (g->ended)
		return;
	g->ended = true;
	for (uint32_t s = 0; s < core->cfg.sessions_max; s++) {
		if (!core->sessions[s].open || core->sessions[s].group != group)
			continue;
		for (uint32_t l = core->sessions[s].leases; l != CORE_NONE;
		     l = core->leases[l].next)
			lease_revoke(core, l);
	}
}

bool group_unsafe(const struct core *core, uint32_t group)
{
	return core->groups[group].ended &&
	       (core->groups[group].sessions > 0 || has_writers(core, group));
}

/* Its ranks have left, and what they had in their magazine is still to be taken back. */
static bool abandoned(const struct group *g)
{
	return g->id != 0 && g->sessions == 0 && g->magazine.count > 0;
}

static bool releasable(const struct core *core, uint32_t group)
{
	return core->groups[group].id != 0 && core->groups[group].quarantine.count > 0 &&
	       !group_unsafe(core, group);
}

/* Where no page is left to protect, it does not matter who may still write. */
static void end_if_unused(struct core *core, uint32_t group)
{
	struct group *g = &core->groups[group];

	if (g->sessions > 0 || g->users > 0 || g->quarantine.count > 0 || g->magazine.count > 0)
		return;
	g->id = 0;
	for (uint32_t p = 0; p < core->processes_max; p++)
		if (is_writer(core, group, p)) {
			writers(core, group)[p / 64] &= ~(1ull << (p % 64));
			process_settle(core, p);
		}
}

void group_leave(struct core *core, uint32_t group)
{
	struct group *g = &core->groups[group];

	if (--g->sessions > 0)
		return;
	core->abandoned_groups += g->magazine.count > 0;
	group_settle(core);
	end_if_unused(core, group);
}

void group_get(struct core *core, uint32_t group)
{
	core->groups[group].users++;
}

void group_put(struct core *core, uint32_t group)
{
	core->groups[group].users--;
	end_if_unused(core, group);
}

bool group_written_by(const struct core *core, uint32_t process)
{
	for (uint32_t g = 0; g < core->groups_max; g++)
		if (core->groups[g].id != 0 && is_writer(core, g, process))
			return true;
	return false;
}

void group_process_quiet(struct core *core, uint32_t process, bool quiesced)
{
	for (uint32_t g = 0; g < core->groups_max; g++) {
		if (core->groups[g].id == 0 || !is_writer(core, g, process))
			continue;
		writers(core, g)[process / 64] &= ~(1ull << (process % 64));
		core->groups[g].quiesced = quiesced;
		end_if_unused(core, g);
	}
	group_settle(core);
}

void group_settle(struct core *core)
{
	for (uint32_t g = 0; g < core->groups_max && core->budget > 0; g++) {
		bool left = abandoned(&core->groups[g]);
		if (left)
			topup_end(core, g);
		core->abandoned_groups -= left && core->groups[g].magazine.count == 0;
		if (releasable(core, g))
			copy_release_quarantine(core, g);
		else if (!left)
			continue;
		end_if_unused(core, g);
	}
}

bool group_busy(const struct core *core)
{
	if (core->abandoned_groups > 0)
		return true;
	/* Asked in every turn of the loop, and seldom true. */
	for (uint32_t g = 0; g < core->groups_max && core->pages_by_state[KVD_PAGE_QUARANTINE] > 0;
	     g++)
		if (releasable(core, g))
			return true;
	return false;
}
