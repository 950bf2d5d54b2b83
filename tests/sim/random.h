/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator's only source of chance: SplitMix64 (Steele, Lea, Flood 2014) on one word. */
#ifndef SIM_RANDOM_H
#define SIM_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct random {
	uint64_t state;
};

static inline uint64_t random_mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static inline uint64_t random_u64(struct random *r)
{
	return random_mix(r->state += 0x9e3779b97f4a7c15ull);
}

/* Uniform in [0, n), n >= 1. */
static inline uint32_t random_below(struct random *r, uint32_t n)
{
	return (uint32_t)(((random_u64(r) >> 32) * n) >> 32);
}

/* Uniform in [low, high]. */
static inline uint32_t random_range(struct random *r, uint32_t low, uint32_t high)
{
	return low + random_below(r, high - low + 1);
}

static inline bool random_percent(struct random *r, uint32_t percent)
{
	return random_below(r, 100) < percent;
}

#endif
