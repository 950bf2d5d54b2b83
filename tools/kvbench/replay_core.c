/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's core without its shell: a trace's requests go in one after the other, each an
 * ACQUIRE, a SEAL of what was not found and a RELEASE, as an engine would send them. No page has
 * memory: slabs are "made" by saying so. A block is sixteen tokens that are its id.
 *
 * A request that is longer than the pool finds nothing and is not cached.
 */
#include "tools/kvbench/replay.h"

#include "kvd/core/core.h"

#include <base/bits.h>
#include <base/units.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLAY_PAGE_TOKENS 16u
#define REPLAY_PAGE_BYTES 4096u
#define REPLAY_ORDERS_MAX 8u
#define REPLAY_TRANSFERS_MAX 256u /* more than the tier's depth, both ways */
#define REPLAY_SEGMENT_SLOTS 64u

struct replay_shell {
	struct core *core;
	const void *payload;
	struct core_order orders[REPLAY_ORDERS_MAX];
	uint32_t order_count;
	uint32_t transfers[REPLAY_TRANSFERS_MAX];
	uint32_t transfer_count;
	uint64_t stores;
	uint32_t session;
	uint32_t format;
	uint32_t tag;
	bool replied;
	struct kvd_rep rep;
	uint64_t now_ns;
	uint32_t *tokens;
};

static int on_payload(void *ctx, uint32_t session, const struct kvd_req *req, void *out)
{
	memcpy(out, ((struct replay_shell *)ctx)->payload, req->in_bytes);
	return 0;
}

static void on_reply(void *ctx, uint32_t session, const struct kvd_req *req,
		     const struct kvd_rep *rep, const void *payload)
{
	struct replay_shell *s = ctx;

	s->rep = *rep;
	s->replied = true;
}

static void on_lease_row(void *ctx, uint32_t session, uint32_t row,
			 const struct kvd_lease_row *value)
{
}

static void on_session_row(void *ctx, uint32_t session, const struct kvd_session_row *value)
{
}

static void on_order(void *ctx, const struct core_order *order)
{
	struct replay_shell *s = ctx;

	if (s->order_count < REPLAY_ORDERS_MAX)
		s->orders[s->order_count++] = *order;
}

static void on_transfer(void *ctx, const struct core_transfer *transfer)
{
	struct replay_shell *s = ctx;

	s->stores += transfer->kind == CORE_TRANSFER_STORE;
	if (s->transfer_count < REPLAY_TRANSFERS_MAX)
		s->transfers[s->transfer_count++] = transfer->id;
}

static void on_record(void *ctx, const struct core_record *record)
{
}

static void on_expel(void *ctx, uint32_t session)
{
}

static void on_note(void *ctx, enum core_note_kind kind, const char *text)
{
	if (kind != CORE_NOTE_DEBUG)
		fprintf(stderr, "kvbench: replay: %s\n", text);
}

/* Sends the request and lets the core come to rest. The reply's result, or -EIO: there is none. */
static int call(struct replay_shell *s, struct kvd_req *req, const void *payload)
{
	static const uint8_t random[CORE_RANDOM_BYTES];

	req->tag = ++s->tag;
	s->payload = payload;
	s->replied = false;
	s->now_ns += UNITS_NS_PER_US;
	int rc = core_request(s->core, s->session, req, random, s->now_ns);
	while (rc == 0 && (s->order_count > 0 || s->transfer_count > 0 || core_busy(s->core))) {
		if (s->order_count > 0) {
			const struct core_order *o = &s->orders[--s->order_count];
			core_complete(s->core, o->kind, o->slab, 0, s->now_ns);
		} else if (s->transfer_count > 0) {
			core_transfer_done(s->core, s->transfers[--s->transfer_count], 0,
					   s->now_ns);
		}
		core_time(s->core, s->now_ns);
	}
	if (rc < 0)
		return rc;
	return s->replied ? s->rep.result : -EIO;
}

