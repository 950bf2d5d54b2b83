/* SPDX-License-Identifier: Apache-2.0 */
/* act_admin.c: what an operator asks and orders: LIST, CHECK, EVICT, DRAIN, VERIFY. */
#include "tests/sim/act.h"

#include "tests/sim/coverage.h"
#include "tests/sim/report.h"
#include "tests/sim/wire.h"

void act_admin_drain(struct sim *sim, int session, bool on)
{
	struct kvd_req req = {.op = KVD_OP_DRAIN, .arg32 = on};

	report_trace(sim, "admin %d: DRAIN %d", session, on);
	sim->draining = on;
	wire_send(sim, session, req, NULL, SIM_NONE, SIM_NONE);
}

void act_admin_evict(struct sim *sim, int session, uint64_t pages)
{
	struct kvd_req req = {.op = KVD_OP_EVICT, .arg64 = pages};

	req.flags = KVD_EVICT_ALL_SPACES;
	if (!sim->ending && random_percent(&sim->random, 50)) {
		req.flags = 0;
		req.lease = random_below(&sim->random, sim->space_count);
	}
	report_trace(sim, "admin %d: EVICT %u pages", session, (uint32_t)pages);
	wire_send(sim, session, req, NULL, SIM_NONE, SIM_NONE);
}

static void act_admin_list(struct sim *sim, int session)
{
	struct kvd_req req = {.op = KVD_OP_LIST, .out_bytes = SIM_OUT_MAX};

	req.arg32 = random_range(&sim->random, KVD_LIST_SESSIONS, KVD_LIST_SPACES);
	if (random_percent(&sim->random, 30))
		req.arg64 = random_below(&sim->random, 10);
	report_trace(sim, "admin %d: LIST %u from %u", session, req.arg32, (uint32_t)req.arg64);
	wire_send(sim, session, req, NULL, SIM_NONE, SIM_NONE);
}

void act_admin_verify(struct sim *sim, int session)
{
	struct kvd_req req = {.op = KVD_OP_VERIFY, .out_bytes = sizeof(struct kvd_verify)};
	bool asked = false;

	for (uint32_t i = 0; i < SIM_PENDING_MAX; i++)
		asked |= sim->pending[i].used && sim->pending[i].req.op == KVD_OP_VERIFY;
	if (!asked)
		sim->verify = (struct sim_verify){0};
	req.arg32 = random_percent(&sim->depths, 70) ? KVD_TIER_FILE : KVD_TIER_DRAM;
	if (random_percent(&sim->depths, 50))
		req.arg64 = random_below(&sim->depths, sim->config.nodes_max);
	if (random_percent(&sim->depths, 5))
		req.out_bytes = 8; /* too little room */
	report_trace(sim, "admin %d: VERIFY tier %u from %u", session, req.arg32,
		     (uint32_t)req.arg64);
	wire_send(sim, session, req, NULL, SIM_NONE, SIM_NONE);
}

void act_admin_step(struct sim *sim, int session)
{
	struct kvd_req check = {.op = KVD_OP_CHECK, .out_bytes = 512};
	uint32_t choice = random_below(&sim->random, 100);

	if (sim->has_tiers && random_percent(&sim->depths, 40)) {
		act_admin_verify(sim, session);
		return;
	}

	if (sim->draining && choice < 40)
		act_admin_drain(sim, session, false);
	else if (choice < 42)
		act_admin_drain(sim, session, true);
	else if (choice < 70)
		act_admin_evict(sim, session, random_below(&sim->random, 6));
	else if (choice < 90)
		act_admin_list(sim, session);
	else
		wire_send(sim, session, check, NULL, SIM_NONE, SIM_NONE);
}
