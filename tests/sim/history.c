/* SPDX-License-Identifier: Apache-2.0 */
/*
 * history.c: what happens next, until the end.
 *
 * A step moves the clock a little, lets one party act, sometimes lets the shell call the core on
 * its own account, and then asks the oracle. With tiers the daemon dies now and then. At the end
 * everybody leaves, all dead are proven, the index is evicted, and nothing may be left.
 */
#include "tests/sim/history.h"

#include "tests/sim/act.h"
#include "tests/sim/coverage.h"
#include "tests/sim/hostile.h"
#include "tests/sim/journal.h"
#include "tests/sim/life.h"
#include "tests/sim/memory.h"
#include "tests/sim/model.h"
#include "tests/sim/oracle.h"
#include "tests/sim/orders.h"
#include "tests/sim/report.h"
#include "tests/sim/restart.h"
#include "tests/sim/tiers.h"
#include "tests/sim/wire.h"
#include "tests/sim/world.h"

#define HISTORY_TURNS_MAX 10000u

static int history_session(struct sim *sim, bool evil)
{
	uint32_t first = random_below(&sim->random, SIM_SESSIONS_MAX);

	for (uint32_t i = 0; i < SIM_SESSIONS_MAX; i++) {
		uint32_t s = (first + i) % SIM_SESSIONS_MAX;
		if (sim->session[s].open && !sim->session[s].admin && sim->session[s].evil == evil)
			return (int)s;
	}
	return SIM_NONE;
}

static int history_admin(struct sim *sim)
{
	for (uint32_t s = 0; s < SIM_SESSIONS_MAX; s++)
		if (sim->session[s].open && sim->session[s].admin)
			return (int)s;
	return life_open_admin(sim);
}

static int history_lease(struct sim *sim)
{
	uint32_t first = random_below(&sim->random, SIM_LEASES_MAX);

	for (uint32_t i = 0; i < SIM_LEASES_MAX; i++) {
		const struct sim_lease *lease = &sim->lease[(first + i) % SIM_LEASES_MAX];
		if (lease->used && !lease->moving && (lease->id || lease->pending != SIM_NONE))
			return (int)((first + i) % SIM_LEASES_MAX);
	}
	return SIM_NONE;
}

static void history_life(struct sim *sim)
{
	uint32_t choice = random_below(&sim->random, 100);
	int session = history_session(sim, random_percent(&sim->random, 10));
	uint32_t process = random_below(&sim->random, SIM_PROCESSES_MAX);

	if (choice < 55) {
		if (sim->with_evil && random_percent(&sim->random, 15))
			life_open_evil(sim);
		else
			life_open(sim);
	} else if (choice < 62 && session != SIM_NONE) {
		life_bye(sim, session);
	} else if (choice < 74 && session != SIM_NONE) {
		life_break(sim, session);
	} else if (choice < 97 && sim->process[process].used &&
		   (sim->process[process].sessions == 0 || random_percent(&sim->random, 10))) {
		life_prove(sim, (int)process);
	}
}

static void history_act(struct sim *sim)
{
	uint32_t choice = random_below(&sim->random, 100);
	int session = history_session(sim, false);
	int lease = history_lease(sim);
	int evil = sim->with_evil && choice >= 92 ? history_session(sim, true) : SIM_NONE;

	if (sim->draining && random_percent(&sim->random, sim->has_tiers ? 10 : 25) &&
	    history_admin(sim) != SIM_NONE)
		act_admin_drain(sim, history_admin(sim), false);
	else if (choice < 2 || session == SIM_NONE)
		history_life(sim);
	else if (sim->group[sim->session[session].group].id == 0 &&
		 random_percent(&sim->random, 30))
		life_bye(sim, session);
	else if (choice < 68 && lease != SIM_NONE)
		act_lease_step(sim, lease);
	else if (choice < 78)
		act_session_acquire(sim, session);
	else if (choice < 90)
		act_session_step(sim, session);
	else if (choice < 92 && history_admin(sim) != SIM_NONE)
		act_admin_step(sim, history_admin(sim));
	else if (evil != SIM_NONE)
		hostile_garbage(sim, evil);
	else
		hostile_wrong(sim, session);
}

