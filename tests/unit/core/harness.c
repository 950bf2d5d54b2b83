/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shell of the core's unit tests. It owns nothing but copies of what the core said. Payloads
 * are kept by tag, since a request that waits asks for its own again.
 */
#include "tests/unit/core/harness.h"

#include <base/units.h>

static struct harness_reply *reply_of(struct harness *h, uint32_t tag)
{
	return &h->replies[tag % HARNESS_REPLIES_MAX];
}

static int on_payload(void *ctx, uint32_t session, const struct kvd_req *req, void *out)
{
	struct harness *h = ctx;

	memcpy(out, h->payloads[req->tag % HARNESS_REPLIES_MAX], req->in_bytes);
	return 0;
}

static void on_reply(void *ctx, uint32_t session, const struct kvd_req *req,
		     const struct kvd_rep *rep, const void *payload)
{
	struct harness_reply *r = reply_of(ctx, req->tag);

	assert_false(r->came);
	r->came = true;
	r->rep = *rep;
	assert_true(rep->out_bytes <= req->out_bytes);
	if (rep->out_bytes > 0 && rep->out_bytes <= sizeof(r->bytes)) {
		memcpy(r->bytes, payload, rep->out_bytes);
		memcpy(r->handles, payload, rep->out_bytes & ~7u);
	}
}

static void on_lease_row(void *ctx, uint32_t session, uint32_t row,
			 const struct kvd_lease_row *value)
{
	struct harness *h = ctx;

	assert_true(session < 16 && row < HARNESS_ROWS_MAX);
	h->rows[session][row] = *value;
}

static void on_session_row(void *ctx, uint32_t session, const struct kvd_session_row *value)
{
	((struct harness *)ctx)->session_rows[session] = *value;
}

static void on_order(void *ctx, const struct core_order *order)
{
	struct harness *h = ctx;

	assert_true(h->order_count < HARNESS_ORDERS_MAX);
	h->orders[h->order_count++] = *order;
}

static void on_transfer(void *ctx, const struct core_transfer *transfer)
{
	struct harness *h = ctx;

	assert_true(h->transfer_count < HARNESS_TRANSFERS_MAX);
	h->transfers[h->transfer_count++] = *transfer;
}

static void on_record(void *ctx, const struct core_record *record)
{
	struct harness *h = ctx;

	assert_true(h->record_count < HARNESS_RECORDS_MAX);
	struct harness_record *r = &h->records[h->record_count++];
	r->record = *record;
	if (!record->put)
		return;
	memcpy(r->tokens, record->tokens, record->token_count * sizeof(uint32_t));
	r->record.tokens = r->tokens;
	if (record->extra_count > 0)
		memcpy(r->extras, record->extras, record->extra_count * 5 * sizeof(uint32_t));
	r->record.extras = r->extras;
}

static void on_expel(void *ctx, uint32_t session)
{
	((struct harness *)ctx)->expelled |= 1u << session;
}

static void on_note(void *ctx, enum core_note_kind kind, const char *text)
{
}

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

struct core_config harness_config(uint32_t pages, uint32_t slab_pages)
{
	return (struct core_config){
		.device_count = 1,
		.pool_bytes = {(uint64_t)pages * HARNESS_PAGE_BYTES},
		.pages_max = pages,
		.nodes_max = 1024,
		.index_tokens_max = 1 << 17,
		.sessions_max = 8,
		.leases_max = 32,
		.formats_max = 8,
		.geometries_max = 4,
		.spaces_max = 4,
		.request_tokens_max = HARNESS_TOKENS_MAX,
		.slab_bytes_min = (uint64_t)slab_pages * HARNESS_PAGE_BYTES,
		.slab_align_bytes = HARNESS_PAGE_BYTES,
		.page_align_bytes = HARNESS_PAGE_BYTES,
		.session_share_permille = 1000,
		.magazine_permille = 500,
		.retire_grace_ns = 100 * UNITS_NS_PER_MS,
	};
}

