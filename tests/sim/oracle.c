/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oracle.c: the rules.
 *
 * They look at the core from outside: what the models know must be readable, who waits must be
 * answered in time, who follows must have somebody to follow. core_check() looks from inside.
 */
#include "tests/sim/oracle.h"

#include "tests/sim/memory.h"
#include "tests/sim/model.h"
#include "tests/sim/orders.h"
#include "tests/sim/prompt.h"
#include "tests/sim/report.h"
#include "tests/sim/tiers.h"

#include <base/bits.h>

/* Who may wait has a deadline, and is answered by then; who may not is answered at once. */
static void oracle_waiting(struct sim *sim)
{
	uint64_t first = UINT64_MAX;

	if (core_busy(sim->core))
		return;
	for (uint32_t i = 0; i < SIM_PENDING_MAX; i++) {
		const struct sim_pending *p = &sim->pending[i];
		if (!p->used)
			continue;
		if (p->req.op == KVD_OP_VERIFY) {
			REPORT_REQUIRE(sim, tiers_pending(sim, false),
				       "VERIFY is not answered, and nothing moves");
			continue;
		}
		REPORT_REQUIRE(sim, p->due_ns > sim->now_ns || orders_pending(sim),
			       "no reply to op %u #%u by its deadline", p->req.op, p->req.tag);
		first = BITS_MIN(first, p->due_ns);
	}
	REPORT_REQUIRE(sim, core_deadline_ns(sim->core) <= first || orders_pending(sim),
		       "the core wants to be called after a deadline");
}

/* Does this lease compute the block, or will it as soon as it looks at its row? */
static bool oracle_builds(const struct sim *sim, const struct sim_lease *lease, uint32_t block,
			  const struct sim_sequence *seq)
{
	uint32_t page_tokens = sim->format[lease->seq.format].page_tokens;
	uint32_t end = (block + 1) * page_tokens;

	if (!lease->used || !lease->id || lease->no_hit || lease->block[block].published)
		return false;
	if (prompt_common(&lease->seq, seq, end) < end)
		return false;
	if (lease->moving)
		return true; /* whoever claims it will be CALLed, or it expires */
	uint32_t state = model_row(sim, lease)->state;
	if (state != KVD_LEASE_OK)
		return state == KVD_LEASE_CALL;
	return lease->build_from < end;
}

bool oracle_computed(const struct sim *sim, const struct sim_lease *lease)
{
	uint32_t page_tokens = sim->format[lease->seq.format].page_tokens;
	uint32_t block = model_row(sim, lease)->ready_tokens / page_tokens;

	for (uint32_t i = 0; i < SIM_LEASES_MAX; i++)
		if (&sim->lease[i] != lease &&
		    oracle_builds(sim, &sim->lease[i], block, &lease->seq))
			return true;
	return false;
}

/* A lease that waits for a block waits for somebody, or for what the daemon loads. */
static void oracle_followed(struct sim *sim, const struct sim_lease *lease)
{
	const struct kvd_lease_row *row = model_row(sim, lease);
	uint32_t block = row->ready_tokens / sim->format[lease->seq.format].page_tokens;

	if (row->state != KVD_LEASE_OK || row->ready_tokens >= lease->build_from)
		return;
	/* Loads that wait begin when others are done. */
	if (tiers_pending(sim, false))
		return;
	if (!oracle_computed(sim, lease))
		report_fail(sim, "lease %#llx waits for block %u, and nobody computes it",
			    (unsigned long long)lease->id, block);
}

static void oracle_leases(struct sim *sim)
{
	if (core_busy(sim->core))
		return;
	for (uint32_t i = 0; i < SIM_LEASES_MAX; i++) {
		const struct sim_lease *lease = &sim->lease[i];
		if (!lease->used || !lease->id || lease->moving)
			continue;
		const struct kvd_lease_row *row = model_row(sim, lease);
		REPORT_REQUIRE(sim, row->generation == KVD_LEASE_GENERATION(lease->id),
			       "lease %#llx: its row is of generation %u",
			       (unsigned long long)lease->id, row->generation);
		oracle_followed(sim, lease);
	}
}

