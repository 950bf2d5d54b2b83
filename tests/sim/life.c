/* SPDX-License-Identifier: Apache-2.0 */
/*
 * life.c: how processes begin and end.
 *
 * A process that broke keeps writing to every page that it had open, until it is proven dead or
 * says, in a new HELLO, that it has stopped. Its models are gone at once; what they held must be
 * kept from everybody else by the core.
 */
#include "tests/sim/life.h"

#include "tests/sim/coverage.h"
#include "tests/sim/memory.h"
#include "tests/sim/model.h"
#include "tests/sim/report.h"
#include "tests/sim/wire.h"

#include <errno.h>
#include <string.h>

static int life_process_new(struct sim *sim)
{
	for (int i = 0; i < (int)SIM_PROCESSES_MAX; i++) {
		struct sim_process *process = &sim->process[i];
		if (process->used)
			continue;
		*process = (struct sim_process){.used = true, .id = ++sim->next_process};
		return i;
	}
	return SIM_NONE;
}

/* A process that lost its session and lives on, or a new one. */
static int life_process(struct sim *sim)
{
	for (int i = 0; i < (int)SIM_PROCESSES_MAX; i++)
		if (sim->process[i].used && random_percent(&sim->random, 20))
			return i;
	return life_process_new(sim);
}

static int life_group(struct sim *sim, uint64_t id, uint32_t space)
{
	int found = SIM_NONE;

	for (int i = 0; i < (int)SIM_GROUPS_MAX; i++) {
		if (sim->group[i].used && sim->group[i].id == id)
			return i;
		if (!sim->group[i].used)
			found = i;
	}
	REPORT_REQUIRE(sim, found != SIM_NONE, "more groups than sessions");
	memset(&sim->group[found], 0, sizeof(sim->group[found]));
	sim->group[found] = (struct sim_group){.used = true, .id = id, .space = space};
	return found;
}

static int life_slot(struct sim *sim)
{
	for (int i = 0; i < (int)SIM_SESSIONS_MAX; i++)
		if (!sim->session[i].open && !sim->session[i].closing)
			return i;
	return SIM_NONE;
}

static int life_start(struct sim *sim, const struct core_session_args *args, int process)
{
	int slot = life_slot(sim);
	struct sim_session *s = &sim->session[slot];

	memset(s, 0, sizeof(*s));
	*s = (struct sim_session){.process = process, .group = SIM_NONE, .space = args->space};
	sim->opening = slot;
	int number = core_session_open(sim->core, args, sim->now_ns);
	sim->opening = SIM_NONE;
	report_trace(sim, "session %d: open, space %u process %d group %llu%s: %d", slot,
		     args->space, process, (unsigned long long)args->group,
		     args->quiesced ? " quiesced" : "", number);
	coverage_session(number < 0 ? number : 0);
	REPORT_REQUIRE(sim, number >= 0 || number == -EUSERS || number == -ENOENT,
		       "a session is refused with %d", number);
	if (number < 0)
		return SIM_NONE;
	REPORT_REQUIRE(sim, number < (int)SIM_NUMBERS_MAX && sim->by_number[number] == SIM_NONE,
		       "session number %d is in use", number);
	s->open = true;
	s->number = (uint32_t)number;
	s->admin = args->admin;
	sim->by_number[number] = slot;
	sim->process[process].sessions++;
	return slot;
}

static uint64_t life_group_to_join(struct sim *sim, uint32_t space)
{
	for (uint32_t i = 0; i < SIM_GROUPS_MAX; i++)
		if (sim->group[i].used && sim->group[i].space == space && sim->group[i].id &&
		    random_percent(&sim->random, 20))
			return sim->group[i].id;
	return random_percent(&sim->random, 8) ? 0xdeadull : 0;
}

static void life_count(struct sim *sim, int slot)
{
	struct sim_session *s = &sim->session[slot];

	s->group = life_group(sim, core_session_group(sim->core, s->number), s->space);
	sim->group[s->group].sessions++;
}

