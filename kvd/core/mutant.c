/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of the mutants, for the simulator's report, and the switch itself. There is no state
 * but the switch, and it exists only in the library built with KVD_MUTANTS.
 */
#include "kvd/core/mutant.h"

#include <stddef.h>

#ifdef KVD_MUTANTS
int core_mutant = MUTANT_NONE;
#endif

static const struct {
	const char *name;
	const char *text;
} mutants[MUTANT_COUNT] = {
#define MUTANT_ROW(name, text) [MUTANT_##name] = {#name, text},
	MUTANT_TABLE(MUTANT_ROW)
#undef MUTANT_ROW
};

const char *mutant_name(int mutant)
{
	return mutant > MUTANT_NONE && mutant < MUTANT_COUNT ? mutants[mutant].name : NULL;
}

const char *mutant_text(int mutant)
{
	return mutant > MUTANT_NONE && mutant < MUTANT_COUNT ? mutants[mutant].text : NULL;
}
