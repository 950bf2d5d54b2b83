/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of waiting requests. Only the 64 bytes of a request are kept; each attempt runs it
 * from the start, and one that fails has changed nothing.
 *
 * Fairness: within a namespace the oldest goes first, and nobody overtakes one that waits for
 * memory of a device that he wants, too; requests of sequences that run already (EXTEND, TOPUP) go
 * before ACQUIREs, since what those wait for is held by these. Who waits for his own session's or
 * group's limit is in nobody's way. Deadlines end all waiting, but not while a slab is being made
 * for the request.
 *
 * Requests are tried in rounds, and a round is a cursor: what one step cannot pay for is tried in
 * the next, and memory that comes free meanwhile is another round's. A round is about the devices
 * whose memory came free; a request that wants none of them is passed over, and is in the way of
 * later ones as if it had been refused. When a deadline is over, a round is about all.
 *
 * Invariants: each request here is answered exactly once, unless its session ends. The core's
 * thread only.
 */
#include "kvd/core/wait.h"

#include "kvd/core/call.h"
#include "kvd/core/mutant.h"
#include "kvd/core/topup.h"
#include "kvd/core/turnover.h"

#include <base/units.h>
#include <errno.h>

enum { ROUND_NONE, ROUND_RUNNING, ROUND_NEW };

void wait_init(struct core *core)
{
	core->wait_next = CORE_NONE;
	core->waiter_head = core->waiter_tail = core->waiter_free = CORE_NONE;
	for (uint32_t i = core->waiters_max; i-- > 0;) {
		core->waiters[i].next = core->waiter_free;
		core->waiter_free = i;
	}
}

static bool runs_already(const struct waiter *w)
{
	return w->req.op != KVD_OP_ACQUIRE;
}

/* Counts the request among those that are in the way of later ones, or not any more. */
static void count(struct core *core, const struct waiter *w, uint32_t sign)
{
	struct space *space = &core->spaces[core->sessions[w->session].space];

	if (w->own_limit)
		return;
	for (uint32_t left = w->devices; left; left &= left - 1) {
		struct space_part *part = &space->on[__builtin_ctz(left)];
		part->waiting += sign;
		if (runs_already(w))
			part->waiting_to_run += sign;
	}
}

/* Counts the request among those of its devices' banks, or not any more. */
static void count_in_banks(struct core *core, const struct waiter *w, uint32_t sign)
{
	for (uint32_t left = w->devices; left; left &= left - 1)
		core->banks[__builtin_ctz(left)].waiter_count += sign;
}

/* The slabs that are turned over on its devices are for it from now on. */
static void start_turning(struct core *core, uint32_t i)
{
	for (uint32_t left = core->waiters[i].devices; left; left &= left - 1) {
		struct bank *bank = &core->banks[__builtin_ctz(left)];
		if (bank->turner == CORE_NONE)
			bank->turner = i;
	}
}

int wait_add(struct core *core, const struct call *call)
{
	struct session *s = &core->sessions[call->session];
	uint32_t i = core->waiter_free;

	if (s->waiting >= s->waiting_max || i == CORE_NONE)
		return KVD_BUSY;
	ASSERT(call->devices != 0);
	struct waiter *w = &core->waiters[i];
	core->waiter_free = w->next;
	*w = (struct waiter){
		.req = *call->req,
		.session = call->session,
		.next = CORE_NONE,
		.prev = core->waiter_tail,
		.devices = call->devices,
		.for_slab = call->for_slab,
		.own_limit = call->own_limit,
		.deadline_ns = core->now_ns + call->req->deadline_ms * UNITS_NS_PER_MS,
	};
	for (uint32_t b = 0; b < CORE_RANDOM_BYTES; b++)
		w->random[b] = call->random[b];
	if (core->waiter_tail != CORE_NONE)
		core->waiters[core->waiter_tail].next = i;
	else
		core->waiter_head = i;
	core->waiter_tail = i;
	core->waiter_count++;
	s->waiting++;
	count(core, w, 1);
	count_in_banks(core, w, 1);
	if (call->turns_over)
		start_turning(core, i);
	core->counters[KVD_C_WAITED]++;
	topup_want_back(core, s->space, w->devices);
	core->retry |= w->devices;
	return 0;
}

/* Slabs are not turned over for it any more: it is the next one's turn. */
static void stop_turning(struct core *core, uint32_t i)
{
	for (uint32_t d = 0; d < core->cfg.device_count; d++) {
		if (core->banks[d].turner != i)
			continue;
		core->banks[d].turner = CORE_NONE;
		turnover_reopen(core, d);
	}
}

static void forget(struct core *core, uint32_t i)
{
	struct waiter *w = &core->waiters[i];

	stop_turning(core, i);
	if (core->wait_next == i)
		core->wait_next = w->next;
	if (w->prev != CORE_NONE)
		core->waiters[w->prev].next = w->next;
	else
		core->waiter_head = w->next;
	if (w->next != CORE_NONE)
		core->waiters[w->next].prev = w->prev;
	else
		core->waiter_tail = w->prev;
	count(core, w, UINT32_MAX);
	count_in_banks(core, w, UINT32_MAX);
	core->sessions[w->session].waiting--;
	core->waiter_count--;
	w->next = core->waiter_free;
	core->waiter_free = i;
	core->retry |= w->devices;
	for (uint32_t s = 0; s < core->space_count && core->waiter_count == 0; s++)
		topup_want_back(core, s, 0);
}

/* Ends the request with a result that is known without another attempt. */
static void answer(struct core *core, uint32_t i, int result)
{
	struct waiter w = core->waiters[i];
	struct call call = {.req = &w.req, .random = w.random, .session = w.session};

	forget(core, i);
	call_reply(core, &call, result);
}

