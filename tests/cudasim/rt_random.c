/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one random sequence of a process (SplitMix64: Steele, Lea, Flood 2014). Drawn under the lock,
 * so a program of one thread makes the same choices with the same seed.
 */
#include "tests/cudasim/rt.h"

static uint64_t state;
static bool seeded;

uint64_t sim_seed(void)
{
	return rt_env_u64("CUDASIM_SEED", 1);
}

uint64_t sim_random(void)
{
	rt_lock();
	if (!seeded)
		state = sim_seed();
	seeded = true;
	uint64_t z = (state += 0x9e3779b97f4a7c15ull);
	rt_unlock();
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}
