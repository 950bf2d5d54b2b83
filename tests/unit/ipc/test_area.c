/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges never overlap, never leave the area, and all room comes back. */
#include "tests/test.h"
#include <ipc/client/area.h>

static void area_gives_back_what_it_took(void **state)
{
	struct area a;
	struct area_range r[3];

	assert_int_equal(area_init(&a, 64, 100, 2), 0);
	assert_int_equal(area_largest(&a), 96);
	assert_true(area_take(&a, 0, &r[0]));
	assert_int_equal(r[0].bytes, 0);
	assert_false(area_give(&a, &r[0]));
	assert_false(area_take(&a, 97, &r[0]));
	assert_true(area_take(&a, 41, &r[0]));
	assert_int_equal(r[0].off, 64);
	assert_int_equal(r[0].bytes, 48);
	assert_true(area_take(&a, 48, &r[1]));
	assert_false(area_take(&a, 1, &r[2]));
	assert_int_equal(area_largest(&a), 0);
	assert_true(area_give(&a, &r[0]));
	assert_int_equal(area_largest(&a), 48);
	assert_true(area_give(&a, &r[1]));
	assert_int_equal(area_largest(&a), 96);
	area_fini(&a);
}

static void area_never_overlaps(void **state)
{
	enum { BYTES = 4096, MAX = 24 };
	uint64_t seed = 42;
	struct area a;
	struct area_range live[MAX];
	uint32_t count = 0, refused = 0;

	printf("seed %llu\n", (unsigned long long)seed);
	assert_int_equal(area_init(&a, 8, BYTES, MAX), 0);
	for (int step = 0; step < 20000; step++) {
		if (count && test_random(&seed) % 2) {
			uint32_t i = (uint32_t)(test_random(&seed) % count);
			assert_true(area_give(&a, &live[i]));
			live[i] = live[--count];
			continue;
		}
		struct area_range r;
		if (!area_take(&a, 1 + (uint32_t)(test_random(&seed) % 500), &r)) {
			refused++;
			continue;
		}
		assert_true(r.off >= 8 && r.off % 8 == 0 && r.off + r.bytes <= 8 + BYTES);
		for (uint32_t i = 0; i < count; i++)
			assert_true(r.off + r.bytes <= live[i].off ||
				    live[i].off + live[i].bytes <= r.off);
		live[count++] = r;
	}
	assert_true(refused > 0);
	while (count)
		assert_true(area_give(&a, &live[--count]));
	assert_int_equal(area_largest(&a), BYTES);
	area_fini(&a);
}

TEST_MAIN(area, cmocka_unit_test(area_gives_back_what_it_took),
	  cmocka_unit_test(area_never_overlaps))