struct harness *harness_with(const struct core_config *config)
{
	struct harness *h = calloc(1, sizeof(*h));

	assert_non_null(h);
	h->now_ns = UNITS_NS_PER_S;
	assert_int_equal(core_new(config, &ops, h, &h->core), 0);
	harness_space(h, "default");
	return h;
}

struct harness *harness_new(uint32_t pages, uint32_t slab_pages)
{
	struct core_config config = harness_config(pages, slab_pages);

	return harness_with(&config);
}

void harness_free(struct harness *h)
{
	harness_check(h);
	core_free(h->core);
	free(h);
}

uint32_t harness_space(struct harness *h, const char *name)
{
	struct core_space_args args = {.name = name, .floor_bytes = 0};
	int space = core_space_add(h->core, &args);

	assert_true(space >= 0);
	return (uint32_t)space;
}

uint32_t harness_session(struct harness *h, uint32_t space, uint64_t process, uint64_t group)
{
	struct core_session_args args = {
		.space = space,
		.leases_max = HARNESS_ROWS_MAX,
		.waiting_max = 4,
		.process = process ? process : 1000 + ++h->tag,
		.group = group,
		.name = "test",
	};
	int session = core_session_open(h->core, &args, h->now_ns);

	assert_true(session >= 0);
	return (uint32_t)session;
}

uint32_t harness_admin(struct harness *h)
{
	struct core_session_args args = {.leases_max = 1, .process = 999, .admin = true};
	int session = core_session_open(h->core, &args, h->now_ns);

	assert_true(session >= 0);
	return (uint32_t)session;
}

uint32_t harness_format(struct harness *h, uint32_t session, uint32_t id, uint32_t page_tokens,
			uint32_t parts, uint64_t page_bytes)
{
	static const uint32_t first[KVD_PARTS_MAX];

	return harness_format_on(h, session, id, page_tokens, parts, page_bytes, first);
}

uint32_t harness_format_on(struct harness *h, uint32_t session, uint32_t id, uint32_t page_tokens,
			   uint32_t parts, uint64_t page_bytes, const uint32_t *devices)
{
	struct kvd_format_wire wire = {.page_tokens = page_tokens, .part_count = parts};

	wire.identity[0] = (uint8_t)id;
	for (uint32_t i = 0; i < parts; i++)
		wire.parts[i] = (struct kvd_part_wire){
			.page_bytes = page_bytes, .align = 64, .shard = i, .device = devices[i]};
	struct harness_reply *r = harness_call(
		h, session, (struct kvd_req){.op = KVD_OP_FORMAT, .in_bytes = sizeof(wire)}, &wire);
	assert_int_equal(r->rep.result, 0);
	return (uint32_t)r->rep.aux;
}

uint32_t harness_send(struct harness *h, uint32_t session, struct kvd_req req, const void *in)
{
	static const uint8_t none[CORE_RANDOM_BYTES];
	uint8_t random[CORE_RANDOM_BYTES];

	memcpy(random, none, sizeof(random));
	req.tag = ++h->tag;
	memcpy(random, &req.tag, sizeof(req.tag));
	reply_of(h, req.tag)->came = false;
	assert_true(req.in_bytes <= sizeof(h->payloads[0]));
	if (req.in_bytes > 0)
		memcpy(h->payloads[req.tag % HARNESS_REPLIES_MAX], in, req.in_bytes);
	assert_int_equal(core_request(h->core, session, &req, random, h->now_ns), 0);
	if (!h->slow)
		harness_time(h, 0);
	harness_check(h);
	return req.tag;
}

struct harness_reply *harness_call(struct harness *h, uint32_t session, struct kvd_req req,
				   const void *in)
{
	struct harness_reply *r = reply_of(h, harness_send(h, session, req, in));

	assert_true(r->came);
	return r;
}

