/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs device work under several seeds and compares what it leaves, byte for byte: work whose
 * result depends on the order of threads or blocks has a race.
 */
#ifndef CUDASIM_EXEC_TWICE_H
#define CUDASIM_EXEC_TWICE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cudasim/exec/exec.h"

#define TWICE_SAME (-1)

/*
 * run(arg) launches, waits and copies its result to out[0..bytes), host memory that is cleared
 * before each run. Returns TWICE_SAME, or the first byte at which a seed's result differs from
 * seed 1's, which is also told on stderr.
 */
static inline long cudasim_twice(void (*run)(void *arg), void *arg, void *out, size_t bytes,
				 unsigned int seeds)
{
	unsigned char *first = (unsigned char *)malloc(bytes);
	long differs = first ? TWICE_SAME : 0;

	for (unsigned int seed = 1; seed <= seeds && differs == TWICE_SAME; seed++) {
		memset(out, 0, bytes);
		sim_exec_seed((uint64_t)seed * 1000003);
		run(arg);
		if (seed == 1)
			memcpy(first, out, bytes);
		for (size_t i = 0; i < bytes && differs == TWICE_SAME; i++)
			if (first[i] != ((const unsigned char *)out)[i])
				differs = (long)i;
		if (differs != TWICE_SAME)
			fprintf(stderr, "cudasim: seed %u differs from seed 1 at byte %ld\n", seed,
				differs);
	}
	sim_exec_seed(0);
	free(first);
	return differs;
}

#endif
