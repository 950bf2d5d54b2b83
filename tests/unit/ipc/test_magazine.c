/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks come, are bound, come back and are returned; none is counted twice. */
#include "tests/test.h"
#include "tests/unit/ipc/fake_kvd.h"
#include <errno.h>

static struct kvd_event wait_one(struct kvd *k)
{
	struct kvd_event event = {0};

	while (kvd_wait(k, UINT64_MAX, &event, 1) == 0)
		;
	return event;
}

static void topup(struct kvd *k, uint32_t format, uint32_t n, int result)
{
	assert_int_equal(kvd_topup(k, format, n, 7), 0);
	struct kvd_event event = wait_one(k);
	assert_int_equal(event.kind, KVD_EV_TOPUP);
	assert_int_equal(event.format, format);
	assert_int_equal(event.result, result);
}

static void magazine_fills_and_empties(void **state)
{
	struct fake_kvd *f = fake_start();
	uint32_t format, tokens[16] = {0};
	struct kvd *k = fake_open(f, 2, &format);
	struct kvd_acquire_args args = {.format = format, .tokens = tokens, .token_count = 16};
	struct kvd_lease *l;
	struct kvd_info info;
	struct kvd_req req;

	assert_int_equal(kvd_acquire(k, &args, &l), 0);
	assert_int_equal(wait_one(k).result, 0);
	assert_int_equal(kvd_bind(k, l), KVD_FULL);
	assert_int_equal(kvd_topup(k, format, 0, 0), -EINVAL);
	assert_int_equal(kvd_topup(k, 99, 1, 0), -EINVAL);
	assert_int_equal(kvd_topup(k, format, UINT32_MAX, 0), -EINVAL);
	topup(k, format, 5, 0);
	assert_int_equal(kvd_magazine(k, format), 5);
	kvd_info(k, &info);
	assert_int_equal(info.magazine_pages, 10);
	fake_result(f, KVD_OP_TOPUP, KVD_FULL);
	topup(k, format, 3, KVD_FULL);
	assert_int_equal(kvd_magazine(k, format), 5);
	for (int i = 0; i < 5; i++)
		assert_int_equal(kvd_bind(k, l), 0);
	assert_int_equal(kvd_bind(k, l), KVD_FULL);
	assert_int_equal(kvd_release(k, l, 0, NULL, 0), 0);
	assert_int_equal(kvd_magazine(k, format), 5);
	assert_int_equal(kvd_return(k, format, 2), 0);
	assert_int_equal(kvd_magazine(k, format), 3);
	assert_int_equal(kvd_return(k, format, UINT32_MAX), 0);
	assert_int_equal(kvd_magazine(k, format), 0);
	assert_int_equal(kvd_return(k, format, UINT32_MAX), 0);
	assert_int_equal(kvd_return(k, 99, 1), -EINVAL);
	kvd_close(k);
	assert_int_equal(fake_count(f, KVD_OP_RETURN, &req), 2);
	assert_int_equal(req.n, 6);
	/* The oldest six pages, each once: pages 0 and 1 are the prompt's. */
	const struct kvd_handle *back = (const void *)f->payload[KVD_OP_RETURN];
	uint32_t seen = 0;
	for (uint32_t i = 0; i < 6; i++)
		seen |= 1u << back[i].page;
	assert_int_equal(__builtin_popcount(seen), 6);
	assert_int_equal(seen & 3, 0);
	fake_stop(f);
}

static void magazine_returns_more_than_one_request_holds(void **state)
{
	struct fake_kvd *f = fake_start();
	uint32_t format;
	struct kvd *k = fake_open(f, 1, &format);
	struct kvd_req req;

	fake_set(f, &f->next_page, 0);
	for (int i = 0; i < 5; i++)
		topup(k, format, 100, 0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(kvd_topup(k, format, 1000, 0), 0);
	for (int i = 0; i < 5; i++)
		wait_one(k);
	assert_int_equal(kvd_magazine(k, format), 5500);
	assert_int_equal(kvd_return(k, format, UINT32_MAX), 0);
	assert_int_equal(kvd_magazine(k, format), 0);
	kvd_close(k);
	assert_int_equal(fake_count(f, KVD_OP_RETURN, &req), 3);
	fake_stop(f);
}

TEST_MAIN(magazine, cmocka_unit_test(magazine_fills_and_empties),
	  cmocka_unit_test(magazine_returns_more_than_one_request_holds))
