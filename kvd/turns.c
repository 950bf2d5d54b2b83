/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A histogram with four buckets per power of two. When it holds many turns all counts are halved,
 * so that what happened recently weighs more. One thread.
 */
#include "kvd/turns.h"
#include "base/bits.h"

static uint32_t turns_bucket(uint64_t ns)
{
	if (ns < 4)
		return (uint32_t)ns;
	uint32_t power = 63u - (uint32_t)__builtin_clzll(ns);

	return (power - 1) * 4 + (uint32_t)(ns >> (power - 2) & 3);
}

static uint64_t turns_upper_ns(uint32_t bucket)
{
	if (bucket < 4)
		return bucket;
	uint32_t power = bucket / 4 + 1;

	return ((4ull + bucket % 4 + 1) << (power - 2)) - 1;
}

void turns_add(struct turns *t, uint64_t ns)
{
	if (t->total >= TURNS_HALVE_AT) {
		t->total = 0;
		for (uint32_t i = 0; i < TURNS_BUCKETS; i++)
			t->total += t->buckets[i] /= 2;
	}
	t->buckets[turns_bucket(ns)]++;
	t->total++;
}

uint64_t turns_quantile_ns(const struct turns *t, uint32_t permille)
{
	uint64_t rank = bits_div_ceil(t->total * permille, 1000), seen = 0;

	if (t->total == 0)
		return 0;
	for (uint32_t i = 0; i < TURNS_BUCKETS; i++) {
		seen += t->buckets[i];
		if (seen >= rank)
			return turns_upper_ns(i);
	}
	return turns_upper_ns(TURNS_BUCKETS - 1);
}
