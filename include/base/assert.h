/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asserts are for our own bugs, never for what a peer, a file or a device did. They stay on in
 * release builds: a wrong page is worse than a dead daemon. ASSERT_DEBUG is for checks whose
 * cost shows in a profile.
 */
#ifndef BASE_ASSERT_H
#define BASE_ASSERT_H

#include <stdio.h>
#include <stdlib.h>

#define ASSERT(cond)                                                                               \
	do {                                                                                       \
		if (__builtin_expect(!(cond), 0)) {                                                \
			fprintf(stderr, "%s:%d: %s: assertion failed: %s\n", __FILE__, __LINE__,   \
				__func__, #cond);                                                  \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

#ifdef NDEBUG
#define ASSERT_DEBUG(cond) ((void)sizeof(cond))
#else
#define ASSERT_DEBUG(cond) ASSERT(cond)
#endif

#endif
