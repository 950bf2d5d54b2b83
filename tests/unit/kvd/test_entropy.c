/* SPDX-License-Identifier: Apache-2.0 */
/* Random bytes are never handed out twice, also across batches. */
#include "kvd/entropy.h"
#include "tests/test.h"

#define DRAWS 2000

static int compare(const void *a, const void *b)
{
	return memcmp(a, b, 16);
}

static void test_no_draw_repeats(void **state)
{
	static uint8_t seen[DRAWS][16];
	static struct entropy e;

	for (int i = 0; i < DRAWS; i++)
		memcpy(seen[i], entropy_take(&e, 16), 16);
	qsort(seen, DRAWS, 16, compare);
	for (int i = 1; i < DRAWS; i++)
		assert_memory_not_equal(seen[i - 1], seen[i], 16);
}

TEST_MAIN(entropy, cmocka_unit_test(test_no_draw_repeats))
