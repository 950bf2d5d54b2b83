/* SPDX-License-Identifier: Apache-2.0 */
/* evict_cost.h: what is least likely to save anything goes first. */
#ifndef KVD_CORE_EVICT_COST_H
#define KVD_CORE_EVICT_COST_H

#include "kvd/core/evict.h"

extern const struct evict_policy evict_cost;

#endif
