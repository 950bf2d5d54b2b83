/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults on demand: KVD_MUTANT(name) is true where a test-only build (-DKVD_MUTANTS) runs with
 * KVD_MUTANT=name in its environment, and a constant 0 everywhere else, so that nothing is left of
 * them in a product. Each stands for a mistake that somebody could make, and a named test must see
 * it. C and C++.
 */
#ifndef KVD_BASE_MUTANT_H
#define KVD_BASE_MUTANT_H

#ifdef KVD_MUTANTS

#include <stdlib.h>
#include <string.h>

static inline int mutant_state(const char *name)
{
	const char *chosen = getenv("KVD_MUTANT");

	return chosen && strcmp(chosen, name) == 0 ? 2 : 1;
}

/* Asks the environment once for each place; threads that ask together find the same. */
#define KVD_MUTANT(name)                                                                           \
	({                                                                                         \
		static int state_;                                                                 \
		if (state_ == 0)                                                                   \
			state_ = mutant_state(#name);                                              \
		state_ == 2;                                                                       \
	})

#else

#define KVD_MUTANT(name) 0

#endif

#endif
