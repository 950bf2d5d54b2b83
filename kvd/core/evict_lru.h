/* SPDX-License-Identifier: Apache-2.0 */
/* evict_lru.h: the least recently used leaf goes first. */
#ifndef KVD_CORE_EVICT_LRU_H
#define KVD_CORE_EVICT_LRU_H

#include "kvd/core/evict.h"

extern const struct evict_policy evict_lru;

#endif
