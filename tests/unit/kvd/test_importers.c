/* SPDX-License-Identifier: Apache-2.0 */
/* Who maps a slab: counted once, gone by word or death, and never more than there can be. */
#include "kvd/importers.h"
#include "tests/test.h"

static struct importers s;

static int teardown(void **state)
{
	importers_fini(&s);
	return 0;
}

static void test_sessions_come_and_go(void **state)
{
	for (uint32_t session = 0; session < 100; session++)
		for (int again = 0; again < 3; again++)
			assert_int_equal(importers_add(&s, session, 1000 + session / 2), 0);
	assert_int_equal(s.count, 100);
	importers_drop_session(&s, 7);
	importers_drop_session(&s, 7);
	importers_drop_session(&s, 200);
	assert_int_equal(s.count, 99);
	importers_drop_process(&s, 1010);
	assert_int_equal(s.count, 97);
	for (uint32_t session = 0; session < 100; session++)
		importers_drop_session(&s, session);
	assert_int_equal(s.count, 0);
}

/* A client that breaks and comes back for ever leaves one trace. */
static void test_broken_sessions_of_one_process(void **state)
{
	for (int round = 0; round < 1000; round++) {
		assert_int_equal(importers_add(&s, 3, 77), 0);
		importers_orphan_session(&s, 3);
	}
	assert_int_equal(s.count, 1);
	importers_drop_session(&s, 3);
	assert_int_equal(s.count, 1);
	importers_drop_process(&s, 78);
	assert_int_equal(s.count, 1);
	importers_drop_process(&s, 77);
	assert_int_equal(s.count, 0);
}

/* Its word is about sessions that have ended. */
static void test_a_process_that_says_it_is_quiet(void **state)
{
	assert_int_equal(importers_add(&s, 3, 77), 0);
	importers_orphan_session(&s, 3);
	assert_int_equal(importers_add(&s, 3, 77), 0);
	assert_int_equal(importers_add(&s, 4, 78), 0);
	importers_orphan_session(&s, 4);
	assert_int_equal(s.count, 3);
	importers_drop_orphan(&s, 77);
	assert_int_equal(s.count, 2);
	importers_drop_session(&s, 3);
	assert_int_equal(s.count, 1);
}

#define TEST(f) cmocka_unit_test_teardown(f, teardown)
TEST_MAIN(importers, TEST(test_sessions_come_and_go), TEST(test_broken_sessions_of_one_process),
	  TEST(test_a_process_that_says_it_is_quiet))
