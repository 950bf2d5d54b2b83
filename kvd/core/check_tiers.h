/* SPDX-License-Identifier: Apache-2.0 */
/* check_tiers.h: the invariants of slots, of the orders of tiers, and of what moves. */
#ifndef KVD_CORE_CHECK_TIERS_H
#define KVD_CORE_CHECK_TIERS_H

#include "kvd/core/check.h"

void check_tiers_slots(struct check *c);
void check_tiers_lists(struct check *c);
void check_tiers_moving(struct check *c);

#endif
