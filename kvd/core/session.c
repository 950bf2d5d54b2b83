/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions, groups, processes.
 *
 * Invariants: a session number is free again when its leases are. The death of one rank ends its
 * group: the leases of the others are revoked, nobody joins, and the group's magazine stays as it
 * is until the last session of it has gone, since any of them may still write there; then it goes
 * to the quarantine of the rank that broke. A process record lives while anything may come into
 * its quarantine. held_bytes of a session = open and private pages of its leases and the pinned
 * nodes that it is charged for. The core's thread only.
 */
#include "kvd/core/session.h"

#include "kvd/core/copy.h"
#include "kvd/core/lease.h"
#include "kvd/core/magazine.h"
#include "kvd/core/pool.h"
#include "kvd/core/turnover.h"
#include "kvd/core/wait.h"

#include <errno.h>
#include <string.h>

bool session_valid(const struct core *core, uint32_t session)
{
	return session < core->cfg.sessions_max && core->sessions[session].open;
}

static uint32_t free_session(const struct core *core)
{
	for (uint32_t s = 0; s < core->cfg.sessions_max; s++)
		if (!core->sessions[s].open && !core->sessions[s].closing)
			return s;
	return CORE_NONE;
}

/* --- processes ------------------------------------------------------------------------------ */

static uint32_t find_process(const struct core *core, uint64_t id)
{
	for (uint32_t p = 0; p < core->processes_max && id != 0; p++)
		if (core->processes[p].id == id)
			return p;
	return CORE_NONE;
}

static uint32_t get_process(struct core *core, uint64_t id)
{
	uint32_t found = find_process(core, id);

	for (uint32_t p = 0; p < core->processes_max && found == CORE_NONE; p++)
		if (core->processes[p].id == 0) {
			core->processes[p] = (struct process){.id = id};
			pool_list_init(&core->processes[p].quarantine);
			found = p;
		}
	return found;
}

void session_process_get(struct core *core, uint32_t process)
{
	core->processes[process].users++;
}

/* The record ends when nothing refers to it and nothing is in its quarantine. */
static void end_process(struct core *core, uint32_t process)
{
	struct process *p = &core->processes[process];

	if (p->users > 0 || p->quarantine.count > 0 || p->id == 0)
		return;
	if (p->dead)
		turnover_process_end(core, process);
	else if (turnover_process_imports(core, process))
		return;
	p->id = 0;
}

void session_process_put(struct core *core, uint32_t process)
{
	if (core->processes[process].users > 0)
		core->processes[process].users--;
	end_process(core, process);
}

void session_process_settle(struct core *core)
{
	for (uint32_t i = 0; i < core->processes_max && core->budget > 0; i++) {
		struct process *p = &core->processes[i];
		if (p->id == 0 || (!p->dead && !p->quiesced))
			continue;
		copy_release_quarantine(core, i);
		if (p->quarantine.count == 0) {
			p->quiesced = false;
			end_process(core, i);
		}
	}
}

bool session_process_busy(const struct core *core)
{
	for (uint32_t i = 0; i < core->processes_max; i++) {
		const struct process *p = &core->processes[i];
		if (p->id != 0 && (p->dead || p->quiesced) && p->quarantine.count > 0)
			return true;
	}
	return false;
}

void session_process_quiet(struct core *core, uint64_t process, bool dead)
{
	uint32_t p = find_process(core, process);

	if (p == CORE_NONE)
		return;
	core->processes[p].dead |= dead;
	core->processes[p].quiesced = true;
	turnover_process_end(core, p);
	session_process_settle(core);
}

/* --- groups --------------------------------------------------------------------------------- */

static uint32_t join_group(struct core *core, uint64_t id, uint32_t space)
{
	for (uint32_t g = 0; g < core->cfg.sessions_max; g++)
		if (id != 0 && core->groups[g].id == id && core->groups[g].space == space &&
		    !core->groups[g].ended)
			return g;
	return CORE_NONE;
}

static uint32_t new_group(struct core *core, uint32_t space)
{
	uint32_t g = 0;

	while (core->groups[g].id != 0)
		g++;
	ASSERT(g < core->cfg.sessions_max);
	core->groups[g] =
		(struct group){.id = ++core->group_seq, .space = space, .broken = CORE_NONE};
	pool_list_init(&core->groups[g].magazine);
	return g;
}

/* A rank died: the leases of the others are of no use any more. */
static void end_group(struct core *core, uint32_t group, uint32_t process)
{
	struct group *g = &core->groups[group];

	if (g->ended)
		return;
	g->ended = true;
	g->broken = process;
	session_process_get(core, process);
	for (uint32_t s = 0; s < core->cfg.sessions_max; s++) {
		if (!core->sessions[s].open || core->sessions[s].group != group)
			continue;
		for (uint32_t l = core->sessions[s].leases; l != CORE_NONE;
		     l = core->leases[l].next)
			lease_revoke(core, l);
	}
}

