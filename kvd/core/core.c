/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entry points of the machine, and the one place where memory is allocated: one block, cut
 * into the arrays of machine.h by a table.
 *
 * Every entry sets the time and a fresh budget, does its work, and leaves what is over to
 * core_time(). Time never runs backwards here. One thread at a time.
 */
#include "kvd/core/core.h"

#include "kvd/core/arena.h"
#include "kvd/core/bank.h"
#include "kvd/core/call.h"
#include "kvd/core/check.h"
#include "kvd/core/evict.h"
#include "kvd/core/group.h"
#include "kvd/core/haul.h"
#include "kvd/core/index.h"
#include "kvd/core/lease.h"
#include "kvd/core/machine.h"
#include "kvd/core/node.h"
#include "kvd/core/process.h"
#include "kvd/core/rest.h"
#include "kvd/core/session.h"
#include "kvd/core/slab.h"
#include "kvd/core/space.h"
#include "kvd/core/status.h"
#include "kvd/core/ticket.h"
#include "kvd/core/tier.h"
#include "kvd/core/transfer.h"
#include "kvd/core/turnover.h"
#include "kvd/core/verify.h"
#include "kvd/core/wait.h"

#include <base/units.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CORE_PROCESSES_PER_SESSION 4u
#define CORE_HANDLES_SPARE 4096u
#define CORE_FIRST_LINE 64u

/* --- sizes ---------------------------------------------------------------------------------- */

static void fill_defaults(struct core_config *c)
{
	c->slab_align_bytes = c->slab_align_bytes ? c->slab_align_bytes : 2 * UNITS_MIB;
	c->page_align_bytes = c->page_align_bytes ? c->page_align_bytes : 4 * UNITS_KIB;
	c->session_share_permille = c->session_share_permille ? c->session_share_permille : 500;
	c->magazine_permille = c->magazine_permille ? c->magazine_permille : 20;
	c->retire_grace_ns = c->retire_grace_ns ? c->retire_grace_ns : 5 * UNITS_NS_PER_S;
}

/* The limit that makes the configuration impossible, or NULL. */
static const char *wrong_limit(const struct core_config *c)
{
	if (c->pages_max == 0 || c->pages_max > 1u << 28)
		return "pages_max";
	if (c->nodes_max == 0 || c->nodes_max > 1u << 28)
		return "nodes_max";
	if (c->index_tokens_max < ARENA_CHUNK_WORDS || c->index_tokens_max > 1ull << 34)
		return "index_tokens_max";
	if (c->sessions_max == 0 || c->sessions_max > 4096)
		return "sessions_max";
	if (c->leases_max == 0 || c->leases_max > 1u << 20)
		return "leases_max";
	if (c->formats_max == 0 || c->formats_max > 4096)
		return "formats_max";
	if (c->geometries_max == 0 || c->geometries_max > 4096)
		return "geometries_max";
	if (c->spaces_max == 0 || c->spaces_max > 4096)
		return "spaces_max";
	if (c->request_tokens_max == 0 || c->request_tokens_max > KVD_REQUEST_TOKENS_MAX)
		return "request_tokens_max";
	if (!bits_is_pow2(c->slab_align_bytes) || !bits_is_pow2(c->page_align_bytes))
		return "alignment";
	if (c->session_share_permille > 1000 || c->magazine_permille > 1000)
		return "permille";
	if (tier_wrong(c))
		return tier_wrong(c);
	return evict_policy(c->policy) ? bank_wrong(c) : "policy";
}

