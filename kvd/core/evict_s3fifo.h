/* SPDX-License-Identifier: Apache-2.0 */
/* evict_s3fifo.h: newcomers wait in a small queue, and what is used again in a main one. */
#ifndef KVD_CORE_EVICT_S3FIFO_H
#define KVD_CORE_EVICT_S3FIFO_H

#include "kvd/core/evict.h"

extern const struct evict_policy evict_s3fifo;

#endif
