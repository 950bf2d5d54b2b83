/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of a table, and what a context refuses and costs. */
#include "tests/unit/kernels/fixture.h"

#include <errno.h>

static void tables_are_named(void **state)
{
	(void)state;
	assert_non_null(kernels_cpu(NULL));
	assert_non_null(kernels_cpu("portable"));
	assert_null(kernels_cpu("abacus"));
	assert_ptr_equal(kernels_cpu("portable"), kernels_cpu("portable"));
	FIXTURE_EACH_TABLE(ops)
	{
		assert_string_equal(ops->layout, KVD_LAYOUT_CPU_BF16);
		assert_non_null(strstr(ops->numerics_id, ops->name));
	}
}

static void contexts_have_limits(void **state)
{
	struct kernels_limits limits = {.rows_max = 1, .head_dim_max = 4096};
	struct kernels_ctx *ctx;

	(void)state;
	assert_int_equal(kernels_ctx_new(kernels_cpu(NULL), &limits, 1, &ctx), -EINVAL);
	limits.head_dim_max = 64;
	limits.vocab = 1000;
	assert_true(kernels_cpu(NULL)->ctx_bytes(&limits, 2) >
		    kernels_cpu(NULL)->ctx_bytes(&limits, 1));
	kernels_ctx_free(NULL);
}

TEST_MAIN(kernels, cmocka_unit_test(tables_are_named), cmocka_unit_test(contexts_have_limits))
