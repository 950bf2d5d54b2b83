/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions.
 *
 * Invariants: a session number is free again when its leases are. held_bytes of a session = open
 * and private pages of its leases and the pinned nodes that it is charged for, on each device. The
 * core's thread only.
 */
#include "kvd/core/session.h"

#include "kvd/core/group.h"
#include "kvd/core/lease.h"
#include "kvd/core/process.h"
#include "kvd/core/turnover.h"
#include "kvd/core/verify.h"
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
		.waiting_max = BITS_MIN(args->waiting_max, CORE_WAITERS_PER_SESSION),
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
	uint32_t group;

	if (args->space >= core->space_count)
		return -ENOENT;
	if (args->quiesced)
		process_quiet(core, args->process, false);
	if (session == CORE_NONE)
		return -EUSERS;
	uint32_t process = process_get(core, args->process, args->uid);
	if (process == CORE_NONE)
		return -EUSERS;
	int rc = group_join(core, args->group, args->space, args->uid, &group);
	if (rc < 0) {
		process_put(core, process);
		return rc;
	}
	fill(core, session, args);
	core->sessions[session].group = group;
	core->sessions[session].process = process;
	core->spaces[args->space].sessions++;
	session_show_row(core, session);
	return (int)session;
}

void session_close(struct core *core, uint32_t session, bool at_once)
{
	struct session *s = &core->sessions[session];

	s->open = false;
	s->closing = true;
	s->ending++; /* this function: leases that end here must not finish the session */
	wait_drop_session(core, session);
	verify_drop_session(core, session);
	if (!at_once) {
		core->counters[KVD_C_SESSION_DEATHS]++;
		group_break(core, s->group, s->process);
	}
	while (s->leases != CORE_NONE)
		lease_end(core, s->leases);
	group_leave(core, s->group);
	turnover_session_end(core, session, at_once || core->processes[s->process].dead);
	core->spaces[s->space].sessions--;
	s->ending--;
	session_finish(core, session);
}

void session_finish(struct core *core, uint32_t session)
{
	struct session *s = &core->sessions[session];

	if (!s->closing || s->ending > 0)
		return;
	s->closing = false;
	process_put(core, s->process);
}

/* --- what a session holds ------------------------------------------------------------------- */

static void charge(struct core *core, uint32_t session, uint32_t device, uint64_t bytes, int sign)
{
	core->sessions[session].held_bytes[device] += sign > 0 ? bytes : 0 - bytes;
	if (sign < 0)
		machine_wake(core, device);
}

void session_charge_open(struct core *core, uint32_t session, uint32_t page, int sign)
{
	if (session == CORE_NONE)
		return;
	core->sessions[session].open_pages += (uint32_t)sign;
	charge(core, session, machine_device(core, page), machine_stride(core, page), sign);
}

void session_charge_private(struct core *core, uint32_t session, uint32_t page, int sign)
{
	if (session == CORE_NONE)
		return;
	core->sessions[session].private_pages += (uint32_t)sign;
	charge(core, session, machine_device(core, page), machine_stride(core, page), sign);
}

void session_charge_pinned(struct core *core, uint32_t session, const struct format *format,
			   int blocks)
{
	core->sessions[session].pinned_pages += (uint32_t)blocks * format->part_count;
	for (uint32_t d = 0; d < core->cfg.device_count; d++)
		if (format->devices >> d & 1)
			charge(core, session, d, format->device_bytes[d], blocks);
}

uint64_t session_share_bytes(const struct core *core, uint32_t device)
{
	uint64_t pool = core->cfg.pool_bytes[device];

	return pool / 1000 * core->cfg.session_share_permille +
	       pool % 1000 * core->cfg.session_share_permille / 1000;
}

void session_show_row(struct core *core, uint32_t session)
{
	const struct session *s = &core->sessions[session];

	if (s->open && !s->admin)
		core->ops.session_row(core->ctx, session, &s->row);
}

void core_session_show(struct core *core, uint32_t session)
{
	session_show_row(core, session);
}