int wait_cancel(struct core *core, uint32_t session, uint32_t tag)
{
	for (uint32_t i = core->waiter_head; i != CORE_NONE; i = core->waiters[i].next) {
		if (core->waiters[i].session != session || core->waiters[i].req.tag != tag)
			continue;
		answer(core, i, -ECANCELED);
		return 0;
	}
	return KVD_MISS;
}

void wait_drop_session(struct core *core, uint32_t session)
{
	uint32_t next;

	for (uint32_t i = core->waiter_head; i != CORE_NONE; i = next) {
		next = core->waiters[i].next;
		if (core->waiters[i].session == session)
			forget(core, i);
	}
}

void wait_drain(struct core *core)
{
	uint32_t next;

	for (uint32_t i = core->waiter_head; i != CORE_NONE; i = next) {
		next = core->waiters[i].next;
		if (core->waiters[i].req.op == KVD_OP_ACQUIRE)
			answer(core, i, KVD_DRAINING);
	}
}

/* Its deadline counts: no slab is on its way for it. */
static bool deadline_counts(const struct core *core, const struct waiter *w)
{
	uint32_t making = 0;

	for (uint32_t left = w->for_slab; left; left &= left - 1)
		making += core->banks[__builtin_ctz(left)].making_count;
	return making == 0;
}

/* An attempt looks at each block of its request. */
static void pay(struct core *core, const struct kvd_req *req)
{
	uint64_t cost = 1 + (req->op == KVD_OP_ACQUIRE ? (uint64_t)req->n / 16 + req->arg32
						       : (uint64_t)req->n + req->m);

	core->budget -= (uint32_t)BITS_MIN(cost, (uint64_t)core->budget);
}

/*
 * One more attempt; `behind`: an older one could not be admitted, so this one gets no memory.
 * True: it was answered, and the record is free.
 */
static bool attempt(struct core *core, uint32_t i, bool behind)
{
	struct waiter *w = &core->waiters[i];
	struct kvd_req req = w->req;
	uint8_t random[CORE_RANDOM_BYTES];
	struct call call = {.req = &req,
			    .random = random,
			    .session = w->session,
			    .again = !behind,
			    .waiter = i};
	uint32_t retry = core->retry;

	for (uint32_t b = 0; b < CORE_RANDOM_BYTES; b++)
		random[b] = w->random[b];
	pay(core, &req);
	int result = call_run(core, &call);
	if (result != KVD_FULL) {
		forget(core, i);
		call_reply(core, &call, result);
		return true;
	}
	core->retry = retry;
	count(core, w, UINT32_MAX);
	w->for_slab = call.for_slab;
	w->own_limit = call.own_limit;
	if (call.turns_over)
		start_turning(core, i);
	else if (!call.for_slab)
		stop_turning(core, i);
	count(core, w, 1);
	if (w->for_slab || w->deadline_ns > core->now_ns)
		return false;
	forget(core, i);
	if (!MUTANT(LOSE_WAITER))
		call_reply(core, &call, result);
	return true;
}

/* Tries the request, unless it is of the other class or behind one that gets nothing. */
static void visit(struct core *core, uint32_t i)
{
	struct waiter *w = &core->waiters[i];
	struct space *space = &core->spaces[core->sessions[w->session].space];
	bool due = w->deadline_ns <= core->now_ns && deadline_counts(core, w);

	bool behind = (space->blocked & w->devices) != 0;

	if (runs_already(w) != (core->wait_round == ROUND_RUNNING))
		return;
	if ((behind || !(core->wait_woken & w->devices)) && !due) {
		space->blocked |= w->own_limit ? 0 : w->devices;
		return;
	}
	if (!attempt(core, i, behind) && !w->own_limit)
		space->blocked |= w->devices;
}

static void begin_round(struct core *core, bool due)
{
	core->wait_woken = due ? UINT32_MAX : core->retry;
	core->retry = 0;
	core->turn_claimed = 0;
	for (uint32_t s = 0; s < core->space_count; s++)
		core->spaces[s].blocked = 0;
	core->wait_round = ROUND_RUNNING;
	core->wait_next = core->waiter_head;
}

static void continue_round(struct core *core)
{
	while (core->wait_round != ROUND_NONE && core->budget > 0) {
		uint32_t i = core->wait_next;
		if (i != CORE_NONE) {
			core->wait_next = core->waiters[i].next;
			core->budget--;
			visit(core, i);
		} else if (core->wait_round == ROUND_RUNNING) {
			core->wait_round = ROUND_NEW;
			core->wait_next = core->waiter_head;
		} else {
			core->wait_round = ROUND_NONE;
		}
	}
}

void wait_time(struct core *core)
{
	if (core->wait_round == ROUND_NONE && core->waiter_count > 0) {
		bool due = wait_deadline_ns(core) <= core->now_ns;
		if (core->retry || due)
			begin_round(core, due);
	}
	continue_round(core);
	if (core->waiter_count == 0)
		core->retry = 0;
}

bool wait_busy(const struct core *core)
{
	return core->wait_round != ROUND_NONE || (core->retry && core->waiter_count > 0);
}

uint64_t wait_deadline_ns(const struct core *core)
{
	uint64_t deadline = UINT64_MAX;

	for (uint32_t i = core->waiter_head; i != CORE_NONE; i = core->waiters[i].next)
		if (deadline_counts(core, &core->waiters[i]))
			deadline = BITS_MIN(deadline, core->waiters[i].deadline_ns);
	return deadline;
}