static void fill_sizes(struct core *core)
{
	const struct core_config *c = &core->cfg;
	uint64_t slots = bits_pow2_up((uint64_t)c->nodes_max * 2);

	core->slabs_max = bank_init(core);
	tier_sizes(core);
	core->lease_slots = c->leases_max + (core->has_tiers ? CORE_HAULS : 0);
	core->processes_max = c->sessions_max * CORE_PROCESSES_PER_SESSION;
	core->groups_max = c->sessions_max * CORE_PROCESSES_PER_SESSION;
	core->waiters_max = c->sessions_max * CORE_WAITERS_PER_SESSION;
	core->rows_max = BITS_MIN(c->leases_max + 1, KVD_LEASES_MAX);
	core->node_slots = c->formats_max + c->nodes_max;
	core->index_mask = (uint32_t)(slots - 1);
	core->ghost_mask = (uint32_t)(slots - 1);
	core->chunk_count = (uint32_t)(c->index_tokens_max / ARENA_CHUNK_WORDS);
	core->in_max = (uint64_t)c->request_tokens_max * 16 + sizeof(struct kvd_format_wire) +
		       KVD_DESCRIPTION_MAX;
	core->handles_max = c->request_tokens_max / 16 + CORE_HANDLES_SPARE;
}

struct array {
	size_t at; /* of the pointer in struct core */
	uint64_t count;
	uint64_t size;
};

#define CORE_ARRAYS 31

static uint64_t bitmap_words(const struct core *core, uint32_t tier)
{
	return (uint64_t)core->tiers[tier].segment_count * core->tiers[tier].bitmap_words;
}

static void fill_arrays(const struct core *core, struct array out[CORE_ARRAYS])
{
	const struct core_config *c = &core->cfg;
	uint64_t slabs = core->slabs_max;
	const struct array arrays[CORE_ARRAYS] = {
		{offsetof(struct core, pages), c->pages_max, sizeof(struct page)},
		{offsetof(struct core, slabs), slabs, sizeof(struct slab)},
		{offsetof(struct core, importers), slabs * ((c->sessions_max + 63) / 64), 8},
		{offsetof(struct core, dead_importers), slabs * ((core->processes_max + 63) / 64),
		 8},
		{offsetof(struct core, shelves), (uint64_t)c->spaces_max * c->geometries_max,
		 sizeof(struct shelf)},
		{offsetof(struct core, geometries), c->geometries_max, sizeof(struct geometry)},
		{offsetof(struct core, formats), c->formats_max, sizeof(struct format)},
		{offsetof(struct core, spaces), c->spaces_max, sizeof(struct space)},
		{offsetof(struct core, groups), core->groups_max, sizeof(struct group)},
		{offsetof(struct core, group_writers),
		 (uint64_t)core->groups_max * ((core->processes_max + 63) / 64), 8},
		{offsetof(struct core, processes), core->processes_max, sizeof(struct process)},
		{offsetof(struct core, sessions), c->sessions_max, sizeof(struct session)},
		{offsetof(struct core, rows), (uint64_t)c->sessions_max * core->rows_max,
		 sizeof(struct row)},
		{offsetof(struct core, leases), core->lease_slots, sizeof(struct lease)},
		{offsetof(struct core, waiters), core->waiters_max, sizeof(struct waiter)},
		{offsetof(struct core, nodes), core->node_slots, sizeof(struct node)},
		{offsetof(struct core, index), (uint64_t)core->index_mask + 1,
		 sizeof(struct index_slot)},
		{offsetof(struct core, ghosts), (uint64_t)core->ghost_mask + 1, 8},
		{offsetof(struct core, ghost_uses), (uint64_t)core->ghost_mask + 1, 4},
		{offsetof(struct core, arena), (uint64_t)core->chunk_count * ARENA_CHUNK_WORDS, 4},
		{offsetof(struct core, chunks), core->chunk_count, sizeof(struct arena_chunk)},
		{offsetof(struct core, in), core->in_max, 1},
		{offsetof(struct core, handles), core->handles_max, sizeof(struct kvd_handle)},
		{offsetof(struct core, check_counts), core->node_slots, 4},
		{offsetof(struct core, rests), core->has_tiers ? core->node_slots : 0,
		 sizeof(struct rest)},
		{offsetof(struct core, hauls), core->has_tiers ? CORE_HAULS : 0,
		 sizeof(struct haul)},
		{offsetof(struct core, transfers), core->transfers_max, sizeof(struct transfer)},
		{offsetof(struct core, tiers[CORE_TIER_DRAM].segments),
		 core->tiers[CORE_TIER_DRAM].segment_count, sizeof(struct segment)},
		{offsetof(struct core, tiers[CORE_TIER_DRAM].bitmaps),
		 bitmap_words(core, CORE_TIER_DRAM), 8},
		{offsetof(struct core, tiers[CORE_TIER_FILE].segments),
		 core->tiers[CORE_TIER_FILE].segment_count, sizeof(struct segment)},
		{offsetof(struct core, tiers[CORE_TIER_FILE].bitmaps),
		 bitmap_words(core, CORE_TIER_FILE), 8},
	};

	for (uint32_t i = 0; i < CORE_ARRAYS; i++)
		out[i] = arrays[i];
}