struct harness_reply *harness_acquire(struct harness *h, uint32_t session, uint32_t format,
				      const uint32_t *tokens, uint32_t n, uint32_t decode_blocks)
{
	struct kvd_req req = {
		.op = KVD_OP_ACQUIRE,
		.format = format,
		.n = n,
		.in_bytes = n * 4,
		.arg32 = decode_blocks,
		.out_bytes = 8192,
	};

	return harness_call(h, session, req, tokens);
}

int harness_seal(struct harness *h, uint32_t session, uint64_t lease, uint32_t first,
		 uint32_t count)
{
	struct kvd_req req = {.op = KVD_OP_SEAL, .lease = lease, .first = first, .m = count};

	return harness_call(h, session, req, NULL)->rep.result;
}

int harness_release(struct harness *h, uint32_t session, uint64_t lease)
{
	struct kvd_req req = {.op = KVD_OP_RELEASE, .lease = lease};

	return harness_call(h, session, req, NULL)->rep.result;
}

void harness_cache(struct harness *h, uint32_t session, uint32_t format, const uint32_t *tokens,
		   uint32_t n)
{
	struct kvd_rep rep = harness_acquire(h, session, format, tokens, n, 0)->rep;
	uint32_t page_tokens = h->core->formats[format].page_tokens;
	uint32_t first = rep.at.cached_tokens / page_tokens;

	assert_int_equal(rep.result, 0);
	if (n / page_tokens > first)
		assert_int_equal(
			harness_seal(h, session, rep.lease, first, n / page_tokens - first), 0);
	assert_int_equal(harness_release(h, session, rep.lease), 0);
}

const struct kvd_lease_row *harness_row(const struct harness *h, uint32_t session, uint64_t lease)
{
	return &h->rows[session][KVD_LEASE_ROW(lease)];
}

void harness_orders(struct harness *h, int make_result)
{
	for (uint32_t i = 0; i < h->order_count; i++) {
		struct core_order o = h->orders[i];
		core_complete(h->core, o.kind, o.slab,
			      o.kind == CORE_ORDER_SLAB_MAKE ? make_result : 0, h->now_ns);
	}
	h->order_count = 0;
}

void harness_time(struct harness *h, uint64_t ms)
{
	h->now_ns += ms * UNITS_NS_PER_MS;
	for (uint32_t i = 0; i < 1000; i++) {
		core_time(h->core, h->now_ns);
		if (!h->slow && h->order_count > 0)
			harness_orders(h, 0);
		else if (!core_busy(h->core))
			return;
	}
	fail_msg("the core never comes to rest");
}

void harness_transfer(struct harness *h, uint32_t i, int result)
{
	uint32_t id = h->transfers[i].id;

	assert_true(i < h->transfer_count);
	memmove(&h->transfers[i], &h->transfers[i + 1],
		(h->transfer_count - i - 1) * sizeof(h->transfers[0]));
	h->transfer_count--;
	core_transfer_done(h->core, id, result, h->now_ns);
	harness_time(h, 0);
	harness_check(h);
}

uint32_t harness_transfers(struct harness *h, int result)
{
	uint32_t count = 0;

	for (; h->transfer_count > 0; count++)
		harness_transfer(h, 0, result);
	return count;
}

void harness_close(struct harness *h, uint32_t session, enum core_session_end how)
{
	core_session_close(h->core, session, how, h->now_ns);
	harness_time(h, 0);
	assert_false(core_session_busy(h->core, session));
	harness_check(h);
}

void harness_check(struct harness *h)
{
	char error[256];

	if (core_check(h->core, error, sizeof(error)) != 0)
		fail_msg("core_check: %s", error);
}

uint64_t harness_pages(const struct harness *h, enum kvd_page_state state)
{
	return h->core->pages_by_state[state];
}

void harness_tokens(uint32_t seed, uint32_t n, uint32_t *out)
{
	for (uint32_t i = 0; i < n; i++)
		out[i] = seed * 1000003u + i;
}