static void leave_group(struct core *core, uint32_t session, bool at_once)
{
	uint32_t group = core->sessions[session].group;
	struct group *g = &core->groups[group];

	if (!at_once)
		end_group(core, group, core->sessions[session].process);
	if (--g->sessions > 0)
		return;
	magazine_end(core, group, g->broken);
	if (g->broken != CORE_NONE)
		session_process_put(core, g->broken);
	g->id = 0;
}

/* --- open and close ------------------------------------------------------------------------- */

static void fill(struct core *core, uint32_t session, const struct core_session_args *args)
{
	struct session *s = &core->sessions[session];

	*s = (struct session){
		.open = true,
		.admin = args->admin,
		.space = args->space,
		.pid = args->pid,
		.uid = args->uid,
		.leases_max = BITS_MIN(BITS_MAX(args->leases_max, 1), core->rows_max),
		.waiting_max = args->waiting_max,
		.rows_used = 1,
		.free_row = CORE_NONE,
		.leases = CORE_NONE,
		.since_ns = core->now_ns,
		.last_request_ns = core->now_ns,
	};
	s->row.draining = core->draining;
	for (size_t i = 0; args->name && args->name[i] && i + 1 < sizeof(s->name); i++)
		s->name[i] = args->name[i] >= ' ' && args->name[i] <= '~' ? args->name[i] : '?';
}

int session_open(struct core *core, const struct core_session_args *args)
{
	uint32_t session = free_session(core);
	uint32_t group = CORE_NONE;

	if (args->space >= core->space_count)
		return -ENOENT;
	if (args->group != 0) {
		group = join_group(core, args->group, args->space);
		if (group == CORE_NONE)
			return -ENOENT;
	}
	if (session == CORE_NONE)
		return -EUSERS;
	if (args->quiesced)
		session_process_quiet(core, args->process, false);
	uint32_t process = get_process(core, args->process);
	if (process == CORE_NONE)
		return -EUSERS;
	if (group == CORE_NONE)
		group = new_group(core, args->space);
	fill(core, session, args);
	core->sessions[session].group = group;
	core->sessions[session].process = process;
	core->groups[group].sessions++;
	core->spaces[args->space].sessions++;
	session_process_get(core, process);
	session_show_row(core, session);
	return (int)session;
}

void session_close(struct core *core, uint32_t session, bool at_once)
{
	struct session *s = &core->sessions[session];

	s->open = false;
	s->closing = true;
	s->at_once = at_once;
	if (!at_once) {
		core->counters[KVD_C_SESSION_DEATHS]++;
		core->processes[s->process].quiesced = false;
	}
	wait_drop_session(core, session);
	while (s->leases != CORE_NONE)
		lease_end(core, s->leases, at_once);
	leave_group(core, session, at_once);
	turnover_session_end(core, session, at_once || core->processes[s->process].dead);
	core->spaces[s->space].sessions--;
	session_finish(core, session);
}

void session_finish(struct core *core, uint32_t session)
{
	struct session *s = &core->sessions[session];

	if (!s->closing || s->ending > 0)
		return;
	s->closing = false;
	session_process_put(core, s->process);
}

/* --- what a session holds ------------------------------------------------------------------- */

static void charge(struct core *core, uint32_t session, uint64_t bytes, int sign)
{
	core->sessions[session].held_bytes += sign > 0 ? bytes : 0 - bytes;
	core->retry |= sign < 0;
}

void session_charge_open(struct core *core, uint32_t session, uint32_t page, int sign)
{
	if (session == CORE_NONE)
		return;
	core->sessions[session].open_pages += (uint32_t)sign;
	charge(core, session, machine_stride(core, page), sign);
}

void session_charge_private(struct core *core, uint32_t session, uint32_t page, int sign)
{
	if (session == CORE_NONE)
		return;
	core->sessions[session].private_pages += (uint32_t)sign;
	charge(core, session, machine_stride(core, page), sign);
}

void session_charge_pinned(struct core *core, uint32_t session, const struct format *format,
			   int blocks)
{
	core->sessions[session].pinned_pages += (uint32_t)blocks * format->part_count;
	charge(core, session, format->block_bytes, blocks);
}

uint64_t session_share_bytes(const struct core *core)
{
	return core->pool_bytes / 1000 * core->cfg.session_share_permille +
	       core->pool_bytes % 1000 * core->cfg.session_share_permille / 1000;
}

void session_show_row(struct core *core, uint32_t session)
{
	const struct session *s = &core->sessions[session];

	if (s->open && !s->admin)
		core->ops.session_row(core->ctx, session, &s->row);
}