static uint64_t total_bytes(const struct core *core)
{
	struct array arrays[CORE_ARRAYS];
	uint64_t bytes = bits_align_up(sizeof(struct core), CORE_FIRST_LINE);

	fill_arrays(core, arrays);
	for (uint32_t i = 0; i < CORE_ARRAYS; i++)
		bytes += bits_align_up(arrays[i].count * arrays[i].size, CORE_FIRST_LINE);
	return bytes;
}

uint64_t core_bytes(const struct core_config *config)
{
	struct core sizes = {.cfg = *config};

	fill_defaults(&sizes.cfg);
	if (wrong_limit(&sizes.cfg))
		return 0;
	fill_sizes(&sizes);
	return total_bytes(&sizes);
}

/* --- life ----------------------------------------------------------------------------------- */

static void cut_arrays(struct core *core)
{
	struct array arrays[CORE_ARRAYS];
	uint8_t *at = (uint8_t *)core + bits_align_up(sizeof(struct core), CORE_FIRST_LINE);

	fill_arrays(core, arrays);
	for (uint32_t i = 0; i < CORE_ARRAYS; i++) {
		*(void **)(void *)((uint8_t *)core + arrays[i].at) = at;
		at += bits_align_up(arrays[i].count * arrays[i].size, CORE_FIRST_LINE);
	}
}

static void say_wrong(const struct core_ops *ops, void *ctx, const char *limit)
{
	char text[96];

	snprintf(text, sizeof(text), "the core cannot start: %s is out of range", limit);
	ops->note(ctx, CORE_NOTE_WARN, text);
}

int core_new(const struct core_config *config, const struct core_ops *ops, void *ctx,
	     struct core **out)
{
	struct core sizes = {.cfg = *config, .ops = *ops, .ctx = ctx};
	void *memory;

	fill_defaults(&sizes.cfg);
	const char *limit = wrong_limit(&sizes.cfg);
	if (limit) {
		say_wrong(ops, ctx, limit);
		return -EINVAL;
	}
	fill_sizes(&sizes);
	uint64_t bytes = total_bytes(&sizes);
	if (posix_memalign(&memory, CORE_FIRST_LINE, bytes) != 0)
		return -ENOMEM;
	memset(memory, 0, bytes);
	struct core *core = memory;
	*core = sizes;
	cut_arrays(core);
	core->policy = evict_policy(config->policy);
	index_init(core);
	arena_init(core);
	node_init(core);
	tier_init(core);
	rest_init(core);
	transfer_init(core);
	lease_init(core);
	wait_init(core);
	slab_init(core);
	*out = core;
	return 0;
}

void core_free(struct core *core)
{
	free(core);
}

/* --- entries -------------------------------------------------------------------------------- */

static void enter(struct core *core, uint64_t now_ns)
{
	core->now_ns = BITS_MAX(core->now_ns, now_ns);
	core->budget = CORE_STEP_MAX;
	bank_time(core);
}

/* What was done may have made something ready to be moved. */
static void leave(struct core *core)
{
	haul_pump(core);
	verify_pump(core);
}

int core_space_add(struct core *core, const struct core_space_args *args)
{
	return space_add(core, args);
}

