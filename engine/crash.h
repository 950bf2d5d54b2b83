/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Named points at which a test kills the engine. Built with -Dcrash_points=true the environment
 * variable KVD_CRASH_AT=NAME[:N] makes the process SIGKILL itself when it passes the point for the
 * Nth time; in all other builds a point is nothing. The table is what tests enumerate; each name
 * stands at one place in the code.
 */
#ifndef ENGINE_CRASH_H
#define ENGINE_CRASH_H

#define CRASH_POINTS(X)                                                                            \
	X("before_acquire")                                                                        \
	X("after_acquire")                                                                         \
	X("after_lease")                                                                           \
	X("after_tail_copy")                                                                       \
	X("mid_prefill")                                                                           \
	X("mid_decode")                                                                            \
	X("before_seal")                                                                           \
	X("after_seal")                                                                            \
	X("before_topup")                                                                          \
	X("after_topup")                                                                           \
	X("after_bind")                                                                            \
	X("before_release")                                                                        \
	X("after_release")                                                                         \
	X("before_bye")

#ifdef KVD_CRASH_POINTS
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void crash_here(const char *name, unsigned *passed)
{
	const char *at = getenv("KVD_CRASH_AT");
	size_t length = strlen(name);

	if (!at || strncmp(at, name, length) != 0 || (at[length] != '\0' && at[length] != ':'))
		return;
	unsigned long nth = at[length] == ':' ? strtoul(at + length + 1, NULL, 10) : 1;

	if (++*passed >= nth)
		kill(getpid(), SIGKILL);
}

#define CRASH_POINT(name)                                                                          \
	do {                                                                                       \
		static unsigned passed_;                                                           \
		crash_here(name, &passed_);                                                        \
	} while (0)
#else
#define CRASH_POINT(name) ((void)0)
#endif

#endif
