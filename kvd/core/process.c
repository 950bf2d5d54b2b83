/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes. Invariants: an id has at most one record. A process that is dead is in no group's set
 * of writers and imports nothing. The core's thread only.
 */
#include "kvd/core/process.h"

#include "kvd/core/group.h"
#include "kvd/core/turnover.h"

static uint32_t find(const struct core *core, uint64_t id)
{
	for (uint32_t p = 0; p < core->processes_max && id != 0; p++)
		if (core->processes[p].id == id)
			return p;
	return CORE_NONE;
}

/* One user gets at most half of the records. */
static uint32_t process_new(struct core *core, uint64_t id, uint32_t uid)
{
	uint32_t found = CORE_NONE;
	uint32_t same = 0;

	for (uint32_t p = core->processes_max; p-- > 0;) {
		if (core->processes[p].id == 0)
			found = p;
		else
			same += core->processes[p].uid == uid;
	}
	if (found == CORE_NONE || same >= core->processes_max / 2)
		return CORE_NONE;
	core->processes[found] = (struct process){.id = id, .uid = uid};
	return found;
}

uint32_t process_get(struct core *core, uint64_t id, uint32_t uid)
{
	uint32_t found = find(core, id);

	if (found == CORE_NONE)
		found = process_new(core, id, uid);
	if (found != CORE_NONE)
		core->processes[found].sessions++;
	return found;
}

void process_put(struct core *core, uint32_t process)
{
	core->processes[process].sessions--;
	process_settle(core, process);
}

void process_settle(struct core *core, uint32_t process)
{
	struct process *p = &core->processes[process];

	if (p->sessions == 0 && !group_written_by(core, process) &&
	    !turnover_process_imports(core, process))
		p->id = 0;
}

void process_quiet(struct core *core, uint64_t id, bool dead)
{
	uint32_t p = find(core, id);

	if (p == CORE_NONE)
		return;
	core->processes[p].dead |= dead;
	turnover_process_end(core, p);
	group_process_quiet(core, p, !dead);
	process_settle(core, p);
}