static int open_core(struct replay_shell *s, const struct replay_trace *t,
		     const struct replay_pool *pool)
{
	uint32_t blocks = pool->blocks;
	uint32_t all = blocks + pool->file_blocks;
	static const struct core_ops ops = {
		.payload = on_payload,
		.reply = on_reply,
		.lease_row = on_lease_row,
		.session_row = on_session_row,
		.order = on_order,
		.transfer = on_transfer,
		.record = on_record,
		.expel = on_expel,
		.note = on_note,
	};
	/* As the daemon's defaults are: two nodes and 64 tokens for each page. */
	const struct core_config config = {
		.device_count = 1,
		.pool_bytes = {(uint64_t)blocks * REPLAY_PAGE_BYTES},
		.pages_max = blocks,
		.nodes_max = 2 * all,
		.index_tokens_max = BITS_MAX(64ull * all, 1ull << 16),
		.sessions_max = 1,
		.leases_max = 2,
		.formats_max = 1,
		.geometries_max = 1,
		.spaces_max = 1,
		.request_tokens_max = t->longest * REPLAY_PAGE_TOKENS,
		.slab_bytes_min = (uint64_t)blocks * REPLAY_PAGE_BYTES,
		.slab_align_bytes = REPLAY_PAGE_BYTES,
		.session_share_permille = 1000,
		.policy = pool->policy,
		.store = pool->store,
		.tiers[CORE_TIER_FILE] =
			{
				.area_count = pool->file_blocks > 0,
				.area_segments = {pool->file_blocks / REPLAY_SEGMENT_SLOTS},
				.segment_bytes = REPLAY_SEGMENT_SLOTS * 2 * REPLAY_PAGE_BYTES,
			},
	};

	return core_new(&config, &ops, s, &s->core);
}

static int open_session(struct replay_shell *s)
{
	const struct core_space_args space = {.name = "default", .key_seed = "replay"};
	const struct core_session_args session = {
		.leases_max = 3, .waiting_max = 1, .process = 1, .name = "replay"};
	const struct kvd_format_wire format = {
		.page_tokens = REPLAY_PAGE_TOKENS,
		.part_count = 1,
		.parts = {{.page_bytes = REPLAY_PAGE_BYTES, .align = 64}},
	};
	struct kvd_req req = {.op = KVD_OP_FORMAT, .in_bytes = sizeof(format)};
	int rc = core_space_add(s->core, &space);

	if (rc >= 0)
		rc = core_session_open(s->core, &session, s->now_ns);
	if (rc < 0)
		return rc;
	s->session = (uint32_t)rc;
	rc = call(s, &req, &format);
	s->format = (uint32_t)s->rep.aux;
	return rc;
}

/* One request of the trace. The blocks found, or -errno. */
static int replay_one(struct replay_shell *s, const uint32_t *ids, uint32_t count)
{
	uint32_t tokens = count * REPLAY_PAGE_TOKENS;
	struct kvd_req acquire = {
		.op = KVD_OP_ACQUIRE, .format = s->format, .n = tokens, .in_bytes = tokens * 4};

	for (uint32_t i = 0; i < tokens; i++)
		s->tokens[i] = ids[i / REPLAY_PAGE_TOKENS];
	int rc = call(s, &acquire, s->tokens);
	if (rc == -E2BIG)
		return 0;
	/* What is loaded is there already: transfers take no time here. */
	uint32_t found =
		BITS_MAX(s->rep.at.cached_tokens, s->rep.at.build_from) / REPLAY_PAGE_TOKENS;
	uint64_t lease = s->rep.lease;
	for (uint32_t at = found; rc == 0 && at < count; at += KVD_SEAL_BLOCKS_MAX) {
		struct kvd_req seal = {.op = KVD_OP_SEAL,
				       .lease = lease,
				       .first = at,
				       .m = BITS_MIN(count - at, KVD_SEAL_BLOCKS_MAX)};
		rc = call(s, &seal, NULL);
	}
	struct kvd_req release = {.op = KVD_OP_RELEASE, .lease = lease};
	if (rc == 0)
		rc = call(s, &release, NULL);
	if (rc != 0)
		return rc < 0 ? rc : -EIO;
	return (int)found;
}

static int replay_all(struct replay_shell *s, const struct replay_trace *t,
		      struct replay_result *out)
{
	for (uint32_t r = 0; r < t->request_count; r++) {
		uint32_t count = (uint32_t)(t->first[r + 1] - t->first[r]);
		int found = replay_one(s, t->ids + t->first[r], count);
		if (found < 0)
			return found;
		replay_count(t, r, count, (uint64_t)found, out);
	}
	return 0;
}

int replay_core(const struct replay_trace *t, const struct replay_pool *pool,
		struct replay_result *out)
{
	struct replay_shell s = {
		.now_ns = UNITS_NS_PER_S,
		.tokens = malloc((size_t)t->longest * REPLAY_PAGE_TOKENS * sizeof(*s.tokens)),
	};
	int rc = s.tokens ? open_core(&s, t, pool) : -ENOMEM;

	*out = (struct replay_result){0};
	if (rc == 0)
		rc = open_session(&s);
	uint64_t start_ns = units_now_ns();
	if (rc == 0)
		rc = replay_all(&s, t, out);
	out->stores = s.stores;
	out->seconds = (double)(units_now_ns() - start_ns) / 1e9;
	core_free(s.core);
	free(s.tokens);
	return rc;
}