static void history_clock(struct sim *sim)
{
	static const uint32_t steps_us[] = {0, 0, 1, 10, 100, 500, 1000, 1000, 3000, 20000};

	sim->now_ns += steps_us[random_below(&sim->random, 10)] * 1000ull;
	if (random_percent(&sim->random, 1))
		sim->now_ns += 200 * 1000000ull;
	life_expire_tickets(sim);
}

static void history_shell(struct sim *sim)
{
	orders_progress(sim, false);
	tiers_weather(sim);
	tiers_progress(sim, false);
	if (core_deadline_ns(sim->core) <= sim->now_ns || random_percent(&sim->random, 60))
		core_time(sim->core, sim->now_ns);
	life_expel(sim);
	for (int s = 0; s < (int)SIM_SESSIONS_MAX; s++)
		if (sim->session[s].open && random_percent(&sim->random, 20))
			orders_answer(sim, s);
	life_collect(sim);
	journal_step(sim);
}

/*
 * The core does all that it can do at once. False: it waits for slabs; true: nothing moves any
 * more, but what is late, and who waits for a block must know by now.
 */
static bool history_still(struct sim *sim, bool late)
{
	for (uint32_t i = 0; i < HISTORY_TURNS_MAX; i++) {
		for (uint32_t k = 0; k < HISTORY_TURNS_MAX && core_busy(sim->core); k++)
			core_time(sim->core, sim->now_ns);
		life_expel(sim);
		if (core_busy(sim->core) && orders_pending(sim))
			return false;
		REPORT_REQUIRE(sim, !core_busy(sim->core), "the core is busy without end");
		if (!tiers_pending(sim, late))
			return true;
		if (late)
			tiers_progress(sim, true);
		else
			tiers_settle(sim);
		core_time(sim->core, sim->now_ns);
		journal_step(sim);
	}
	report_fail(sim, "the core never has moved all");
}

static void history_quiet(struct sim *sim)
{
	if (!history_still(sim, false))
		return;
	oracle_step(sim);
	if (tiers_pending(sim, true))
		coverage_count("quiet, but for what is late");
	if (history_still(sim, true))
		coverage_count("quiet");
}

/* Lets the shell work until the core has nothing left to do. */
static void history_settle(struct sim *sim)
{
	for (uint32_t i = 0; i < HISTORY_TURNS_MAX; i++) {
		sim->now_ns += 100000;
		life_expire_tickets(sim);
		orders_progress(sim, true);
		tiers_progress(sim, true);
		journal_step(sim);
		core_time(sim->core, sim->now_ns);
		life_expel(sim);
		life_collect(sim);
		if (!core_busy(sim->core) && !orders_pending(sim) && !tiers_pending(sim, true))
			return;
	}
	report_fail(sim, "the core never comes to rest");
}

static void history_unpin(struct sim *sim)
{
	for (int i = 0; i < (int)SIM_PINS_MAX; i++)
		for (int s = 0; s < (int)SIM_SESSIONS_MAX && sim->pin[i].used; s++)
			if (sim->session[s].open && !sim->session[s].admin &&
			    sim->session[s].space == sim->pin[i].space)
				act_session_unpin(sim, s, i);
}

/* Pins outlive sessions: somebody must come once more to take them away. */
static void history_unpin_all(struct sim *sim)
{
	for (uint32_t i = 0; i < 1000; i++) {
		bool left = false;
		history_unpin(sim);
		for (uint32_t p = 0; p < SIM_PINS_MAX; p++)
			left |= sim->pin[p].used;
		if (!left)
			return;
		int s = life_open(sim);
		history_unpin(sim);
		if (s != SIM_NONE)
			life_bye(sim, s);
		history_settle(sim);
	}
	report_fail(sim, "no session to unpin with");
}

