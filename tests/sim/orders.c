/* SPDX-License-Identifier: Apache-2.0 */
/*
 * orders.c: orders of the core, as a slow and sometimes failing shell carries them out.
 *
 * A slab that is destroyed must be in nobody's way: no page of it is held, read or possibly
 * written by anybody, and nobody maps it any more: if the order is forced, who does was expelled.
 * And somebody must have been short of memory on its device.
 * Two slabs never share a page record, and together those of a device never exceed its pool.
 */
#include "tests/sim/orders.h"

#include "tests/sim/coverage.h"
#include "tests/sim/memory.h"
#include "tests/sim/report.h"
#include "tests/sim/wire.h"

#include <errno.h>

struct sim_slab *orders_of(struct sim *sim, uint32_t page)
{
	for (uint32_t i = 0; i < SIM_SLABS_MAX; i++) {
		struct sim_slab *slab = &sim->slab[i];
		if (slab->used && page >= slab->make.first_page &&
		    page - slab->make.first_page < slab->make.page_count)
			return slab;
	}
	return NULL;
}

static void orders_make(struct sim *sim, struct sim_slab *slab, const struct core_order *order)
{
	uint64_t bytes = order->slab_bytes;

	REPORT_REQUIRE(sim, !slab->used, "slab %u is made twice", order->slab);
	REPORT_REQUIRE(sim,
		       order->page_count > 0 && order->first_page < sim->config.pages_max &&
			       order->page_count <= sim->config.pages_max - order->first_page,
		       "slab %u has pages %u + %u", order->slab, order->first_page,
		       order->page_count);
	REPORT_REQUIRE(sim, order->stride_bytes * order->page_count <= order->slab_bytes,
		       "slab %u is shorter than its pages", order->slab);
	REPORT_REQUIRE(sim, order->space < sim->space_count, "slab of namespace %u", order->space);
	REPORT_REQUIRE(sim, order->device < sim->config.device_count, "slab on device %u",
		       order->device);
	for (uint32_t i = 0; i < SIM_SLABS_MAX; i++) {
		const struct sim_slab *other = &sim->slab[i];
		if (!other->used)
			continue;
		bytes += other->make.device == order->device ? other->make.slab_bytes : 0;
		REPORT_REQUIRE(
			sim,
			order->first_page >= other->make.first_page + other->make.page_count ||
				other->make.first_page >= order->first_page + order->page_count,
			"slabs %u and %u overlap", order->slab, i);
	}
	REPORT_REQUIRE(sim, bytes <= sim->config.pool_bytes[order->device],
		       "slabs exceed the pool of device %u", order->device);
	*slab = (struct sim_slab){.used = true, .make = *order, .made_step = sim->step};
}

void orders_require_idle(struct sim *sim, uint32_t number)
{
	REPORT_REQUIRE(sim, number < SIM_SLABS_MAX && sim->slab[number].used,
		       "slab %u does not exist", number);
	const struct core_order *slab = &sim->slab[number].make;
	for (uint32_t page = slab->first_page; page < slab->first_page + slab->page_count; page++)
		memory_require_idle(sim, page);
}

static void orders_destroy(struct sim *sim, struct sim_slab *slab, const struct core_order *order)
{
	uint64_t bit = 1ull << order->slab;

	REPORT_REQUIRE(sim, slab->live && !slab->retiring, "slab %u is destroyed, not live",
		       order->slab);
	orders_require_idle(sim, order->slab);
	REPORT_REQUIRE(sim, wire_short_since(sim, order->device, slab->made_step),
		       "slab %u is destroyed, and nobody was short of memory on device %u",
		       order->slab, order->device);
	coverage_count(order->forced ? "destroy, forced" : "destroy, answered");
	if (order->device > 0)
		coverage_count("destroy, on another device");
	for (uint32_t i = 0; i < SIM_SESSIONS_MAX; i++)
		REPORT_REQUIRE(sim,
			       !sim->session[i].open || !(sim->session[i].imports & bit) ||
				       (order->forced && sim->session[i].expelled),
			       "slab %u is destroyed while session model %u maps it", order->slab,
			       i);
	for (uint32_t i = 0; i < SIM_PROCESSES_MAX && !order->forced; i++)
		REPORT_REQUIRE(sim, !sim->process[i].used || !(sim->process[i].imports & bit),
			       "slab %u is destroyed while process model %u maps it", order->slab,
			       i);
	for (uint32_t i = 0; i < SIM_SESSIONS_MAX; i++)
		sim->session[i].imports &= ~bit;
	for (uint32_t i = 0; i < SIM_PROCESSES_MAX; i++)
		sim->process[i].imports &= ~bit;
	slab->retiring = true;
}

