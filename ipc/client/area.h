/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hands out byte ranges of one payload area of the session's memfd. A range is held from the
 * request to its reply, so there are never more than credits of them: a sorted array and first
 * fit are all that is needed.
 */
#ifndef IPC_CLIENT_AREA_H
#define IPC_CLIENT_AREA_H

#include <stdbool.h>
#include <stdint.h>

#define AREA_ALIGN 8u

struct area_range {
	uint32_t off;
	uint32_t bytes;
};

struct area {
	uint32_t base;
	uint32_t bytes;
	uint32_t live_count;
	uint32_t live_max;
	struct area_range *live; /* sorted, disjoint */
};

/* Covers [base, base + bytes), for at most live_max ranges at once. 0 or -ENOMEM. */
int area_init(struct area *a, uint32_t base, uint32_t bytes, uint32_t live_max);
void area_fini(struct area *a);
/* Takes `bytes`; false: no room. Zero bytes take nothing and are given back by doing nothing. */
bool area_take(struct area *a, uint32_t bytes, struct area_range *out);
/* Gives a range back, and clears it. True if it was this area's. */
bool area_give(struct area *a, struct area_range *range);
/* The most that area_take() would give now. */
uint32_t area_largest(const struct area *a);

#endif