static void history_leave(struct sim *sim)
{
	for (int s = 0; s < (int)SIM_SESSIONS_MAX; s++) {
		if (!sim->session[s].open)
			continue;
		if (random_percent(&sim->random, 50))
			life_bye(sim, s);
		else
			life_break(sim, s);
	}
	for (int p = 0; p < (int)SIM_PROCESSES_MAX; p++)
		if (sim->process[p].used)
			life_prove(sim, p);
	history_settle(sim);
	sim->now_ns += 60 * 1000000000ull;
	life_expire_tickets(sim);
	history_settle(sim);
}

static void history_end(struct sim *sim)
{
	sim->ending = true;
	report_trace(sim, "the end");
	tiers_mend(sim);
	history_settle(sim);
	history_leave(sim);
	history_unpin_all(sim);
	int admin = life_open_admin(sim);
	REPORT_REQUIRE(sim, admin != SIM_NONE, "no session is left at the end");
	if (sim->draining)
		act_admin_drain(sim, admin, false);
	for (uint32_t i = 0; i < SIM_PAGES_MAX / 8; i++) {
		act_admin_evict(sim, admin, 8);
		history_settle(sim);
	}
	history_leave(sim);
	journal_check(sim);
	oracle_end(sim);
}

/* Most leases end, what they leave is stored, and its pages are wanted for something else. */
static void history_ebb(struct sim *sim)
{
	for (int i = 0; i < (int)SIM_LEASES_MAX; i++) {
		const struct sim_lease *lease = &sim->lease[i];
		if (lease->used && lease->id && !lease->moving && lease->pending == SIM_NONE &&
		    random_percent(&sim->depths, 70))
			act_lease_release(sim, i);
	}
	history_quiet(sim);
	int admin = history_admin(sim);
	if (admin != SIM_NONE)
		act_admin_evict(sim, admin, random_below(&sim->depths, SIM_PAGES_MAX));
}

/* The disks hang, and somebody reads all that is there: soon there is no transfer left. */
static void history_storm(struct sim *sim)
{
	int admin = history_admin(sim);

	for (uint32_t i = random_below(&sim->depths, 2); i < 2 && admin != SIM_NONE; i++)
		act_admin_verify(sim, admin);
	sim->storm = true;
	if (history_still(sim, false))
		coverage_count("storm");
	sim->storm = false;
	if (admin == SIM_NONE || !random_percent(&sim->depths, 30))
		return;
	coverage_count("storm, and who asked goes");
	life_break(sim, admin);
	life_collect(sim);
}

/* Sometimes all that moves comes to rest, and sometimes all ends. */
static void history_tiers(struct sim *sim)
{
	uint32_t choice = random_below(&sim->depths, 400);

	if (choice < 4)
		history_quiet(sim);
	else if (choice < 12)
		history_ebb(sim);
	else if (choice < 14)
		restart_now(sim);
	else if (choice < 16)
		history_storm(sim);
	if (choice < 16)
		oracle_step(sim);
}

uint64_t history_run(uint64_t seed, uint64_t steps, bool verbose, uint64_t *steps_done)
{
	static struct sim sim;

	report_watch(NULL);
	world_init(&sim, seed);
	sim.verbose = verbose;
	sim.with_evil = random_percent(&sim.random, 30);
	report_watch(&sim);
	for (sim.step = 0; sim.step < steps; sim.step++) {
		(*steps_done)++;
		history_clock(&sim);
		history_act(&sim);
		history_shell(&sim);
		memory_scribble(&sim);
		oracle_step(&sim);
		if (sim.has_tiers)
			history_tiers(&sim);
	}
	history_end(&sim);
	report_watch(NULL);
	world_fini(&sim);
	return sim.digest;
}
