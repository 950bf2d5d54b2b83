/* SPDX-License-Identifier: Apache-2.0 */
/* How many log lines strangers can cause: whoever may connect could fill the disk otherwise. */
#ifndef KVD_RATION_H
#define KVD_RATION_H

#include <stdbool.h>
#include <stdint.h>

#define RATION_PER_SECOND 20u

struct ration {
	uint64_t second;
	uint32_t used;
	uint32_t dropped;
};

/* May one more line be written now? *out_dropped: so many were not, since the last that was. */
bool ration_take(struct ration *r, uint64_t now_ns, uint32_t *out_dropped);

#endif
