/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slab that is needed elsewhere: its importers are asked, waited for, and expelled if they do not
 * answer. The pool has room for one slab, so the second size of page always needs the first's.
 */
#include "base/units.h"
#include "kvd/core/core.h"
#include "tests/test.h"
#include <errno.h>

#define SLAB_BYTES 65536u
#define GRACE_NS (50 * UNITS_NS_PER_MS)
#define TOKENS 16u
#define NOBODY UINT32_MAX

static struct {
	struct core *core;
	uint64_t now_ns;
	const struct kvd_format_wire *format;
	struct kvd_rep rep; /* the last one */
	uint32_t replies;
	struct core_order order; /* the last one; made at once, destroyed by hand */
	uint32_t expelled;
	uint32_t retiring[2]; /* what row 0 says */
} w;

static const uint32_t tokens[TOKENS] = {1, 2, 3};

static int on_payload(void *ctx, uint32_t session, const struct kvd_req *req, void *out)
{
	/* Asked for again when the request has waited. */
	memcpy(out, req->op == KVD_OP_FORMAT ? (const void *)w.format : tokens, req->in_bytes);
	return 0;
}

static void on_reply(void *ctx, uint32_t session, const struct kvd_req *req,
		     const struct kvd_rep *rep, const void *payload)
{
	w.rep = *rep;
	w.replies++;
}

static void on_lease_row(void *ctx, uint32_t session, uint32_t row,
			 const struct kvd_lease_row *value)
{
}

static void on_session_row(void *ctx, uint32_t session, const struct kvd_session_row *value)
{
	w.retiring[session] = value->retiring_slab;
}

static void on_order(void *ctx, const struct core_order *order)
{
	w.order = *order;
}

static void on_expel(void *ctx, uint32_t session)
{
	assert_int_equal(w.expelled, NOBODY);
	w.expelled = session;
}

static void on_note(void *ctx, enum core_note_kind kind, const char *text)
{
}

static const struct core_ops ops = {.payload = on_payload,
				    .reply = on_reply,
				    .lease_row = on_lease_row,
				    .session_row = on_session_row,
				    .order = on_order,
				    .expel = on_expel,
				    .note = on_note};

/* Lets the core and the maker of slabs work until nothing is left to do. */
static void settle(void)
{
	for (int i = 0; i < 100; i++) {
		if (w.order.slab_bytes && w.order.kind == CORE_ORDER_SLAB_MAKE) {
			uint32_t slab = w.order.slab;
			w.order = (struct core_order){0};
			core_complete(w.core, CORE_ORDER_SLAB_MAKE, slab, 0, w.now_ns);
		}
		core_time(w.core, w.now_ns);
	}
}

static void request(uint32_t session, struct kvd_req req)
{
	static const uint8_t random[CORE_RANDOM_BYTES];

	assert_int_equal(core_request(w.core, session, &req, random, w.now_ns), 0);
	settle();
}

static uint32_t format(uint32_t session, uint64_t page_bytes)
{
	struct kvd_format_wire f = {.page_tokens = TOKENS,
				    .part_count = 1,
				    .layout = "test",
				    .parts = {{.page_bytes = page_bytes, .align = 64}}};

	memcpy(f.identity, &page_bytes, sizeof(page_bytes));
	w.format = &f;
	request(session, (struct kvd_req){.op = KVD_OP_FORMAT, .in_bytes = sizeof(f)});
	assert_int_equal(w.rep.result, 0);
	return (uint32_t)w.rep.aux;
}

static void acquire(uint32_t session, uint32_t of_format, uint32_t deadline_ms)
{
	request(session, (struct kvd_req){.op = KVD_OP_ACQUIRE,
					  .format = of_format,
					  .n = TOKENS,
					  .in_bytes = sizeof(tokens),
					  .out_bytes = 64,
					  .deadline_ms = deadline_ms});
}

static uint32_t session_new(uint64_t process)
{
	struct core_session_args args = {
		.leases_max = 8, .waiting_max = 4, .process = process, .name = "test"};
	int s = core_session_open(w.core, &args, w.now_ns);

	assert_in_range(s, 0, 1);
	return (uint32_t)s;
}

