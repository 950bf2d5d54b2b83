/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kvd inside the test: engine/kv.h over an array of pages, with prefix hits, building blocks that
 * others follow, tails, eviction, a magazine, death and return. It is single threaded like the
 * real one's handle; only kv_wake() is called from elsewhere. Tests steer it through this header.
 */
#ifndef TESTS_KV_STANDIN_H
#define TESTS_KV_STANDIN_H

#include "engine/kv.h"

struct standin_counts {
	uint32_t acquires;
	uint32_t prefetches;
	uint32_t prefetch_tokens; /* of the last one */
	uint32_t extends;
	uint32_t takes;
	uint32_t answers;
	uint32_t sealed_blocks;
	uint32_t releases;
	uint32_t topups;
	uint32_t leases; /* alive */
	uint32_t free_pages;
	uint32_t node_pages; /* sealed, in the index */
};

/* Pages of the next kv_open() lie in that device's memory; NULL: the host's. */
void standin_device(const struct kernel_ops *ops);
/* Pages of the next kv_open(); one magazine refusal limit, UINT32_MAX for none. */
void standin_setup(uint32_t pages, uint32_t magazine_max);
void standin_counts(struct kv *kv, struct standin_counts *out);
/* An ACQUIRE without memory waits, and whoever comes later waits behind it. */
void standin_hold_acquires(struct kv *kv);
/* The daemon dies at the next kv_wait(); comes back, empty, when told. Any thread. */
void standin_die(struct kv *kv);
void standin_come_back(struct kv *kv);
/* Forgets everything that no lease holds. */
void standin_evict_all(struct kv *kv);
/* kvd wants the lease back. */
void standin_revoke(struct kvd_lease *lease);
/* The latest kv_open(). */
struct kv *standin_latest(void);

/* A lease of somebody else's, which builds and never seals until told. */
struct kvd_lease *standin_foreign_acquire(struct kv *kv, const uint32_t *tokens, uint32_t count);
void standin_foreign_seal(struct kv *kv, struct kvd_lease *lease, uint32_t blocks);
/* It is a tier's; its blocks come one by one, in order. */
void standin_foreign_loads(struct kvd_lease *lease);
void standin_foreign_fill(struct kv *kv, struct kvd_lease *lease, uint32_t block);
void standin_foreign_release(struct kv *kv, struct kvd_lease *lease);

#endif