int core_space_find(const struct core *core, const char *name, const uint8_t *secret,
		    uint32_t secret_bytes)
{
	return space_find(core, name, secret, secret_bytes);
}

int core_session_open(struct core *core, const struct core_session_args *args, uint64_t now_ns)
{
	enter(core, now_ns);
	return session_open(core, args);
}

uint64_t core_session_group(const struct core *core, uint32_t session)
{
	return session_valid(core, session) ? core->groups[core->sessions[session].group].id : 0;
}

void core_session_close(struct core *core, uint32_t session, enum core_session_end how,
			uint64_t now_ns)
{
	enter(core, now_ns);
	if (session_valid(core, session))
		session_close(core, session, how == CORE_END_BYE);
	leave(core);
}

bool core_session_busy(const struct core *core, uint32_t session)
{
	return session < core->cfg.sessions_max && core->sessions[session].closing;
}

void core_process_dead(struct core *core, uint64_t process, uint64_t now_ns)
{
	enter(core, now_ns);
	process_quiet(core, process, true);
}

void core_session_stalled(struct core *core, uint32_t session, bool stalled)
{
	if (session_valid(core, session))
		core->sessions[session].stalled = stalled;
}

int core_slab_imported(struct core *core, uint32_t session, uint32_t slab)
{
	return session_valid(core, session) ? turnover_import(core, session, slab) : -ENOENT;
}

int core_slab_find(const struct core *core, uint32_t session, uint32_t page,
		   struct kvd_slab_wire *out)
{
	if (!session_valid(core, session))
		return -ENOENT;
	return slab_find(core, core->sessions[session].space, page, out);
}

int core_request(struct core *core, uint32_t session, const struct kvd_req *req,
		 const uint8_t random[CORE_RANDOM_BYTES], uint64_t now_ns)
{
	ASSERT(session_valid(core, session));
	enter(core, now_ns);
	int rc = call_request(core, session, req, random);
	leave(core);
	return rc;
}

void core_complete(struct core *core, enum core_order_kind kind, uint32_t slab, int result,
		   uint64_t now_ns)
{
	ASSERT(slab < core->slabs_max);
	enter(core, now_ns);
	if (kind == CORE_ORDER_SLAB_MAKE)
		slab_made(core, slab, result);
	else
		slab_destroyed(core, slab);
}

void core_time(struct core *core, uint64_t now_ns)
{
	enter(core, now_ns);
	lease_settle(core);
	group_settle(core);
	ticket_time(core);
	turnover_time(core);
	wait_time(core);
	leave(core);
}

void core_transfer_done(struct core *core, uint32_t id, int result, uint64_t now_ns)
{
	enter(core, now_ns);
	transfer_done(core, id, result);
	leave(core);
}

void core_transfer_late(struct core *core, uint32_t id, uint64_t now_ns)
{
	enter(core, now_ns);
	transfer_late(core, id);
	leave(core);
}

void core_area_down(struct core *core, enum core_tier_kind tier, uint32_t area, bool down)
{
	ASSERT(tier < CORE_TIERS && area < core->tiers[tier].area_count);
	core->tiers[tier].areas[area].down = down;
}

bool core_busy(const struct core *core)
{
	return core->dying_head != CORE_NONE || group_busy(core) || turnover_busy(core) ||
	       wait_busy(core) || haul_busy(core) || verify_busy(core);
}

uint64_t core_deadline_ns(const struct core *core)
{
	uint64_t deadline = BITS_MIN(wait_deadline_ns(core), turnover_deadline_ns(core));

	deadline = BITS_MIN(deadline, bank_deadline_ns(core));
	deadline = BITS_MIN(deadline, haul_deadline_ns(core));
	return BITS_MIN(deadline, ticket_deadline_ns(core));
}

int core_check(const struct core *core, char *error, size_t size)
{
	return check_all(core, error, size);
}

void core_status(const struct core *core, struct kvd_status *out)
{
	status_fill(core, out);
}

void core_count(struct core *core, enum kvd_counter counter, uint64_t add)
{
	core->counters[counter] += add;
}