int life_open(struct sim *sim)
{
	int process = life_process(sim);

	if (process == SIM_NONE || life_slot(sim) == SIM_NONE)
		return SIM_NONE;
	struct sim_process *p = &sim->process[process];
	struct core_session_args args = {
		.space = random_percent(&sim->random, 70)
				 ? sim->hot_space
				 : random_below(&sim->random, sim->space_count - 1),
		.pid = 1000 + (uint32_t)process,
		.leases_max = random_range(&sim->random, 3, SIM_ROWS_MAX),
		.waiting_max = random_range(&sim->random, 1, 4),
		.process = p->id,
		.name = "sim",
	};
	args.group = life_group_to_join(sim, args.space);
	if (p->scribbles && random_percent(&sim->random, 60)) {
		args.quiesced = true;
		p->scribbles = 0;
		p->imports = 0;
		coverage_count("hello, quiesced");
	}
	int slot = life_start(sim, &args, process);
	if (slot == SIM_NONE)
		return SIM_NONE;
	sim->session[slot].deaf = random_percent(&sim->random, 20);
	life_count(sim, slot);
	return slot;
}

int life_open_admin(struct sim *sim)
{
	int process = life_slot(sim) == SIM_NONE ? SIM_NONE : life_process_new(sim);
	struct core_session_args args = {.leases_max = 1, .waiting_max = 1, .admin = true};

	if (process == SIM_NONE)
		return SIM_NONE;
	args.process = sim->process[process].id;
	args.name = "admin";
	return life_start(sim, &args, process);
}

int life_open_evil(struct sim *sim)
{
	int process = life_slot(sim) == SIM_NONE ? SIM_NONE : life_process_new(sim);
	struct core_session_args args = {.leases_max = SIM_ROWS_MAX, .waiting_max = 2};

	if (process == SIM_NONE)
		return SIM_NONE;
	args.space = sim->space_count - 1;
	args.process = sim->process[process].id;
	args.name = "evil\n\x01%s";
	int slot = life_start(sim, &args, process);
	if (slot != SIM_NONE) {
		sim->session[slot].evil = true;
		sim->session[slot].deaf = true;
		life_count(sim, slot);
	}
	return slot;
}

/* The pages of the group's magazine, by bit. */
static uint64_t life_magazine(const struct sim *sim, const struct sim_group *group)
{
	uint64_t pages = 0;

	for (uint32_t f = 0; f < SIM_FORMATS_MAX; f++)
		for (uint32_t i = 0; i < group->count[f]; i++)
			for (uint32_t part = 0; part < sim->format[f].parts; part++)
				pages |= 1ull << group->block[f][i].page[part].page;
	return pages;
}

static void life_lose_magazine(struct sim *sim, struct sim_group *group)
{
	for (uint64_t pages = life_magazine(sim, group); pages; pages &= pages - 1)
		sim->page[__builtin_ctzll(pages)].writer = SIM_NONE;
	memset(group->count, 0, sizeof(group->count));
}

/*
 * A rank died. It may write to whatever the ranks of its group write: the leases of the others are
 * revoked, and what is in their open pages is not looked at any more. Returns those pages.
 */
static uint64_t life_end_group(struct sim *sim, int group)
{
	uint64_t pages = life_magazine(sim, &sim->group[group]);

	sim->group[group].id = 0;
	for (uint32_t i = 0; i < SIM_LEASES_MAX; i++) {
		struct sim_lease *lease = &sim->lease[i];
		if (!lease->used || lease->session == SIM_NONE ||
		    sim->session[lease->session].group != group)
			continue;
		coverage_count("lease, revoked");
		pages |= model_open_pages(sim, lease);
		if (lease->parent != SIM_NONE)
			lease->tail_tokens = 0;
		for (uint32_t b = 0; b < SIM_BLOCKS_MAX; b++)
			if (lease->block[b].state != SIM_BLOCK_READ)
				lease->block[b].written = 0;
	}
	return pages;
}

