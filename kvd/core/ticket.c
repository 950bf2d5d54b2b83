/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tickets. The bytes live in the lease itself; a search compares them without leaving early. The
 * core's thread only.
 */
#include "kvd/core/ticket.h"

#include "kvd/core/call.h"
#include "kvd/core/extend.h"
#include "kvd/core/follow.h"
#include "kvd/core/grant.h"
#include "kvd/core/lease.h"
#include "kvd/core/mutant.h"

#include <base/units.h>
#include <errno.h>
#include <string.h>

int ticket_handoff(struct core *core, struct call *call)
{
	const struct kvd_req *req = call->req;
	uint32_t lease;
	int rc = call_payload(core, call, 0);

	if (rc == 0)
		rc = call_lease(core, call, &lease);
	if (rc != 0)
		return rc;
	struct lease *l = &core->leases[lease];
	if (req->out_bytes < sizeof(l->ticket))
		return -EINVAL;
	extend_drop_useless(core, lease, false);
	lease_leave(core, lease);
	lease_recharge(core, lease, CORE_NONE);
	l->life = LEASE_TICKET;
	memcpy(l->ticket, call->random, sizeof(l->ticket));
	l->ticket_ns = core->now_ns + req->arg32 * UNITS_NS_PER_MS;
	core->ticket_ns =
		core->ticket_count == 0 ? l->ticket_ns : BITS_MIN(core->ticket_ns, l->ticket_ns);
	core->ticket_count++;
	call->rep.out_bytes = sizeof(l->ticket);
	call->payload = l->ticket;
	return 0;
}

static bool same_ticket(const struct lease *l, const uint8_t *ticket)
{
	uint8_t differs = 0;

	for (uint32_t i = 0; i < sizeof(l->ticket); i++)
		differs |= (uint8_t)(l->ticket[i] ^ ticket[i]);
	return differs == 0;
}

static uint32_t find(const struct core *core, uint32_t space, const uint8_t *ticket)
{
	for (uint32_t i = 0; i < core->cfg.leases_max; i++) {
		const struct lease *l = &core->leases[i];
		bool spent = l->life == LEASE_LIVE && l->ticket_ns > 0 && MUTANT(REUSE_TICKET);
		if ((l->life == LEASE_TICKET || spent) && core->formats[l->format].space == space &&
		    l->ticket_ns > core->now_ns && same_ticket(l, ticket))
			return i;
	}
	return CORE_NONE;
}

int ticket_claim(struct core *core, struct call *call)
{
	int rc = call_payload(core, call, sizeof(core->leases[0].ticket));
	uint32_t space = core->sessions[call->session].space;

	if (rc < 0)
		return rc;
	uint32_t lease = find(core, space, core->in);
	if (lease == CORE_NONE)
		return KVD_MISS;
	struct lease *l = &core->leases[lease];
	if (core->groups[core->sessions[call->session].group].ended)
		return -ENOSPC;
	if (l->life == LEASE_LIVE)
		lease_leave(core, lease);
	if (lease_enter(core, lease, call->session) != 0)
		return -ENOSPC;
	core->ticket_count--;
	l->session = CORE_NONE;
	lease_recharge(core, lease, call->session);
	follow_advance(core, lease);
	call->rep.aux = (uint64_t)l->token_count << 32 | l->format;
	extend_drop_useless(core, lease, false);
	grant_fill(core, call, lease, 0, l->blocks, NULL, 0);
	return 0;
}

void ticket_time(struct core *core)
{
	uint64_t next_ns = UINT64_MAX;

	if (ticket_deadline_ns(core) > core->now_ns)
		return;
	for (uint32_t i = 0; i < core->cfg.leases_max; i++) {
		struct lease *l = &core->leases[i];
		if (l->life != LEASE_TICKET)
			continue;
		if (l->ticket_ns > core->now_ns) {
			next_ns = BITS_MIN(next_ns, l->ticket_ns);
			continue;
		}
		core->ticket_count--;
		follow_leave(core, i);
		lease_free(core, i);
	}
	core->ticket_ns = next_ns;
}

uint64_t ticket_deadline_ns(const struct core *core)
{
	return core->ticket_count > 0 ? core->ticket_ns : UINT64_MAX;
}
