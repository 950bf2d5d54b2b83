/* SPDX-License-Identifier: Apache-2.0 */
/* check_tree.h: the prefix tree's part of the check. */
#ifndef KVD_CORE_CHECK_TREE_H
#define KVD_CORE_CHECK_TREE_H

#include "kvd/core/check.h"

void check_tree_nodes(struct check *c);
void check_tree_pins(struct check *c);

#endif
