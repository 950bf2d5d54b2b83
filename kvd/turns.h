/* SPDX-License-Identifier: Apache-2.0 */
/* How long the turns of the loop take: a histogram of fixed size with quantiles. */
#ifndef KVD_TURNS_H
#define KVD_TURNS_H

#include <stdint.h>

/* Four buckets per power of two: a quantile is right within 25 %. */
#define TURNS_BUCKETS 256u
#define TURNS_HALVE_AT (1u << 18)

struct turns {
	uint64_t total;
	uint32_t buckets[TURNS_BUCKETS];
};

void turns_add(struct turns *t, uint64_t ns);
/* The upper edge of the bucket in which the quantile lies; 0 when there was no turn. */
uint64_t turns_quantile_ns(const struct turns *t, uint32_t permille);

#endif
