/* SPDX-License-Identifier: Apache-2.0 */
/* Turns the text of one option into its field. */
#ifndef KVD_OPTION_VALUE_H
#define KVD_OPTION_VALUE_H

#include "kvd/options.h"

/* 0, or -EINVAL with words in why[size]: what was given, and what is wanted. */
int option_value_set(struct options *o, const struct option_row *row, const char *value, char *why,
		     size_t size);

#endif