static int setup(void **state)
{
	struct core_config config = {.pool_bytes = SLAB_BYTES,
				     .pages_max = 256,
				     .nodes_max = 256,
				     .index_tokens_max = 4096,
				     .sessions_max = 2,
				     .leases_max = 16,
				     .formats_max = 4,
				     .geometries_max = 4,
				     .spaces_max = 1,
				     .request_tokens_max = 1024,
				     .slab_bytes_min = SLAB_BYTES,
				     .slab_align_bytes = 4096,
				     .page_align_bytes = 64,
				     .session_share_permille = 1000,
				     .retire_grace_ns = GRACE_NS};
	struct core_space_args space = {.name = "default"};

	memset(&w, 0, sizeof(w));
	w.expelled = NOBODY;
	w.now_ns = UNITS_NS_PER_S;
	assert_int_equal(core_new(&config, &ops, NULL, &w.core), 0);
	assert_int_equal(core_space_add(w.core, &space), 0);
	return 0;
}

static int teardown(void **state)
{
	char error[256] = "";

	if (core_check(w.core, error, sizeof(error)) != 0)
		fail_msg("%s", error);
	core_free(w.core);
	return 0;
}

/* The first has used the only slab and maps it still; the second waits for it. */
static void contend(uint32_t *out_first, uint32_t *out_second)
{
	uint32_t a = session_new(1), b = session_new(2);

	acquire(a, format(a, 4096), 0);
	if (w.rep.result == KVD_FULL)
		acquire(a, 0, 1000);
	assert_int_equal(w.rep.result, 0);
	assert_int_equal(core_slab_imported(w.core, a, 0), 0);
	request(a, (struct kvd_req){.op = KVD_OP_RELEASE, .lease = w.rep.lease});
	uint32_t large = format(b, 8192);
	uint32_t replies = w.replies;
	acquire(b, large, 10000);
	assert_int_equal(w.replies, replies);
	assert_int_equal(w.retiring[a], 1);
	*out_first = a;
	*out_second = b;
}

static void destroyed(void)
{
	assert_int_equal(w.order.kind, CORE_ORDER_SLAB_DESTROY);
	w.order = (struct core_order){0};
	core_complete(w.core, CORE_ORDER_SLAB_DESTROY, 0, 0, w.now_ns);
	settle();
}

static void test_importer_answers(void **state)
{
	uint32_t a, b;

	contend(&a, &b);
	request(a, (struct kvd_req){.op = KVD_OP_SLAB_GONE, .arg32 = 0});
	assert_false(w.order.forced);
	destroyed();
	assert_int_equal(w.rep.op, KVD_OP_ACQUIRE);
	assert_int_equal(w.rep.result, 0);
	assert_int_equal(w.expelled, NOBODY);
}

/* It is expelled before the slab goes, not earlier; then the other gets the pages. */
static void test_importer_is_silent(void **state)
{
	uint32_t a, b;

	contend(&a, &b);
	w.now_ns += GRACE_NS - 1;
	settle();
	assert_int_equal(w.expelled, NOBODY);
	assert_int_equal(w.order.slab_bytes, 0);
	w.now_ns += 1;
	settle();
	assert_int_equal(w.expelled, a);
	assert_true(w.order.forced);
	core_session_close(w.core, a, CORE_END_BROKEN, w.now_ns);
	destroyed();
	assert_int_equal(w.rep.op, KVD_OP_ACQUIRE);
	assert_int_equal(w.rep.result, 0);
}

/* What it still waits for is not given to it. */
static void test_expelled_while_it_waits(void **state)
{
	uint32_t a, b;

	contend(&a, &b);
	uint32_t replies = w.replies;
	acquire(a, 1, 10000);
	assert_int_equal(w.replies, replies);
	w.now_ns += GRACE_NS;
	settle();
	assert_int_equal(w.expelled, a);
	core_session_close(w.core, a, CORE_END_BROKEN, w.now_ns);
	destroyed();
	assert_int_equal(w.replies, replies + 1);
}

/* Who has ended is not expelled: its process may only keep the memory alive. */
static void test_importer_has_ended(void **state)
{
	uint32_t a, b;

	contend(&a, &b);
	core_session_close(w.core, a, CORE_END_BROKEN, w.now_ns);
	w.now_ns += GRACE_NS;
	settle();
	assert_int_equal(w.expelled, NOBODY);
	assert_true(w.order.forced);
	destroyed();
	assert_int_equal(w.rep.result, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
TEST_MAIN(turnover, TEST(test_importer_answers), TEST(test_importer_is_silent),
	  TEST(test_expelled_while_it_waits), TEST(test_importer_has_ended))