void orders_order(struct sim *sim, const struct core_order *order)
{
	static const uint16_t delays_ms[] = {0, 0, 0, 1, 3, 20, 200};

	REPORT_REQUIRE(sim, order->slab < SIM_SLABS_MAX, "slab number %u", order->slab);
	struct sim_slab *slab = &sim->slab[order->slab];
	report_trace(sim, "  order %s slab %u space %u device %u pages %u + %u stride %u%s",
		     order->kind == CORE_ORDER_SLAB_MAKE ? "make" : "destroy", order->slab,
		     order->space, order->device, order->first_page, order->page_count,
		     (uint32_t)order->stride_bytes, order->forced ? " forced" : "");
	if (order->kind == CORE_ORDER_SLAB_MAKE)
		orders_make(sim, slab, order);
	else
		orders_destroy(sim, slab, order);
	slab->due_ns = sim->now_ns + delays_ms[random_below(&sim->random, 7)] * 1000000ull;
}

static void orders_finish(struct sim *sim, uint32_t number)
{
	struct sim_slab *slab = &sim->slab[number];
	enum core_order_kind kind = CORE_ORDER_SLAB_MAKE;
	int result = 0;

	if (slab->retiring) {
		kind = CORE_ORDER_SLAB_DESTROY;
		slab->used = false;
	} else if (!sim->ending && random_percent(&sim->random, sim->make_fails_percent)) {
		result = -ENOMEM;
		slab->used = false;
		coverage_count("make, failed");
	} else {
		slab->live = true;
		memory_renew(sim, &slab->make);
	}
	report_trace(sim, "complete %s slab %u: %d",
		     kind == CORE_ORDER_SLAB_MAKE ? "make" : "destroy", number, result);
	core_complete(sim->core, kind, number, result, sim->now_ns);
}

void orders_progress(struct sim *sim, bool all)
{
	for (uint32_t i = 0; i < SIM_SLABS_MAX; i++) {
		const struct sim_slab *slab = &sim->slab[i];
		if (slab->used && (!slab->live || slab->retiring) &&
		    (all || slab->due_ns <= sim->now_ns))
			orders_finish(sim, i);
	}
}

bool orders_pending(const struct sim *sim)
{
	for (uint32_t i = 0; i < SIM_SLABS_MAX; i++)
		if (sim->slab[i].used && (!sim->slab[i].live || sim->slab[i].retiring))
			return true;
	return false;
}

/* Who is in another namespace is told nothing about the page. */
static void orders_hidden(struct sim *sim, uint32_t space, uint32_t page, uint32_t slab)
{
	struct kvd_slab_wire wire;

	for (uint32_t i = 0; i < SIM_SESSIONS_MAX; i++) {
		const struct sim_session *s = &sim->session[i];
		if (!s->open || s->space == space)
			continue;
		REPORT_REQUIRE(sim,
			       core_slab_find(sim->core, s->number, page, &wire) == -ENOENT &&
				       core_slab_imported(sim->core, s->number, slab) == -ENOENT,
			       "page %u of namespace %u is shown to session model %u", page, space,
			       i);
		coverage_other(-ENOENT);
	}
}

void orders_import(struct sim *sim, int session, uint32_t page)
{
	struct sim_session *s = &sim->session[session];
	struct sim_slab *slab = orders_of(sim, page);
	struct kvd_slab_wire wire;

	if (!slab || (s->imports >> slab->make.slab & 1))
		return;
	REPORT_REQUIRE(sim, core_slab_find(sim->core, s->number, page, &wire) == 0,
		       "the slab of page %u is not found", page);
	REPORT_REQUIRE(sim,
		       wire.slab == slab->make.slab && wire.first_page == slab->make.first_page &&
			       wire.page_count == slab->make.page_count &&
			       wire.stride_bytes == slab->make.stride_bytes &&
			       wire.device == slab->make.device,
		       "page %u: another slab is described", page);
	REPORT_REQUIRE(sim, core_slab_imported(sim->core, s->number, wire.slab) == 0,
		       "slab %u is not imported", wire.slab);
	s->imports |= 1ull << wire.slab;
	orders_hidden(sim, s->space, page, wire.slab);
}

void orders_answer(struct sim *sim, int session)
{
	struct sim_session *s = &sim->session[session];
	struct kvd_req req = {.op = KVD_OP_SLAB_GONE};

	if (!s->row0.retiring_slab || s->deaf)
		return;
	req.arg32 = s->row0.retiring_slab - 1;
	s->imports &= ~(1ull << (req.arg32 % SIM_SLABS_MAX));
	report_trace(sim, "session %d: SLAB_GONE %u", session, req.arg32);
	wire_send(sim, session, req, NULL, SIM_NONE, SIM_NONE);
}
