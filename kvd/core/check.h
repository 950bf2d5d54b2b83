/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.h: every invariant, over everything. The first that does not hold is put into words. In
 * three files: pages and slabs, the tree, and who uses them.
 */
#ifndef KVD_CORE_CHECK_H
#define KVD_CORE_CHECK_H

#include "kvd/core/machine.h"

#include <stdio.h>

struct check {
	const struct core *core;
	char *error;
	size_t size;
	bool failed;
};

/* Notes the first failure and returns from the checking function. */
#define CHECK(c, condition, ...)                                                                   \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			if (!(c)->failed)                                                          \
				snprintf((c)->error, (c)->size, __VA_ARGS__);                      \
			(c)->failed = true;                                                        \
			return;                                                                    \
		}                                                                                  \
	} while (0)

/* 0, or -EUCLEAN with words in error[size]. */
int check_all(const struct core *core, char *error, size_t size);

#endif