/* Each device is within its own pool, and the whole is the sum of them. */
static void oracle_devices(struct sim *sim, const struct kvd_status *status)
{
	uint64_t pool = 0;
	uint64_t slabs = 0;
	uint64_t promised = 0;

	REPORT_REQUIRE(sim, status->device_count == sim->config.device_count, "%u devices",
		       status->device_count);
	for (uint32_t d = 0; d < status->device_count; d++) {
		const struct kvd_device_stat *s = &status->devices[d];
		REPORT_REQUIRE(sim,
			       s->device == d && s->used_bytes <= s->slab_bytes &&
				       s->slab_bytes <= s->pool_bytes &&
				       s->pool_bytes <= sim->config.pool_bytes[d],
			       "device %u: %llu bytes used, slabs of %llu in a pool of %llu", d,
			       (unsigned long long)s->used_bytes, (unsigned long long)s->slab_bytes,
			       (unsigned long long)s->pool_bytes);
		pool += s->pool_bytes;
		slabs += s->slab_bytes;
		promised += s->promised_pages;
	}
	REPORT_REQUIRE(sim,
		       pool == status->pool_bytes && slabs == status->slab_bytes &&
			       promised == status->promised_pages,
		       "the devices' figures are not the daemon's");
}

/* What the status says of the tiers is what the shell knows. */
static void oracle_areas(struct sim *sim, const struct kvd_status *status)
{
	uint32_t queue[CORE_TIERS][SIM_AREAS_MAX] = {0};
	uint32_t count = 0;

	for (uint32_t i = 0; i < SIM_TRANSFERS_MAX; i++)
		if (sim->transfer[i].used)
			queue[sim->transfer[i].order.slot.tier][sim->transfer[i].order.slot.area]++;
	for (uint32_t t = 0; t < CORE_TIERS; t++)
		count += sim->config.tiers[t].area_count;
	REPORT_REQUIRE(sim, status->area_count == count, "%u areas", status->area_count);
	for (uint32_t i = 0; i < status->area_count; i++) {
		const struct kvd_area_stat *s = &status->areas[i];
		uint32_t t = s->tier == KVD_TIER_FILE ? CORE_TIER_FILE : CORE_TIER_DRAM;
		const struct sim_area *area = &sim->area[t][s->area];
		REPORT_REQUIRE(sim,
			       (s->state == KVD_AREA_DEGRADED) == area->down &&
				       s->queue == queue[t][s->area] &&
				       s->bytes == area->cells * (uint64_t)TIERS_CELL_BYTES &&
				       s->used_bytes <= s->bytes,
			       "area %u of tier %u: state %u, %u in the queue, %u of %u bytes",
			       s->area, t, s->state, s->queue, (uint32_t)s->used_bytes,
			       (uint32_t)s->bytes);
	}
}

static void oracle_status(struct sim *sim)
{
	static struct kvd_status status;
	uint32_t live = 0;

	core_status(sim->core, &status);
	for (uint32_t i = 0; i < SIM_LEASES_MAX; i++)
		live += sim->lease[i].used && sim->lease[i].id;
	REPORT_REQUIRE(sim, status.leases >= live, "%u leases, and the core knows %u", live,
		       (uint32_t)status.leases);
	oracle_devices(sim, &status);
	oracle_areas(sim, &status);
}

void oracle_step(struct sim *sim)
{
	char error[256] = "";

	memory_check(sim);
	REPORT_REQUIRE(sim, core_check(sim->core, error, sizeof(error)) == 0, "core_check: %s",
		       error);
	oracle_waiting(sim);
	oracle_leases(sim);
	if (sim->step % 16 == 0)
		oracle_status(sim);
}

void oracle_end(struct sim *sim)
{
	static struct kvd_status status;
	char error[256] = "";

	REPORT_REQUIRE(sim, core_check(sim->core, error, sizeof(error)) == 0, "core_check: %s",
		       error);
	core_status(sim->core, &status);
	REPORT_REQUIRE(sim, status.leases == 0 && status.waiting_requests == 0,
		       "at the end %u leases, %u waiting", (uint32_t)status.leases,
		       (uint32_t)status.waiting_requests);
	for (uint32_t state = 0; state < KVD_PAGE_STATES; state++)
		REPORT_REQUIRE(sim, state == KVD_PAGE_FREE || status.pages_by_state[state] == 0,
			       "at the end %u pages in state %u",
			       (uint32_t)status.pages_by_state[state], state);
	/* What lies in tiers stays. */
	uint64_t cold = 0;
	for (uint32_t a = 0; a < status.area_count; a++)
		cold += status.areas[a].blocks;
	REPORT_REQUIRE(sim, status.promised_pages == 0 && status.nodes <= cold,
		       "at the end %u pages promised, %u nodes", (uint32_t)status.promised_pages,
		       (uint32_t)status.nodes);
}