/* The models of the session end. Returns the pages that it could still write, by bit. */
static uint64_t life_lose(struct sim *sim, int session, bool broken)
{
	struct sim_session *s = &sim->session[session];
	uint64_t pages = 0;

	s->open = false;
	s->closing = true;
	sim->process[s->process].sessions--;
	for (int i = 0; i < (int)SIM_LEASES_MAX; i++) {
		if (!sim->lease[i].used || sim->lease[i].session != session)
			continue;
		if (broken)
			pages |= model_lose(sim, i);
		else
			model_drop(sim, i);
	}
	wire_forget(sim, session);
	if (s->group == SIM_NONE)
		return pages;
	struct sim_group *group = &sim->group[s->group];
	if (broken && group->id)
		pages |= life_end_group(sim, s->group);
	if (--group->sessions == 0) {
		life_lose_magazine(sim, group);
		group->used = false;
	}
	return pages;
}

void life_bye(struct sim *sim, int session)
{
	struct sim_session *s = &sim->session[session];
	struct sim_process *p = &sim->process[s->process];

	report_trace(sim, "session %d: bye", session);
	coverage_count("end, bye");
	life_lose(sim, session, false);
	core_session_close(sim->core, s->number, CORE_END_BYE, sim->now_ns);
	if (p->sessions == 0 && !p->scribbles && !p->imports)
		life_prove(sim, s->process);
}

void life_break(struct sim *sim, int session)
{
	struct sim_session *s = &sim->session[session];
	struct sim_process *p = &sim->process[s->process];

	report_trace(sim, "session %d: breaks", session);
	coverage_count("end, broken");
	uint64_t pages = life_lose(sim, session, true);
	if (!p->silent) {
		p->scribbles |= pages;
		p->imports |= s->imports;
	}
	core_session_close(sim->core, s->number, CORE_END_BROKEN, sim->now_ns);
}

void life_expel(struct sim *sim)
{
	for (int i = 0; i < (int)SIM_SESSIONS_MAX; i++) {
		if (!sim->session[i].open || !sim->session[i].expelled)
			continue;
		coverage_count("session, expelled");
		life_break(sim, i);
	}
}

static void life_hang_up(struct sim *sim, int process)
{
	for (int i = 0; i < (int)SIM_SESSIONS_MAX; i++)
		if (sim->session[i].open && sim->session[i].process == process)
			life_break(sim, i);
}

void life_prove(struct sim *sim, int process)
{
	struct sim_process *p = &sim->process[process];
	bool hangs_up = random_percent(&sim->random, 50);

	report_trace(sim, "process %d: dies%s", process, hangs_up ? "" : ", proof first");
	coverage_count(hangs_up ? "death, hang-up first" : "death, proof first");
	if (hangs_up)
		life_hang_up(sim, process);
	uint64_t id = p->id;
	p->scribbles = 0;
	p->imports = 0;
	p->silent = true;
	core_process_dead(sim->core, id, sim->now_ns);
	life_hang_up(sim, process);
	p->used = false;
}

void life_collect(struct sim *sim)
{
	for (uint32_t i = 0; i < SIM_SESSIONS_MAX; i++) {
		struct sim_session *s = &sim->session[i];
		if (!s->closing || core_session_busy(sim->core, s->number))
			continue;
		s->closing = false;
		sim->by_number[s->number] = SIM_NONE;
	}
}

void life_expire_tickets(struct sim *sim)
{
	for (uint32_t i = 0; i < SIM_TICKETS_MAX; i++) {
		struct sim_ticket *ticket = &sim->ticket[i];
		if (!ticket->used || ticket->expires_ns > sim->now_ns)
			continue;
		model_lose(sim, ticket->lease);
		ticket->used = false;
		coverage_count("ticket expired");
	}
}
