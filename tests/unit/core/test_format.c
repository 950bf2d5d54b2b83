/* SPDX-License-Identifier: Apache-2.0 */
/* Formats, geometries, namespaces and limits of the core. */
#include "tests/unit/core/harness.h"

#include "kvd/core/mutant.h"
#include "kvd/core/state.h"

#include <errno.h>

static int add(struct harness *h, uint32_t s, const struct kvd_format_wire *wire)
{
	struct kvd_req req = {.op = KVD_OP_FORMAT, .in_bytes = sizeof(*wire)};

	return harness_call(h, s, req, wire)->rep.result;
}

static void same_identity_means_same_format(void **state)
{
	struct harness *h = harness_new(64, 16);
	uint32_t s = harness_session(h, 0, 0, 0);
	struct kvd_format_wire wire = {.page_tokens = 16, .part_count = 1, .identity = {9}};

	wire.parts[0] = (struct kvd_part_wire){.page_bytes = 4000, .align = 64};
	assert_int_equal(add(h, s, &wire), 0);
	assert_int_equal(add(h, s, &wire), 0);
	assert_int_equal(h->core->format_count, 1);
	assert_int_equal(h->core->geometries[0].stride_bytes, 4096);
	wire.parts[0].page_bytes = 4001;
	assert_int_equal(add(h, s, &wire), -EEXIST);
	wire.page_tokens = 24;
	assert_int_equal(add(h, s, &wire), -EINVAL);
	wire.page_tokens = 16;
	wire.identity[0] = 10;
	wire.parts[0].page_bytes = 1u << 30;
	assert_int_equal(add(h, s, &wire), -E2BIG);
	harness_free(h);
}

/* Slabs waste at most 2 %. */
static void slabs_waste_little(void **state)
{
	struct core_config config = harness_config(4096, 64);
	config.slab_align_bytes = 2 << 20;
	config.pool_bytes[0] = 1ull << 30;
	config.slab_bytes_min = 8 << 20;
	struct harness *h = harness_with(&config);
	uint32_t s = harness_session(h, 0, 0, 0);

	harness_format(h, s, 1, 64, 1, 1500000);
	const struct geometry *g = &h->core->geometries[0];
	assert_true(g->slab_bytes % (2 << 20) == 0);
	assert_true(g->slab_bytes - g->page_count * g->stride_bytes <= g->slab_bytes / 50);
	harness_free(h);
}

static void secrets_open_namespaces(void **state)
{
	struct harness *h = harness_new(16, 4);
	struct core_space_args args = {.name = "tenant", .secret = "abc", .secret_bytes = 3};

	int space = core_space_add(h->core, &args);
	assert_true(space > 0);
	assert_int_equal(core_space_add(h->core, &args), -EEXIST);
	assert_int_equal(core_space_find(h->core, "tenant", (const uint8_t *)"abc", 3), space);
	assert_int_equal(core_space_find(h->core, "tenant", (const uint8_t *)"abd", 3), -EACCES);
	assert_int_equal(core_space_find(h->core, "tenant", NULL, 0), -EACCES);
	assert_int_equal(core_space_find(h->core, "nobody", NULL, 0), -ENOENT);
	assert_int_equal(core_space_find(h->core, "", NULL, 0), 0);
	harness_free(h);
}

static void limits_are_checked_at_start(void **state)
{
	struct core_config config = harness_config(16, 4);
	struct core *core = NULL;
	struct harness *h = harness_new(16, 4);
	struct core_ops ops = h->core->ops;

	assert_true(core_bytes(&config) > 0);
	config.policy = "best";
	assert_int_equal(core_bytes(&config), 0);
	assert_int_equal(core_new(&config, &ops, h, &core), -EINVAL);
	assert_null(core);
	harness_free(h);
}

static void garbage_breaks_the_session(void **state)
{
	struct harness *h = harness_new(16, 4);
	uint32_t s = harness_session(h, 0, 0, 0);
	uint8_t random[CORE_RANDOM_BYTES] = {0};
	struct kvd_req req = {.op = KVD_OP_COUNT};

	assert_int_equal(core_request(h->core, s, &req, random, 0), -EPROTO);
	req.op = KVD_OP_HELLO;
	assert_int_equal(core_request(h->core, s, &req, random, 0), -EPROTO);
	req = (struct kvd_req){.op = KVD_OP_SEAL, .flags = 1};
	assert_int_equal(core_request(h->core, s, &req, random, 0), -EPROTO);
	req = (struct kvd_req){.op = KVD_OP_SEAL, .n = UINT32_MAX, .arg32 = UINT32_MAX};
	assert_int_equal(harness_call(h, s, req, NULL)->rep.result, -E2BIG);
	harness_free(h);
}

static void tables_have_names(void **state)
{
	for (uint32_t i = 0; i < state_row_count(); i++)
		assert_string_not_equal(state_row_name(i), "?");
	assert_string_equal(state_row_name(state_row_count()), "?");
	for (int i = 1; i < MUTANT_COUNT; i++)
		assert_non_null(mutant_name(i));
	assert_null(mutant_name(0));
	assert_null(mutant_name(MUTANT_COUNT));
}

TEST_MAIN(format, cmocka_unit_test(same_identity_means_same_format),
	  cmocka_unit_test(slabs_waste_little), cmocka_unit_test(secrets_open_namespaces),
	  cmocka_unit_test(limits_are_checked_at_start),
	  cmocka_unit_test(garbage_breaks_the_session), cmocka_unit_test(tables_have_names))
