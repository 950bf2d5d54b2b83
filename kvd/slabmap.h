/* SPDX-License-Identifier: Apache-2.0 */
/* Which slab holds a page, and where: for those who move page bytes. */
#ifndef KVD_SLABMAP_H
#define KVD_SLABMAP_H

#include <stdint.h>

struct slabmap_slab {
	uint32_t first_page;
	uint32_t page_count;
	uint32_t device;
	uint32_t holds; /* pages whose bytes are being moved */
	uint64_t stride_bytes;
	uint64_t address;
};

/* Sorted by first_page; ranges do not overlap. */
struct slabmap {
	struct slabmap_slab *slabs;
	uint32_t count;
	uint32_t max;
};

/* 0 or -ENOMEM. */
int slabmap_init(struct slabmap *m, uint32_t max);
void slabmap_fini(struct slabmap *m);
void slabmap_add(struct slabmap *m, const struct slabmap_slab *slab);
/* Nothing of it may be held. A slab that was never added is fine: it could not be made. */
void slabmap_remove(struct slabmap *m, uint32_t first_page);
/* The slab that holds the page, or NULL. */
struct slabmap_slab *slabmap_find(const struct slabmap *m, uint32_t page);

#endif
